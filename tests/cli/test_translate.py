"""`zoo translate`: documents are translated, written beside the original, and refused before a model is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import zoo
from cli.app import run
from tests.conftest import Zoo
from zoo.generation import loading
from zoo.training.run import Run

INCLUDED = Path(zoo.__file__).parent / "included"


@pytest.fixture(autouse=True)
def _trained(trained: Callable[..., Run]) -> None:
    trained()


def test_the_translation_of_each_line_is_that_of_decode(zoo: Zoo) -> None:
    text = "we read two books\n\nthe old dog sees a house\n"
    Path("a.txt").write_text(text, "utf-8")
    result = zoo("translate", "a.txt", "--model", "runs/tiny")
    assert (result.status, result.out) == (0, ""), result.err
    assert "wrote a.de.txt" in result.err
    assert Path("a.de.txt").read_text("utf-8") == zoo("decode", "--model", "runs/tiny", stdin=text).out
    assert Path("a.txt").read_text("utf-8") == text


def test_markup_is_kept(zoo: Zoo) -> None:
    Path("a.html").write_text("<html lang='en'><p>we <b>read</b> <code>x</code></p>", "utf-8")
    result = zoo("translate", "a.html", "-o", "b.html", "--model", "runs/tiny")
    assert (result.status, "nothing to translate" in result.err) == (0, False)
    page = Path("b.html").read_text("utf-8")
    assert page.startswith("<html lang='de'><p>")
    assert page.endswith("<code>x</code></p>")
    assert page.count("<b>") == page.count("</b>") >= 1


def test_a_document_without_text_is_copied_and_says_so(zoo: Zoo) -> None:
    Path("a.html").write_text("<p>12</p><code>x</code>", "utf-8")
    result = zoo("translate", "a.html", "--model", "runs/tiny")
    assert (result.status, "warning: `a.html`: nothing to translate was found" in result.err) == (0, True), result.err
    assert Path("a.de.html").read_text("utf-8") == "<p>12</p><code>x</code>"


def test_sentences_to_check_are_counted(zoo: Zoo) -> None:
    """A model after a few steps is never sure."""
    Path("a.txt").write_text("we read two books. the dog sleeps.\n-\n", "utf-8")
    result = zoo("translate", "a.txt", "--model", "runs/tiny")
    assert result.status == 0
    assert "`a.txt`: sentences whose translations have a low probability: 2 (the first is" in result.err
    assert Path("a.de.txt").read_text("utf-8").splitlines()[1] == "-"
    assert zoo("translate", "a.txt", "--model", "runs/tiny", "--no-protect", "--yes").status == 0
    Path("a.md").write_text("we read `ls` books.\n", "utf-8")
    assert (
        "(the first is 'we read … books.'); check these translations"
        in zoo("translate", "a.md", "--model", "runs/tiny").err
    )
    assert "everyday and office sentences" in " ".join(zoo("translate", "--help").out.split())


def test_invalid_requests_are_explained(zoo: Zoo) -> None:
    Path("a.txt").write_text("we read", "utf-8")
    Path("a.pdf").write_bytes(b"")
    for arguments, message in (
        (["a.pdf"], "unknown format"),
        (["missing.txt"], "`missing.txt` does not exist"),
        (["a.txt", "missing.txt"], "`missing.txt` does not exist"),
        ([], "needs FILE|FOLDER"),
        (["a.txt", "--ouput", "b.txt"], "did you mean `--output`?"),
        (["a.txt", "-o", "b.html"], "must have the same format"),
        (["a.txt", "a.txt", "-o", "a.pdf"], "`a.pdf` is not a folder"),
        (["a.txt", "a.txt", "-o", "new.txt"], "`new.txt` is not a folder"),
        (["a.txt", "--to", "fr"], "fr"),
    ):
        assert message in zoo("translate", *arguments, "--model", "runs/tiny").refusal
    assert not list(Path().glob("*.de.*"))


def write(*paths: str, text: str = "we read") -> None:
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def written(folder: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def test_a_folder_keeps_its_structure(zoo: Zoo) -> None:
    write("in/a.txt", "in/b/c.MD", "in/b/d/e.html", "in/.git/f.txt", "in/.g.txt", "in/h.pdf", "i.txt")
    result = zoo("translate", "in", "i.txt", "-o", "out", "--model", "runs/tiny")
    assert (result.status, written("out")) == (0, ["a.txt", "b/c.MD", "b/d/e.html", "i.txt"]), result.err
    expected = zoo("decode", "--model", "runs/tiny", stdin="we read\n").out.strip()
    assert Path("out/a.txt").read_text("utf-8") == expected
    write("empty/h.pdf")
    assert "`empty` contains no documents" in zoo("translate", "empty", "--model", "runs/tiny").refusal


def test_several_documents_are_written_beside_the_originals_once(zoo: Zoo) -> None:
    write("in/a.txt", "in/b.md")
    assert zoo("translate", "in", "--model", "runs/tiny").status == 0
    assert written("in") == ["a.de.txt", "a.txt", "b.de.md", "b.md"]
    result = zoo("translate", "in", "in/a.txt", "--model", "runs/tiny", "--yes")
    assert (result.status, written("in")) == (0, ["a.de.txt", "a.txt", "b.de.md", "b.md"])
    assert result.err.count("wrote in/a.de.txt") == 1


def test_one_document_goes_to_a_folder(zoo: Zoo) -> None:
    write("a.txt")
    Path("b.x").mkdir()
    for folder in ("new", "b.x"):
        assert zoo("translate", "a.txt", "-o", folder, "--model", "runs/tiny").status == 0
        assert written(folder) == ["a.txt"]


def test_an_output_folder_inside_of_the_input_is_not_read(zoo: Zoo) -> None:
    write("in/a.txt", "in/out/old.txt")
    assert zoo("translate", "in", "-o", "in/out", "--model", "runs/tiny").status == 0
    assert written("in") == ["a.txt", "out/a.txt", "out/old.txt"]


def test_no_document_is_lost(zoo: Zoo) -> None:
    write("a/x.txt", "b/x.txt")
    for arguments, message in (
        (["a", "b", "-o", "out"], "two documents"),
        (["a", "-o", "a", "--yes"], "would replace"),
    ):
        assert message in zoo("translate", *arguments, "--model", "runs/tiny").refusal
    assert (written("a"), Path("a/x.txt").read_text("utf-8")) == (["x.txt"], "we read")


def test_an_existing_file_is_replaced_only_on_confirmation(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in/a.txt", "in/b.txt")
    write("in/a.de.txt", "in/b.de.txt", text="old")
    command = ["translate", "in", "--model", "runs/tiny"]
    result = zoo(*command)
    assert (result.status, "`in/a.de.txt` was not replaced" in result.err, "--yes" in result.err) == (2, True, True)
    for answer, status in (("n", "old"), ("", "old"), ("y", "new")):
        terminal = SimpleNamespace(isatty=lambda: True, readline=lambda answer=answer: answer)
        with monkeypatch.context() as context:
            context.setattr(sys, "stdin", terminal)
            assert run(command) == 0
        texts = [Path(path).read_text("utf-8") for path in ("in/a.de.txt", "in/b.de.txt")]
        assert [text == "old" for text in texts] == [status == "old"] * 2
    write("in/a.de.txt", text="old")
    assert zoo(*command, "--yes").status == 0
    assert Path("in/a.de.txt").read_text("utf-8") != "old"


def test_a_damaged_document_does_not_stop_the_others(zoo: Zoo) -> None:
    write("in/a.docx", "in/b.odt", "in/c.txt")
    result = zoo("translate", "in", "-o", "out", "--model", "runs/tiny")
    assert (result.status, written("out")) == (2, ["c.txt"])
    assert "in/a.docx" in result.err
    assert "in/b.odt" in result.err


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
