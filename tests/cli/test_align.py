"""`zoo align`: word alignments of pairs from stdin and from files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Zoo
from zoo.training.run import Run

PAIRS = [("the old dog sleeps", "der alte Hund schläft"), ("", ""), ("we read", "wir lesen")]


@pytest.fixture(autouse=True)
def run(trained: Callable[..., Run]) -> Run:
    return trained()


def test_each_pair_gives_a_line_of_links(zoo: Zoo) -> None:
    result = zoo("align", "runs/tiny", stdin="".join(f"{source}\t{target}\n" for source, target in PAIRS))
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert [bool(line) for line in lines] == [True, False, True]
    for line, (source, target) in zip(lines, PAIRS, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(one < len(source.split()) and other < len(target.split()) for one, other in links)
        assert len({other for _, other in links}) == len(links)


def test_files_and_json(zoo: Zoo) -> None:
    Path("a.en").write_text("".join(f"{source}\n" for source, _ in PAIRS), "utf-8")
    Path("a.de").write_text("".join(f"{target}\n" for _, target in PAIRS), "utf-8")
    files = ["--source", "a.en", "--target", "a.de", "--output", "out.json"]
    assert zoo("align", "--model", "runs/tiny", *files, "--json").status == 0
    first, empty, _ = (json.loads(line) for line in Path("out.json").read_text("utf-8").splitlines())
    assert empty == []
    start, end = first[0]["target"]
    assert re.match(r"d|er", PAIRS[0][1][start:end])
    assert 0 < first[0]["weight"] <= 1
