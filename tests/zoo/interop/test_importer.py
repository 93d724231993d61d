"""Importing a model, from the command line to the bundle; its check by another engine; downloads from the Hub."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import zoo as library
from specs import ZooError
from tests.conftest import Zoo
from zoo.interop import importer
from zoo.report import Report

LONG = " ".join(["the old dog"] * 20)


@pytest.fixture
def model(tiny: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tiny Marian model in the current folder."""
    monkeypatch.chdir(tmp_path)
    spm = tiny.train_sentencepiece(tiny.TEXT)
    (tmp_path / "vocab.spm").write_bytes(spm)
    weights = tiny.marian_weights(tiny.MARIAN_OPTIONS, tiny.processor(spm).get_piece_size(), end_bias=3.0)
    return Path(tiny.write_marian(tmp_path, tiny.MARIAN_OPTIONS, weights))


@pytest.mark.integration
def test_imported_model_translates_and_is_trained_on(zoo: Zoo, model: Path) -> None:
    done = zoo("import", str(model), "--name", "mine", "--languages", "en", "de")
    assert done.status == 0, done.err
    folder = Path(done.out.strip())
    assert folder.name == "mine"
    assert "next: zoo decode --model mine" in done.err
    assert "note:" not in done.err
    assert zoo("verify", "mine").status == 0
    assert json.loads((folder / "facts.json").read_text())["imported"]["format"] == "marian"
    card = (folder / "README.md").read_text()
    assert "model.npz" in card
    translated = zoo("decode", "--model", "mine", "--backend", "eager", stdin="the old dog\na house\n")
    assert len(translated.out.splitlines()) == 2
    spec = str(folder / "spec.yaml")
    saved = library.spec(spec)
    assert (saved.name, saved.corpus.source, saved.corpus.target) == ("mine", "en", "de")
    again = zoo("import", str(model), "--name", "mine")
    assert again.status == 2
    assert "`mine`" in again.err
    assert zoo("import", str(model), "--name", "mine", "--languages", "en", "de", "--replace").status == 0
    without_corpus = zoo("train", spec, "training.start_from=mine", "--run", "on")
    assert without_corpus.status == 2
    assert "corpus.train" in without_corpus.err
    settings = ["name=on", "training.start_from=mine", "training.steps=2", "training.checkpoint_steps=1"]
    settings += ["corpus.train=[{grammar: 20}]", "training.average=1", "training.dev_score=null"]
    done = zoo("train", spec, *settings, "--run", "on")
    assert done.status == 0, done.err
    assert np.isfinite(json.loads(Path("on/log.jsonl").read_text().splitlines()[-1])["loss"])


def test_user_errors_have_hints(zoo: Zoo, model: Path) -> None:
    Path("other").mkdir()
    Path("other/text").write_text("x")
    for arguments, message in (
        (["nothing"], "error: `nothing` does not exist\n\nhint: "),
        (["opus-mt-de-fr"], "error: `opus-mt-de-fr` does not exist\n\nhint: `zoo pull opus-mt-de-fr` downloads"),
        (["other/text"], "error: `other/text` has no known model format\n\nhint: the formats are "),
        (["vocab.spm"], "error: `vocab.spm` is a part of a model\n\nhint: give the model's folder, `.`"),
        (["model.npz", "--format", "maria"], "error: `maria` is not an import format\n\nhint: did you mean `marian`? "),
        (["model.npz", "--name", "../x"], "error: `../x` is not a valid name for a model\n\nhint: "),
        (["model.npz", "--positions", "marian"], "error: `--positions` applies to hf-marian only"),
        (["model.npz", "--tokenizer", "penn"], "error: `--tokenizer` must be `moses` or `space`, not `penn`\n\nhint: "),
        (
            ["model.npz", "--bpe", "vocab.spm"],
            "its SentencePiece model splits raw text\n\nhint: leave these options out",
        ),
        (["nothing", "--languages", "en", "German"], "error: `--languages en German` are not two language codes\n\n"),
        (
            ["model.npz", "--format", "ctranslate2"],
            "error: `model.npz` is a file, but a model in the format ctranslate2",
        ),
        (["model.npz", "--format", "hf-marian"], "error: `model.npz` is a file, but a model in the format hf-marian"),
        (["nothing", "--format", "ctranslate2"], "error: `nothing` does not exist\n\nhint: "),
        (["https://example.org/x.npz"], "error: `https://example.org/x.npz` is a URL"),
        (["hf:alone"], "error: `hf:alone` is not a valid name of a model on the Hub\n\nhint: "),
    ):
        done = zoo("import", *arguments)
        assert done.status == 2
        assert message in done.err
        assert done.err.count("error: ") == 1
    assert not library.names()


def test_damaged_model_is_reported_before_missing_vocabulary(zoo: Zoo, model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-200])
    Path("vocab.spm").unlink()
    done = zoo("import", str(model))
    assert done.status == 1
    assert "model.npz` is not a valid model of marian" in done.err


@pytest.mark.integration
def test_notes_and_markup_in_file_names(zoo: Zoo, model: Path) -> None:
    done = zoo("import", str(model), "--name", "base")
    assert done.status == 0, done.err
    assert "note: the languages of the model are unknown" in done.err
    assert "note: `base` is also the name of a spec that zoo contains" in done.err
    assert "--languages" not in Path(done.out.strip(), "README.md").read_text()
    done = zoo("import", str(model.rename(model.with_name("[click](x) <b>!`m`.npz"))), "--name", "mine")
    folder = Path(done.out.strip())
    assert library.spec(folder / "spec.yaml").description == "Imported from Marian's click (x) b m .npz."
    card = (folder / "README.md").read_text()
    assert not [markup for markup in ("[click]", "<b>", "!`m`") if markup in card]


@pytest.mark.integration
def test_bundles_with_two_sentencepiece_models(zoo: Zoo, tiny: SimpleNamespace, tmp_path: Path) -> None:
    """Both sides share their token IDs, and each has its own SentencePiece model."""
    folder = tiny.TransformersFolder(tmp_path / "hf")
    done = zoo("import", str(folder.path))
    assert done.status == 0, done.err
    assert "note: the model uses the positions of Marian" in done.err
    bundle = Path(done.out.strip())
    assert {file.name for file in bundle.glob("vocabulary*")} == {"vocabulary.source.model", "vocabulary.target.model"}
    translator = library.load("hf", backend="eager")
    vocabulary = translator.vocabulary
    assert vocabulary.same_on_both_sides
    assert vocabulary.token_strings(vocabulary.encode("the old dog")) == folder.source.encode(
        "the old dog", out_type=str
    )
    target = vocabulary.encode("der alte Hund", "target")
    assert vocabulary.token_strings(target) == folder.target.encode("der alte Hund", out_type=str)
    assert translator.score("the old dog", "der alte Hund") < 0
    (bundle / "vocabulary.target.model").write_bytes((bundle / "vocabulary.source.model").read_bytes())
    assert zoo("verify", "hf").status == 1


def test_licence_comes_from_the_front_matter_of_a_card(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    assert importer.licence_of_card(tmp_path) is None
    for content, licence in (
        ("---\nlanguage: de\nlicense: apache-2.0\ntags:\n- marian\n---\n# Model\n", "apache-2.0"),
        ("---\r\nlicense: 'cc-by-4.0'\r\n---\r\n", "cc-by-4.0"),
        ("# Model\n\nlicense: mit\n", None),
        ("---\nlicense: mit\n", None),
        ("---\ntags: x\n---\nlicense: mit\n", None),
        ("---\nlicense:\n- mit\n- apache-2.0\n---\n", None),
        ("---\nlicense: </td><script>\n---\n", None),
        ("---\n" + "x: y\n" * 20_000 + "license: mit\n---\n", None),
        ("", None),
    ):
        card.write_bytes(content.encode())
        assert importer.licence_of_card(tmp_path) == licence
    (tmp_path / "model.npz").write_bytes(b"")
    card.write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    assert importer.licence_of_card(tmp_path / "model.npz") is None, (
        "the card of a folder need not describe a single file"
    )


FILES = {
    "config.json": b"{}",
    "source.spm": b"a model",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same weights, pickled",
    "tf_model.h5": b"and for another library",
    "sub/notes.json": b"{}",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Stand-in for the Hugging Face Hub with one model, `us/small`."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        content = FILES.get(path.removeprefix(f"/us/small/resolve/{COMMIT}/"))
        if "/tree/" in path:
            sizes = {name: len(file) for name, file in FILES.items()}
            tree = [{"type": "file", "path": name, "size": size, "oid": "0" * 40} for name, size in sizes.items()]
            content = json.dumps(tree).encode()
        elif path.startswith("/api/models/us/small"):
            siblings = [{"rfilename": name} for name in FILES]
            content = json.dumps({"id": "us/small", "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header("X-Error-Code", "RepoNotFound")
        else:
            self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if body and content:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def download(endpoint: str, home: Path, *sources: str) -> list[str]:
    """Return the printed result of each download. `huggingface_hub` reads its settings once per process."""
    code = "import sys; from zoo.report import Report; from zoo.interop import importer; from specs import ZooError\n"
    code += "for source in sys.argv[1:]:\n try: print(importer.download_from_hub(source, Report()))\n"
    code += " except ZooError as error: print(error.problem)"
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"}
    environment = {**os.environ, **settings, "ZOO_OFFLINE": ""}
    command = [sys.executable, "-c", code, *sources]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.integration
def test_needed_files_are_downloaded_from_the_hub(endpoint: str, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    path, unknown = download(endpoint, tmp_path, "hf:us/small", "hf:us/other")
    assert {file.name for file in Path(path).rglob("*")} == {"config.json", "source.spm", "model.safetensors"}
    assert Path(path, "model.safetensors").read_bytes() == b"weights"
    assert unknown.startswith("cannot download `hf:us/other`: ")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # a port on which nothing listens
        (unreachable,) = download(f"http://127.0.0.1:{closed.getsockname()[1]}", tmp_path / "empty", "hf:us/small")
    assert unreachable.startswith("cannot download `hf:us/small`: ")


def test_invalid_names_and_offline_mode_are_rejected_before_a_request() -> None:
    for source in ("hf:", "hf:alone", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:a /b"):
        with pytest.raises(ZooError, match="is not a valid name of a model on the Hub"):
            importer.download_from_hub(source, Report())
    with pytest.raises(ZooError, match="ZOO_OFFLINE"):
        importer.download_from_hub("hf:us/small", Report())
