"""What is said of rows whose scores are made up: which of the paper's orderings they confirm."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from zoo.paper.sweep_report import pair_table, row_table, sweep_json, sweep_notes
from zoo.training.sweeps.comparison import METRICS, RowResult, ScoreSample, SeedVariance, SweepComparison, row_pairs
from zoo.training.sweeps.rows import make_rows

MADE_UP = {  # perplexity, BLEU: the paper has 4.92 / 25.8, 5.29 / 24.9, 6.11 / 23.7, 5.19 / 25.3, 4.92 / 25.7
    "base": (9.0, 20.0),
    "a-h1": (8.0, 20.1),
    "c-n2": (12.0, 17.0),
    "c-n4": (10.0, 19.9),
    "e-learned": (9.01, 18.0),
}


@pytest.fixture(params=[1, 2], ids=["one seed", "two seeds"])
def made_up(request: pytest.FixtureRequest) -> SweepComparison:
    standings = []
    for row in make_rows([f"table3/{name}" for name in MADE_UP], []):
        perplexity, bleu = MADE_UP[row.name]
        scores = {"perplexity": math.log(perplexity), "bleu": bleu, "paper_bleu": bleu}
        sets = np.random.default_rng(1).normal(0, 1, 1_000)
        samples = {name: ScoreSample((score,) * request.param, score + 0.3 * sets) for name, score in scores.items()}
        standings.append(RowResult(row, (), 1000, 65.0, samples))
    spreads = {
        "perplexity": SeedVariance(0.0001 * (request.param - 1), 5 * (request.param - 1)),
        "bleu": SeedVariance(0.04 * (request.param - 1), 5 * (request.param - 1)),
    }
    spreads["paper_bleu"] = spreads["bleu"]
    return SweepComparison(tuple(standings), tuple(row_pairs(standings, spreads)), spreads)


def verdicts(table: SweepComparison, by: str) -> dict[str, str | None]:
    return {f"{pair['row']} {pair['than']}": pair["by"][by]["verdict"] for pair in sweep_json(table)["pairs"]}


def test_orderings_are_confirmed_contradicted_or_within_noise(made_up: SweepComparison) -> None:
    assert verdicts(made_up, "perplexity") == {
        "a-h1 base": "contradicted",
        "c-n2 base": "confirmed",
        "c-n4 base": "confirmed",
        "c-n4 c-n2": "confirmed",
        "e-learned base": None,  # a tie
    }
    several = len(made_up.standings[0].samples["bleu"].seeds) > 1
    assert verdicts(made_up, "paper_bleu") == {
        "a-h1 base": "within noise" if several else "contradicted",
        "c-n2 base": "confirmed",
        "c-n4 base": "within noise" if several else "confirmed",
        "c-n4 c-n2": "confirmed",
        "e-learned base": "confirmed",
    }
    assert set(verdicts(made_up, "bleu").values()) == {None}, "the paper's BLEU is another"


def test_ours_stand_beside_the_papers(made_up: SweepComparison) -> None:
    columns, lines = row_table(made_up)
    by_name = {line[0]: dict(zip(columns, line, strict=True)) for line in lines}
    assert by_name["c-n2"]["sets"] == "N=2"
    assert by_name["c-n2"]["paper: perplexity>"] == "6.11"
    assert by_name["c-n2"]["paper's BLEU>"].startswith("17.00 ± 0.5")
    assert by_name["base"]["perplexity>"].startswith("9.000 ± 5.")
    columns, lines = pair_table(made_up)
    assert all(len(line) == len(columns) for line in lines)
    (line,) = [line for line in lines if line[:2] == ["c-n2", "base"]]
    assert line[2].startswith("1.333 ± ")
    assert (line[3], line[4], line[6]) == ("1.242", "confirmed", "-2.1")


def test_what_was_compared_is_said(made_up: SweepComparison) -> None:
    told = "\n".join(sweep_notes(made_up))
    several = len(made_up.standings[0].samples["bleu"].seeds) > 1
    assert ("5 degrees of freedom" if several else "one seed a row does not show") in told
    assert "of 9 orderings that Table 3 prints" in told
    assert told.endswith(
        "one in twenty looks like one" if several else "more than one in twenty look like one, by their seed"
    )
    assert "base: as it is shipped" in told


def test_json_has_no_number_that_is_none(made_up: SweepComparison) -> None:
    found = json.loads(json.dumps(sweep_json(made_up), allow_nan=False))
    assert [row["row"] for row in found["rows"]] == list(MADE_UP)
    assert found["rows"][1]["sets"] == {"architecture.h": 1, "architecture.d_k": 512, "architecture.d_v": 512}
    assert set(found["rows"][0]["scores"]) == set(METRICS)


def test_rows_that_the_paper_has_not_are_better_or_worse() -> None:
    rows = make_rows(["tiny", "variants/deep-shallow", "base"], [])
    assert {row.name: row.above for row in rows} == {"base": None, "tiny": "base", "deep-shallow": "base"}
    standings = [
        RowResult(row, (), 1, 1.0, {name: ScoreSample((score,), np.full(1_000, score)) for name in METRICS})
        for row, score in zip(rows, (1.0, 2.0, 1.5), strict=True)
    ]
    spreads = dict.fromkeys(METRICS, SeedVariance(0.0, 0))
    table = SweepComparison(tuple(standings), tuple(row_pairs(standings, spreads)), spreads)
    _, lines = pair_table(table)
    assert [line[:2] + line[3::2] for line in lines] == [["deep-shallow", "base", "worse", "better"]], (
        "tiny's corpus is another"
    )
    assert len(list(sweep_notes(table))) == 2
