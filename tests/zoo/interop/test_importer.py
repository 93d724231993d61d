"""Importing a model, from the command line to the bundle; its check by another engine; downloads from the Hub."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import zoo as library
from tests.conftest import Zoo
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.huggingface.hub import HubModel, licence_of_card
from zoo.report import Report


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tiny Marian model in the current folder."""
    monkeypatch.chdir(tmp_path)
    size = tiny.write_sentencepiece(tmp_path / "vocab.spm").get_piece_size()
    weights = tiny.marian_weights(tiny.MARIAN_OPTIONS, size, end_bias=3.0)
    return tiny.write_marian(tmp_path, tiny.MARIAN_OPTIONS, weights)


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
    assert "model.npz" in (folder / "README.md").read_text()
    translated = zoo("decode", "--model", "mine", "--backend", "eager", stdin="the old dog\na house\n")
    assert len(translated.out.splitlines()) == 2
    spec = str(folder / "spec.yaml")
    saved = library.spec(spec)
    assert (saved.name, saved.corpus.source, saved.corpus.target) == ("mine", "en", "de")
    assert "`mine`" in zoo("import", str(model), "--name", "mine").refusal
    assert zoo("import", str(model), "--name", "mine", "--languages", "en", "de", "--replace").status == 0
    assert "corpus.train" in zoo("train", spec, "training.start_from=mine", "--run", "on").refusal
    training = "{start_from: mine, steps: 2, checkpoint_steps: 1, average: 1, dev_score: null}"
    settings = ["name=on", f"training={training}", "corpus.train=[{grammar: 20}]"]
    assert zoo("train", spec, *settings, "--run", "on").printed == ""
    assert np.isfinite(json.loads(Path("on/log.jsonl").read_text().splitlines()[-1])["loss"])


def test_user_errors_have_hints(zoo: Zoo, model: Path) -> None:
    Path("other").mkdir()
    Path("other/text").write_text("x")
    for arguments, message in (
        (["nothing"], "error: `nothing` does not exist\n\nhint: "),
        (["opus-mt-de-fr"], "error: `opus-mt-de-fr` does not exist\n\nhint: run `zoo pull opus-mt-de-fr` to download"),
        (["other/text"], "error: `other/text` is not in a known model format\n\nhint: supported formats: "),
        (["vocab.spm"], "error: `vocab.spm` is only part of a model\n\nhint: use the model's folder, `.`"),
        (["model.npz", "--format", "maria"], "error: `maria` is not an import format\n\nhint: did you mean `marian`? "),
        (["model.npz", "--name", "../x"], "error: `../x` is not a valid name for a model\n\nhint: "),
        (["model.npz", "--positions", "marian"], "error: `--positions` is for hf-marian only"),
        (["model.npz", "--bpe", "vocab.spm"], "its SentencePiece model splits raw text\n\nhint: omit these options"),
        (["nothing", "--languages", "en", "German"], "error: `--languages en German` must be two language codes\n\n"),
        (["model.npz", "--format", "ctranslate2"], "error: `model.npz` is a file, but a model in ctranslate2 format"),
        (["https://example.org/x.npz"], "error: `https://example.org/x.npz` is a URL"),
    ):
        refusal = zoo("import", *arguments).refusal
        assert message in refusal
        assert refusal.count("error: ") == 1
    assert not library.names()


def test_damaged_model_is_reported_before_missing_vocabulary(zoo: Zoo, model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-200])
    Path("vocab.spm").unlink()
    done = zoo("import", str(model))
    assert done.status == 1
    assert "model.npz` is not a valid marian model" in done.err


@pytest.mark.integration
def test_notes_and_markup_in_file_names(zoo: Zoo, model: Path) -> None:
    done = zoo("import", str(model), "--name", "base")
    assert done.status == 0, done.err
    assert "note: the languages of the model are unknown" in done.err
    assert "note: `base` is also the name of a spec included in zoo" in done.err
    assert "--languages" not in Path(done.out.strip(), "README.md").read_text()
    done = zoo("import", str(model.rename(model.with_name("[click](x) <b>!`m`.npz"))), "--name", "mine")
    folder = Path(done.out.strip())
    assert library.spec(folder / "spec.yaml").description == "Imported from Marian's click (x) b m .npz."
    card = (folder / "README.md").read_text()
    assert not [markup for markup in ("[click]", "<b>", "!`m`") if markup in card]


@pytest.mark.integration
def test_bundles_with_two_sentencepiece_models(zoo: Zoo, tmp_path: Path) -> None:
    """Both sides share their token IDs, and each has its own SentencePiece model."""
    folder = tiny.TransformersFolder(tmp_path / "hf")
    done = zoo("import", str(folder.path))
    assert "note: the model uses Marian's positions" in done.err
    bundle = Path(done.out.strip())
    assert {file.name for file in bundle.glob("vocabulary*")} == {"vocabulary.source.model", "vocabulary.target.model"}
    translator = library.load("hf", backend="eager")
    vocabulary = translator.vocabulary
    assert vocabulary.same_on_both_sides
    for processor, side, text in ((folder.source, "source", "the old dog"), (folder.target, "target", "der alte Hund")):
        assert vocabulary.token_strings(vocabulary.encode(text, side)) == processor.encode(text, out_type=str)
    assert translator.score("the old dog", "der alte Hund") < 0
    (bundle / "vocabulary.target.model").write_bytes((bundle / "vocabulary.source.model").read_bytes())
    assert zoo("verify", "hf").status == 1


def test_licence_comes_from_the_front_matter_of_a_card(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    assert licence_of_card(tmp_path) is None
    for content, licence in (
        ("---\nlanguage: de\nlicense: apache-2.0\ntags:\n- marian\n---\n# Model\n", "apache-2.0"),
        ("---\r\nlicense: 'cc-by-4.0'\r\n---\r\n", "cc-by-4.0"),
        ("# Model\n\nlicense: mit\n", None),
        ("---\nlicense: mit\n", None),
        ("---\ntags: x\n---\nlicense: mit\n", None),
        ("---\nlicense:\n- mit\n- apache-2.0\n---\n", None),
        ("---\nlicense: </td><script>\n---\n", None),
        ("---\n" + "x: y\n" * 20_000 + "license: mit\n---\n", None),
    ):
        card.write_bytes(content.encode())
        assert licence_of_card(tmp_path) == licence
    (tmp_path / "model.npz").write_bytes(b"")
    card.write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    # The card of a folder need not describe a single file.
    assert licence_of_card(tmp_path / "model.npz") is None


def test_needed_files_are_downloaded_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub has the model `us/small` only. The client of the Hub is not what this test is about."""
    hub = pytest.importorskip("huggingface_hub")
    names = ["config.json", "source.spm", "model.safetensors", "pytorch_model.bin", "tf_model.h5", "sub/notes.json"]

    def model_info(api: object, name: str, revision: str | None) -> SimpleNamespace:
        if name != "us/small":
            raise hub.errors.OfflineModeIsEnabled("not found\nRequest ID: 1")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=each) for each in names])

    calls: list[tuple[object, ...]] = []
    monkeypatch.delenv("ZOO_OFFLINE")
    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(hub, "snapshot_download", lambda *given, **options: calls.append((*given, options)) or "folder")
    assert HubModel("us/small", "v1").download(Report()) == Path("folder")
    needed = ["config.json", "source.spm", "model.safetensors"]
    assert calls == [("us/small", {"revision": "v1", "allow_patterns": needed})]
    refused(r"cannot download `hf:us/other`: not found\n", HubModel("us/other").download, Report())


def test_invalid_names_and_offline_mode_are_rejected_before_a_request() -> None:
    for source in ("hf:", "hf:alone", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:a /b"):
        refused("is not a valid Hugging Face model name", HubModel.parse, source)
    refused("ZOO_OFFLINE", HubModel("us/small").download, Report())
