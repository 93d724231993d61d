"""`attend` as a shell sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from zoo.training.run import Run
from zoo.visualization.attention_view import FIGURES

Zoo = Callable[..., Any]
TEXT = "the old dog sees"


@pytest.fixture(autouse=True)
def run(trained: Callable[..., Run]) -> Run:
    return trained()


def test_a_page_and_a_drawing_are_written_and_what_was_attended_is_said(zoo: Zoo) -> None:
    done = zoo("attend", "--model", "runs/tiny", TEXT, "-o", "a.html", "--svg", "a.svg", "--target", "der alte Hund")
    assert (done.status, done.out) == (0, "")
    assert "attended: the translation that was given, `der alte Hund`; weights by eager in float32" in done.err
    assert f"<bdi>{TEXT}</bdi>" in Path("a.html").read_text(encoding="utf-8")
    ElementTree.parse("a.svg")


def test_it_takes_the_place_of_what_was_there(zoo: Zoo) -> None:
    Path("a.html").write_text("before")
    done = zoo("attend", "--model", "runs/tiny", TEXT, "--output", "a.html")
    assert done.status == 0
    assert "the model's own translation" in done.err
    assert Path("a.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_figure_of_the_paper(zoo: Zoo, trained: Callable[..., Run]) -> None:
    done = zoo("attend", "--model", "runs/tiny", "--figure", "3", "--svg", "a.svg")
    assert done.status == 0
    assert "making" in Path("a.svg").read_text(encoding="utf-8")
    assert (
        zoo("attend", "--model", "runs/tiny", "--figure", "4", "--layer", "2", "--head", "1", "-o", "a.html").status
        == 0
    )
    text = Path("a.html").read_text(encoding="utf-8")
    assert re.search(r'"layer":2,"heads":\[0\],"word":\d', text), "the figure's word, in another layer"
    assert zoo("attend", "--model", "runs/tiny", "--figure", "4", "--attention", "decoder", "-o", "a.html").status == 0
    assert '"word":null' in Path("a.html").read_text(encoding="utf-8")
    shape = {"N": {"encoder": 6, "decoder": 2}, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4}
    deep = trained("runs/deep", architecture=shape)
    done = zoo("attend", "--model", str(deep.folder), "--figure", "4", "--attention", "encoder-decoder", "-o", "b.html")
    assert (done.status, '"layer":1' in Path("b.html").read_text(encoding="utf-8")) == (0, True), done.err
    assert FIGURES[4].sentence in Path("a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([TEXT], "nothing is to be written"),
        (["-o", "a.html"], "the sentence is missing"),
        ([TEXT, "--figure", "3", "-o", "a.html"], "the sentence is given, and so is a figure's"),
        (["", "-o", "a.html"], "there is no word to attend to"),
        ([TEXT, "-o", "."], "it is a folder"),
        ([TEXT, "-o", "none/a.html"], "there is no folder"),
        ([TEXT, "--svg", "a.png"], "does not end in .svg"),
        ([TEXT, "--svg", "a.svg", "-o", "a.svg"], "would be written twice"),
        ([TEXT, "-o", "a.html", "--layer", "3"], "there is no layer 3"),
        ([TEXT, "-o", "a.html", "--head", "3"], "there is no head 3"),
        ([TEXT, "-o", "a.html", "--word", "cat"], "`cat` is no word of the sentence"),
        ([TEXT, "-o", "a.html", "--attention", "both"], "`both` is no attention of this model"),
        ([TEXT, "-o", "a.html", "--figure", "6"], "`--figure`"),
        (["a\nb", "-o", "a.html"], "has a line break in it"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_written(zoo: Zoo, arguments: list[str], told: str) -> None:
    done = zoo("attend", "--model", "runs/tiny", *arguments)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert "hint: " in done.err
    assert not list(Path().glob("*.html")) + list(Path().glob("*.svg")) + list(Path().glob("*partial*"))
