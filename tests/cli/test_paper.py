"""`zoo paper` as a shell sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.training.run import Run

Zoo = Callable[..., Any]


def test_paper_sums_up_and_tells_every_claim(zoo: Zoo) -> None:
    done = zoo("paper")
    assert (done.status, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    derived = next(int(line[-1]) for line in lines if line[:3] == ["derived", "and", "checked"])
    assert derived == done.out.count("derived and checked") - 1
    assert "the last pair of the formula's" in done.out


def test_paper_prints_table_3(zoo: Zoo) -> None:
    done = zoo("paper", "table3")
    assert done.out.splitlines()[:4] == [
        "Table 3: variations of the base model, newstest2013",
        "   row                                                                 M parameters    ours  as printed with "
        "tokens  perplexity  ours  BLEU  ours  measured",
        "   base: N=6, d_model=512, d_ff=2048, h=8, d_k=d_v=64                            65   63.05        39,841 to "
        "41,793        4.92     -  25.8     -  -",
        "A  h=1, d_k=d_v=512                                                               -   63.05                "
        "       -        5.29     -  24.9     -  -",
    ]
    assert "41,004 to 41,208 tokens" in done.err


@pytest.mark.parametrize("table", ["table1", "table2", "table4"])
def test_paper_prints_the_other_tables(zoo: Zoo, table: str) -> None:
    done = zoo("paper", table)
    assert (done.status, done.out.splitlines()[0].partition(":")[0]) == (0, f"Table {table[-1]}")


def test_paper_measures_by_the_runs_there_are(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("sweep/one")
    assert "sweep/one" not in zoo("paper", "table2").out
    told = json.loads(zoo("paper", "table2", "--json", "--runs", "sweep").out)
    assert told["summary"]["measured here"] == 0
    assert {claim["claim"].partition(".")[0] for claim in told["claims"]} == {"table2"}
    base = next(claim for claim in told["claims"] if claim["claim"] == "table2.transformer-base.en-de.flops")
    assert base["status"] == "derived and checked"
    assert base["printed"] == [{"value": 3.3e18, "text": "3.3e18", "where": ""}]
    assert base["spec"] == "base"


def test_paper_writes_a_page(zoo: Zoo) -> None:
    done = zoo("paper", "--html", "paper.html")
    assert (done.status, done.out) == (0, "paper.html\n")
    assert Path("paper.html").read_text(encoding="utf-8").count("<svg") == 6


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["table5"], "error: `table5` is no table of the paper's\n\nhint: did you mean `table"),
        (["--runs", "nowhere"], "error: there is no folder `nowhere`\n\nhint: `--runs DIR` names a folder"),
        (["--measure", "--html", "a.pdf"], "error: `a.pdf` does not end in .html\n\nhint: "),
        (
            ["--measure", "--html", "no/a.html"],
            "error: `no/a.html` cannot be written: there is no folder `no`\n\nhint: ",
        ),
        (["table1", "--html", "a.html"], "error: `--html` is a page of all there is\n\nhint: "),
    ],
)
def test_paper_tells_what_is_wrong_before_anything_is_measured(
    zoo: Zoo, arguments: list[str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.paper._timed", lambda: pytest.fail("layers are timed"))
    done = zoo("paper", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(error)
