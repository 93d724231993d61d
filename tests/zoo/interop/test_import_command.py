"""`zoo import` as a shell sees it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zoo as library
from cli.app import run
from zoo.interop.imported import Answer

Zoo = Callable[..., Any]


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    def do(*arguments: str, stdin: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        status = run(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(status=status, out=said.out, err=said.err)

    return do


@pytest.fixture
def model(tiny: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model of Marian, where one is."""
    monkeypatch.chdir(tmp_path)
    spm = tiny.sentence_pieces(tiny.TEXT, 60)
    (tmp_path / "vocab.spm").write_bytes(spm)
    rows = tiny.opened(spm).get_piece_size()
    weights = tiny.marian_weights(tiny.OPTIONS, (rows, rows))
    weights["decoder_ff_logit_out_b"][0, 0] = 3.0  # so that translations end
    return tiny.write_marian(tmp_path, tiny.OPTIONS, weights)


def test_a_model_is_imported_and_translates(zoo: Zoo, model: Path) -> None:
    done = zoo("import", str(model), "--name", "mine", "--languages", "en", "de")
    assert done.status == 0, done.err
    folder = Path(done.out.strip())
    assert folder.name == "mine"
    assert "next: zoo decode --model mine" in done.err
    assert zoo("verify", "mine").status == 0
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["imported"]["format"] == "marian"
    assert "model.npz" in (folder / "README.md").read_text()
    assert "It translates `en` to `de`" in (folder / "README.md").read_text()
    translated = zoo("decode", "--model", "mine", "--backend", "eager", stdin="the old dog\na house\n")
    assert translated.status == 0
    assert len(translated.out.splitlines()) == 2
    spec = library.spec(folder / "spec.yaml")
    assert spec.name == "mine"
    again = zoo("import", str(model), "--name", "mine")
    assert again.status == 2
    assert "there is a published model `mine` already" in again.err
    assert zoo("import", str(model), "--name", "mine", "--replace").status == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "error: there is no `nothing`\n\nhint: "),
        (["vocab.spm"], "error: `vocab.spm` is of no format that is known here\n\nhint: the formats are "),
        (["model.npz", "--format", "maria"], "error: there is no format `maria`\n\nhint: did you mean `marian`? "),
        (["model.npz", "--name", "../x"], "error: `../x` cannot be the name of a model\n\nhint: "),
        (["model.npz", "--positions", "mine"], "error: `--positions mine` are nobody's\n\nhint: "),
        (
            ["model.npz", "--positions", "marian"],
            "error: `--positions` is for hf-marian, and this model is of marian\n\n",
        ),
        (
            ["nothing", "--languages", "en", "German"],
            "error: `--languages en German` are not two codes of languages\n\n",
        ),
        (
            ["model.npz", "--format", "ctranslate2"],
            "error: `model.npz` is a file, and a model of ctranslate2 is a folder",
        ),
        (["model.npz", "--format", "hf-marian"], "error: `model.npz` is a file, and a model of hf-marian is a folder"),
        (["nothing", "--format", "ctranslate2"], "error: there is no `nothing`\n\nhint: "),
        (["https://example.org/x.npz"], "error: `https://example.org/x.npz` is an address, and models are imported "),
        (["hf:alone"], "error: `hf:alone` is no model of the Hub\n\nhint: "),
    ],
)
def test_what_is_wrong_is_told_with_its_remedy(zoo: Zoo, model: Path, arguments: list[str], told: str) -> None:
    done = zoo("import", *arguments)
    assert done.status == 2
    assert told in done.err
    assert done.err.count("error: ") == 1
    assert not library.names()


def test_an_npz_that_is_cut_short_is_damaged(zoo: Zoo, model: Path) -> None:
    """Which is told before what is missing beside it."""
    model.write_bytes(model.read_bytes()[:-200])
    Path("vocab.spm").unlink()
    done = zoo("import", str(model))
    assert done.status == 1
    assert "model.npz` is damaged: it is no .npz" in done.err


def test_what_is_not_known_and_a_name_of_a_spec_are_noted(zoo: Zoo, model: Path) -> None:
    done = zoo("import", str(model), "--name", "base")
    assert "note: its languages are not known: `--languages en de` says them" in done.err
    assert "note: `base` is a shipped spec, too: `--model base` is this model, `--name` calls it otherwise" in done.err
    assert "--languages" not in Path(done.out.strip(), "README.md").read_text()
    assert "note:" not in zoo("import", str(model), "--name", "mine", "--languages", "en", "de").err


def test_a_check_needs_the_engine_and_sentences(zoo: Zoo, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lines.en").write_text("a house\n")
    monkeypatch.setattr("zoo.interop.comparison.find_spec", lambda name: None)
    done = zoo("import", str(model), "--check", "lines.en")
    assert done.status == 2
    assert "`pymarian` is not installed" in done.err
    Path("lines.en").write_text("\n\n")
    assert "has no sentence to check with" in zoo("import", str(model), "--check", "lines.en").err
    assert not library.names()


def test_a_format_without_an_engine_is_not_checked(zoo: Zoo, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that is said before the model is read."""
    Path("lines.en").write_text("a house\n")
    monkeypatch.setattr("zoo.interop.fairseq.format.Fairseq.read", lambda *_: pytest.fail("it was read"))
    done = zoo("import", str(model), "--format", "fairseq", "--check", "lines.en")
    assert done.status == 2
    assert "error: models of fairseq cannot be checked: zoo runs no engine of that format\n\nhint: " in done.err


def test_a_difference_that_is_no_number_is_another_model(
    zoo: Zoo, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the difference of a sentence before it is a small one."""

    class Engine:
        version = "a faulty engine"

        def __init__(self, *_: Any) -> None:
            pass

        def translate(self, texts: Sequence[str], beam: int | None = None) -> list[Answer]:
            return [Answer("", float("nan") if number else known, []) for number, _ in enumerate(texts)]

    Path("lines.en").write_text("a house\na dog\n")
    assert zoo("import", str(model), "--name", "before").status == 0
    known = library.load("before", backend="eager").score("a house", "")
    monkeypatch.setattr("zoo.interop.comparison.find_spec", lambda name: name)
    monkeypatch.setattr("zoo.interop.marian.format.Marian.open", Engine)
    done = zoo("import", str(model), "--name", "mine", "--check", "lines.en")
    assert done.status == 1
    assert "is another model than `a faulty engine` runs" in done.err
    assert library.names() == ["before"]


def test_names_of_files_are_words_on_the_card(zoo: Zoo, model: Path) -> None:
    strange = model.rename(model.with_name("[click](x) <b>!`m`.npz"))
    done = zoo("import", str(strange), "--name", "mine")
    assert done.status == 0, done.err
    folder = Path(done.out.strip())
    assert library.spec(folder / "spec.yaml").description == "Imported from Marian's click (x) b m .npz."
    card = (folder / "README.md").read_text()
    assert not [sign for sign in ("[click]", "<b>", "!`m`") if sign in card]


def test_it_is_trained_on(zoo: Zoo, model: Path) -> None:
    assert zoo("import", str(model), "--name", "mine", "--languages", "en", "de").status == 0
    spec = str(Path("home/models/mine/spec.yaml").absolute())
    bare = zoo("train", spec, "training.start_from=mine", "--run", "on")
    assert bare.status == 2
    assert "there is nothing to train on: `corpus.train` is empty" in bare.err
    settings = ["name=on", "training.start_from=mine", "training.steps=2", "training.checkpoint_steps=1"]
    settings += ["corpus.train=[{grammar: 20}]", "training.average=1", "training.dev_score=null"]
    done = zoo("train", spec, *settings, "--run", "on")
    assert done.status == 0, done.err
    assert np.isfinite(json.loads(Path("on/log.jsonl").read_text().splitlines()[-1])["loss"])


def test_a_model_with_two_sentence_models_is_read_again(zoo: Zoo, tiny: SimpleNamespace, tmp_path: Path) -> None:
    """Of one set of numbers: its bundle has both models, and a word is cut by its own side's."""
    models = tuple(tiny.sentence_pieces(tiny.TEXT[part], 45) for part in (slice(3), slice(3, 6)))
    names = dict.fromkeys(["</s>", "<unk>"])
    for each in map(tiny.opened, models):
        names |= dict.fromkeys(each.id_to_piece(number) for number in range(2, each.get_piece_size()))
    vocabulary = {name: number for number, name in enumerate([*names, "<pad>"])}
    rows = len(vocabulary) - 1
    weights = tiny.marian_weights(tiny.OPTIONS, (rows, rows))
    place = tiny.write_transformers(tmp_path / "hf", weights, vocabulary, models)
    done = zoo("import", str(place))
    assert done.status == 0, done.err
    assert "note: positions are Marian's own" in done.err
    folder = Path(done.out.strip())
    assert {file.name for file in folder.glob("vocabulary*")} == {"vocabulary.source.model", "vocabulary.target.model"}
    translator = library.load("hf", backend="eager")
    assert translator.vocabulary.same_on_both_sides
    for line, side, model in zip(("the old dog", "der alte Hund"), ("source", "target"), models, strict=True):
        cut = tiny.opened(model).encode(line, out_type=str)
        assert translator.vocabulary.token_strings(translator.vocabulary.encode(line, side)) == cut
    assert translator.score("the old dog", "der alte Hund") < 0
    (folder / "vocabulary.target.model").write_bytes((folder / "vocabulary.source.model").read_bytes())
    assert zoo("verify", "hf").status == 1
