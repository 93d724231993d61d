"""`zoo search`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.training.run import Run

Zoo = Callable[..., Any]
TEXT = "the old dog sees a house"


@pytest.fixture(autouse=True)
def run(trained: Callable[..., Run]) -> Run:
    return trained()


@pytest.mark.parametrize("options", [[], ["--beam", "1"], ["--beam", "7", "--alpha", "2"]])
def test_the_result_is_that_of_decode(zoo: Zoo, options: list[str]) -> None:
    model = ["--model", "runs/tiny", *options]
    decoded = zoo("decode", *model, stdin=TEXT).out
    result = zoo("search", *model, TEXT)
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] + "\n" == decoded
    assert lines[3].split() == ["hypothesis", "log", "p", "total", "penalty", "score", "outcome"]
    assert sum(line.endswith("  result") for line in lines) == 1
    assert "The search stopped" in lines[-1]


def test_a_page_is_written(zoo: Zoo) -> None:
    result = zoo("search", "--model", "runs/tiny", TEXT, "-o", "search.html", "--beam", "3")
    assert (result.status, result.out) == (0, ""), result.err
    assert "search for `" in result.err
    page = Path("search.html").read_text(encoding="utf-8")
    assert f"<bdi>{TEXT}</bdi>" in page
    assert "outcome" in page.lower()


def test_invalid_requests_write_nothing(zoo: Zoo) -> None:
    for arguments in (["", "-o", "a.html"], [TEXT, "-o", "a.svg"], [TEXT, "--beam", "0"], ["a\nb"], [TEXT, "-o", "."]):
        result = zoo("search", "--model", "runs/tiny", *arguments)
        assert (result.status, result.out, "hint: " in result.err) == (2, "", True), (arguments, result)
        assert not list(Path().glob("*.html"))


def test_several_sentences_need_no_split(zoo: Zoo) -> None:
    text = "We read two books today. She does not know the man."
    result = zoo("search", "--model", "runs/tiny", text)
    assert result.status == 2
    assert "translated in 2 parts" in result.err
    assert "--no-split" in result.err
    whole = zoo("search", "--model", "runs/tiny", "--no-split", text)
    assert whole.out.splitlines()[0] == zoo("decode", "--model", "runs/tiny", "--no-split", stdin=text).out.strip("\n")
