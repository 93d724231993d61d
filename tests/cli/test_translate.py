"""`zoo translate`: documents are translated, written beside the original, and refused before a model is loaded."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import zoo
from cli.app import run
from tests.conftest import Trained, Zoo, missing
from zoo.generation import loading

INCLUDED = Path(zoo.__file__).parent / "included"


@pytest.fixture
def translate(zoo: Zoo, trained: Trained) -> Zoo:
    """A function that runs `zoo translate` with a model."""
    trained()
    return partial(zoo, "translate", "--model", "runs/tiny")


def write(*paths: str, text: str = "we read") -> None:
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def written(folder: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def test_the_translation_of_each_line_is_that_of_decode(zoo: Zoo, translate: Zoo) -> None:
    text = "we read two books\n\nthe old dog sees a house\n"
    write("a.txt", text=text)
    result = translate("a.txt")
    assert (result.printed, "wrote a.de.txt" in result.err) == ("", True)
    assert Path("a.de.txt").read_text("utf-8") == zoo("decode", "--model", "runs/tiny", stdin=text).out
    assert Path("a.txt").read_text("utf-8") == text


def test_a_document_without_text_is_copied_and_says_so(translate: Zoo) -> None:
    write("a.html", text="<p>12</p><code>x</code>")
    result = translate("a.html")
    assert (result.status, "warning: `a.html`: nothing to translate was found" in result.err) == (0, True), result.err
    assert Path("a.de.html").read_text("utf-8") == "<p>12</p><code>x</code>"


def test_sentences_to_check_are_counted(translate: Zoo) -> None:
    """A model after a few steps is never sure."""
    write("a.txt", text="we read two books. the dog sleeps.\n-\n")
    write("a.md", text="we read `ls` books.\n")
    result = translate("a.txt")
    assert "`a.txt`: sentences whose translations have a low probability: 2 (the first is" in result.err
    assert Path("a.de.txt").read_text("utf-8").splitlines()[1] == "-"
    assert translate("a.txt", "--no-protect", "--yes").status == 0
    assert "(the first is 'we read … books.'); check these translations" in translate("a.md").err
    assert "everyday and office language" in " ".join(translate("--help").out.split())


def test_invalid_requests_are_explained(translate: Zoo) -> None:
    write("a.txt")
    for arguments, message in (
        (["a.txt", "missing.txt"], "`missing.txt` does not exist"),
        (["a.txt", "-o", "b.html"], "must have the same format"),
        (["a.txt", "-o", "-"], "`-` is not supported"),
        (["-"], "`-` is not supported"),
        (["a.txt", "-o", "new/b.txt"], "the folder `new` does not exist"),
        (["a.txt", "a.txt", "-o", "a.txt"], "`a.txt` is not a folder"),
        (["a.txt", "a.txt", "-o", "new.txt"], "`new.txt` is not a folder"),
        (["a.txt", "--to", "fr"], "fr"),
    ):
        assert message in translate(*arguments).refusal
    assert not list(Path().glob("*.de.*"))


def test_a_folder_keeps_its_structure(zoo: Zoo, translate: Zoo) -> None:
    write("in/a.txt", "in/b/c.MD", "in/b/d/e.html", "in/.git/f.txt", "in/.g.txt", "in/~$g.txt", "in/h.pdf", "i.txt")
    result = translate("in", "i.txt", "-o", "out")
    assert (result.status, written("out")) == (0, ["a.txt", "b/c.MD", "b/d/e.html", "i.txt"]), result.err
    expected = zoo("decode", "--model", "runs/tiny", stdin="we read\n").out.strip()
    assert Path("out/a.txt").read_text("utf-8") == expected
    write("empty/h.pdf")
    assert "`empty` contains no documents" in translate("empty").refusal


def test_several_documents_are_written_beside_the_originals_once(translate: Zoo) -> None:
    write("in/a.txt", "in/b.md")
    for arguments in (["in"], ["in", "in/a.txt", "--yes"]):
        assert translate(*arguments).err.count("wrote in/a.de.txt") == 1
        assert written("in") == ["a.de.txt", "a.txt", "b.de.md", "b.md"]


def test_one_document_goes_to_a_folder(translate: Zoo) -> None:
    write("a.txt")
    Path("b.x").mkdir()
    for folder in ("new", "b.x"):
        assert translate("a.txt", "-o", folder).status == 0
        assert written(folder) == ["a.txt"]


def test_an_output_folder_inside_of_the_input_is_not_read(translate: Zoo) -> None:
    write("in/a.txt", "in/out/old.txt")
    assert translate("in", "-o", "in/out").status == 0
    assert written("in") == ["a.txt", "out/a.txt", "out/old.txt"]


def test_no_document_is_lost(translate: Zoo) -> None:
    write("a/x.txt", "b/x.txt")
    assert "two translations" in translate("a", "b", "-o", "out").refusal
    assert "would replace" in translate("a", "-o", "a", "--yes").refusal
    assert (written("a"), Path("a/x.txt").read_text("utf-8")) == (["x.txt"], "we read")


def test_an_existing_file_is_replaced_only_on_confirmation(translate: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in/a.txt", "in/b.txt")
    write("in/a.de.txt", "in/b.de.txt", text="old")
    assert not missing(translate("in").refusal, "`in/a.de.txt` was not replaced", "--yes")
    for answer, replaced in (("n", False), ("", False), ("y", True)):
        with monkeypatch.context() as context:
            context.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda answer=answer: answer))
            assert run(["translate", "in", "--model", "runs/tiny"]) == 0
        texts = [Path(path).read_text("utf-8") for path in ("in/a.de.txt", "in/b.de.txt")]
        assert [text != "old" for text in texts] == [replaced] * 2
    write("in/a.de.txt", text="old")
    assert (translate("in", "--yes").status, Path("in/a.de.txt").read_text("utf-8") == "old") == (0, False)


def test_a_damaged_document_does_not_stop_the_others(translate: Zoo) -> None:
    write("in/a.docx", "in/b.odt", "in/c.txt")
    error = translate("in", "-o", "out").refusal
    assert (written("out"), missing(error, "in/a.docx", "in/b.odt")) == (["c.txt"], [])


def test_the_included_model_is_the_default(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.models.registries.registry.INCLUDED", INCLUDED)
    write("a.txt")
    for arguments in (["--to", "it"], []):
        assert "--to" in zoo("translate", "a.txt", *arguments).refusal
    opened = []
    monkeypatch.setattr(loading, "open_model", lambda folder, **_: opened.append(folder) or sys.exit(0))
    for options in (["--to", "de"], ["--from", "EN", "--to", "de-AT"]):
        with pytest.raises(SystemExit):
            zoo("translate", "a.txt", *options)
    assert [folder.name for folder in opened] == ["everyday"] * 2
