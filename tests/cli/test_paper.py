"""`zoo paper`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Trained, Zoo


def test_summary_counts_the_claims(zoo: Zoo) -> None:
    result = zoo("paper")
    values = json.loads(zoo("paper", "--json").out)
    for status, count in values["summary"].items():
        assert sum(claim["status"] == status for claim in values["claims"]) == count
        assert str(count) in next(line for line in result.printed.splitlines() if line.startswith("all"))
    assert values["summary"]["another system's"] == 35
    assert len(result.out.splitlines()) < 40, "a summary, not every claim"
    assert "wavelengths end at, times 2π" in result.out, "what comes out differently is named"
    assert "`zoo paper claims` prints every claim" in result.err


def test_rows_without_scores_have_the_command_that_adds_them(zoo: Zoo) -> None:
    Path("elsewhere").mkdir()
    printed = [zoo("paper", f"table{number}", "--runs", "elsewhere").printed for number in (1, 2, 3, 4)]
    assert [table[:8] for table in printed] == ["Table 1:", "Table 2:", "Table 3:", "Table 4:"]
    assert "zoo train table3/big --run elsewhere/big" in printed[2]


def test_runs_and_claims_as_json(zoo: Zoo, trained: Trained) -> None:
    trained("sweep/one")
    values = json.loads(zoo("paper", "table2", "--json", "--runs", "sweep").out)
    assert {claim["claim"].partition(".")[0] for claim in values["claims"]} == {"table2"}
    base = next(claim for claim in values["claims"] if claim["claim"] == "table2.transformer-base.en-de.flops")
    assert base["printed"] == [{"value": 3.3e18, "text": "3.3e18", "where": ""}]
    assert base["spec"] == "base"


def test_page_has_the_plots(zoo: Zoo) -> None:
    result = zoo("paper", "--html", "paper.html")
    assert (result.status, result.out) == (0, "paper.html\n")
    assert Path("paper.html").read_text(encoding="utf-8").count("<figure") == 6


@pytest.mark.parametrize("arguments", [["--runs", "nowhere"], ["--html", "a.pdf"], ["--html", "no/a.html"]])
def test_errors_have_hints(zoo: Zoo, arguments: list[str]) -> None:
    assert re.match("error: .*\n\nhint: ", zoo("paper", *arguments).refusal)
