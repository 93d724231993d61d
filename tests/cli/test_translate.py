"""`zoo translate`: documents are translated, written beside the original, and refused before a model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.training.run import Run

Zoo = Callable[..., Any]


@pytest.fixture(autouse=True)
def run(trained: Callable[..., Run]) -> Run:
    return trained()


def test_the_translation_of_each_line_is_that_of_decode(zoo: Zoo) -> None:
    text = "we read two books\n\nthe old dog sees a house\n"
    Path("a.txt").write_text(text, "utf-8")
    result = zoo("translate", "a.txt", "--model", "runs/tiny")
    assert (result.status, result.out) == (0, ""), result.err
    assert "wrote a.de.txt" in result.err
    assert Path("a.de.txt").read_text("utf-8") == zoo("decode", "--model", "runs/tiny", stdin=text).out
    assert Path("a.txt").read_text("utf-8") == text


def test_markup_is_kept(zoo: Zoo) -> None:
    Path("a.html").write_text("<p>we <b>read</b> <code>x</code></p>", "utf-8")
    assert zoo("translate", "a.html", "-o", "b.html", "--model", "runs/tiny").status == 0
    page = Path("b.html").read_text("utf-8")
    assert page.startswith("<p>")
    assert page.endswith("<code>x</code></p>")
    assert page.count("<b>") == page.count("</b>") >= 1


def test_invalid_requests_are_explained(zoo: Zoo) -> None:
    Path("a.txt").write_text("we read", "utf-8")
    Path("a.pdf").write_bytes(b"")
    for arguments, message in (
        (["a.pdf"], "no suffix of a known format"),
        (["missing.txt"], "`missing.txt` is not a file"),
        (["a.txt", "-o", "b.html"], "another format"),
        (["a.txt", "--to", "fr"], "fr"),
    ):
        result = zoo("translate", *arguments, "--model", "runs/tiny")
        assert (result.status, message in result.err) == (2, True), (arguments, result)
    assert not list(Path().glob("*.de.*"))
