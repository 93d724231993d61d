"""`zoo align`: word alignments of pairs from stdin and from files."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.conftest import Trained, Zoo
from tests.examples import write_pairs

PAIRS = [("the old dog sleeps", "der alte Hund schläft"), ("", ""), ("we read", "wir lesen")]


def test_each_pair_gives_a_line_of_links_or_json(zoo: Zoo, trained: Trained) -> None:
    trained()
    stdin = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    lines = zoo("align", "tiny", stdin=stdin).printed.splitlines()
    assert [bool(line) for line in lines] == [True, False, True]
    for line, (source, target) in zip(lines, PAIRS, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(one < len(source.split()) and other < len(target.split()) for one, other in links)
        assert len({other for _, other in links}) == len(links)
    write_pairs(PAIRS)
    files = ["--source", "pairs.en", "--target", "pairs.de", "--output", "out.json"]
    assert zoo("align", "--model", "runs/tiny", *files, "--json").status == 0
    first, empty, _ = (json.loads(line) for line in Path("out.json").read_text("utf-8").splitlines())
    assert empty == []
    start, end = first[0]["target"]
    assert re.match(r"d|er", PAIRS[0][1][start:end])
    assert 0 < first[0]["weight"] <= 1
    sentences = "We read. We sleep.\tWir lesen. Wir schlafen.\n"
    failed = zoo("align", "tiny", stdin=f"{sentences}we\t{'wir ' * 9_999}\n")
    assert (failed.status, failed.out) == (2, zoo("align", "tiny", stdin=sentences).out)
    assert re.match(r"error: pair 2 has a target of .* \(<stdin>:2\)", failed.err), failed.err
