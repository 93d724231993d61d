"""The report of a sweep with invented scores: which of the paper's orderings they confirm."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.conftest import missing
from zoo.paper.sweep_report import pair_table, row_table, sweep_json, sweep_notes
from zoo.training.sweeps.comparison import METRICS, RowResult, ScoreSample, SeedVariance, SweepComparison, row_pairs
from zoo.training.sweeps.trials import make_rows

# Perplexity and BLEU. The paper has 4.92/25.8, 5.29/24.9, 6.11/23.7, 5.19/25.3, 4.92/25.7.
SCORES = {"base": (9.0, 20.0), "a-h1": (8.0, 20.1), "c-n2": (12.0, 17.0), "c-n4": (10.0, 19.9)}
SCORES["e-learned"] = (9.01, 18.0)


@pytest.fixture(params=[1, 2], ids=["one seed", "two seeds"])
def comparison(request: pytest.FixtureRequest) -> SweepComparison:
    results, seeds = [], request.param
    for row in make_rows([f"table3/{name}" for name in SCORES], []):
        perplexity, bleu = SCORES[row.name]
        scores = {"perplexity": math.log(perplexity), "bleu": bleu, "paper_bleu": bleu}
        noise = np.random.default_rng(1).normal(0, 1, 1_000)
        samples = {name: ScoreSample((score,) * seeds, score + 0.3 * noise) for name, score in scores.items()}
        results.append(RowResult(row, (), 1000, 65.0, samples))
    variance = {"perplexity": 0.0001, "bleu": 0.04, "paper_bleu": 0.04}
    variances = {name: SeedVariance(value * (seeds - 1), 5 * (seeds - 1)) for name, value in variance.items()}
    return SweepComparison(tuple(results), tuple(row_pairs(results, variances)), variances)


def has_seeds(comparison: SweepComparison) -> bool:
    return len(comparison.results[0].samples["bleu"].seeds) > 1


def test_json_has_all_rows_and_orderings_that_are_confirmed_contradicted_or_within_noise(
    comparison: SweepComparison,
) -> None:
    """With one seed, no ordering is tested."""
    result = json.loads(json.dumps(sweep_json(comparison), allow_nan=False))
    assert [row["row"] for row in result["rows"]] == list(SCORES)
    assert result["rows"][1]["sets"] == {"architecture.h": 1, "architecture.d_k": 512, "architecture.d_v": 512}
    assert set(result["rows"][0]["scores"]) == set(METRICS)
    pairs = [f"{pair['row']} {pair['than']}" for pair in result["pairs"]]
    assert pairs == ["a-h1 base", "c-n2 base", "c-n4 base", "c-n4 c-n2", "e-learned base"]
    expected: dict[str, tuple[str | None, ...]] = {  # for e-learned, the paper prints the same perplexity
        "perplexity": ("contradicted", "confirmed", "confirmed", "confirmed", None),
        "paper_bleu": ("within noise", "confirmed", "within noise", "confirmed", "confirmed"),
    }
    expected["bleu"] = (None,) * 5  # the paper prints another BLEU
    for metric, with_seeds in expected.items():
        untested = tuple(verdict and "untested (one seed)" for verdict in with_seeds)
        found = tuple(pair["by"][metric]["verdict"] for pair in result["pairs"])
        assert found == (with_seeds if has_seeds(comparison) else untested)


def test_tables_contain_the_papers_numbers(comparison: SweepComparison) -> None:
    table = row_table(comparison)
    by_name = {line[0]: dict(zip(table.columns, line, strict=True)) for line in table.rows}
    assert (by_name["c-n2"]["sets"], by_name["c-n2"]["paper: perplexity>"]) == ("N=2", "6.11")
    assert by_name["c-n2"]["paper's BLEU>"].startswith("17.00 ± 0.5")
    assert by_name["base"]["perplexity>"].startswith("9.000 ± 5.")
    table = pair_table(comparison)
    assert all(len(line) == len(table.columns) for line in table.rows)
    (line,) = [line for line in table.rows if line[:2] == ["c-n2", "base"]]
    assert line[2].startswith("1.333 ± ")
    verdict = "confirmed" if has_seeds(comparison) else "untested (one seed)"
    assert (line[3], line[4], line[6]) == ("1.242", verdict, "-2.1")


def test_notes_describe_intervals_and_orderings(comparison: SweepComparison) -> None:
    notes = "\n".join(sweep_notes(comparison))
    interval = "5 degrees of freedom" if has_seeds(comparison) else "is unknown with one seed"
    assert not missing(notes, interval, "of 9 orderings that Table 3 implies", "base: as shipped")
    assert ("pass `--seeds 3`" in notes) is not has_seeds(comparison)


@pytest.mark.parametrize("seeds", [1, 2])
def test_rows_outside_of_table_3_are_better_or_worse(seeds: int) -> None:
    """With one seed, they are neither, because another seed could reverse the difference."""
    rows = make_rows(["tiny", "variants/deep-shallow", "base"], [])
    assert {row.name: row.parent for row in rows} == {"base": None, "tiny": "base", "deep-shallow": "base"}
    results = [
        RowResult(row, (), 1, 1.0, {name: ScoreSample((score,) * seeds, np.full(1_000, score)) for name in METRICS})
        for row, score in zip(rows, (1.0, 2.0, 1.5), strict=True)
    ]
    variances = dict.fromkeys(METRICS, SeedVariance(0.0001 * (seeds - 1), 3 * (seeds - 1)))
    comparison = SweepComparison(tuple(results), tuple(row_pairs(results, variances)), variances)
    lines = map(list, pair_table(comparison).rows)
    # The corpus of tiny differs, so it is not compared.
    expected = ["worse", "better"] if seeds > 1 else ["untested (one seed)"] * 2
    assert [line[:2] + line[3::2] for line in lines] == [["deep-shallow", "base", *expected]]
    assert len(list(sweep_notes(comparison))) == (2 if seeds > 1 else 3)
