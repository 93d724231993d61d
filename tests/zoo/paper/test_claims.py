"""The status of a claim follows from its check, and changes with it."""

from __future__ import annotations

import pytest

from tests.zoo.paper.conftest import MakeRun
from zoo.data.cleaning import CleaningCounts
from zoo.paper import runs
from zoo.paper.claims import (
    CLAIMS,
    CheckedClaim,
    Claim,
    Printed,
    Status,
    check,
    compare,
    format_number,
)
from zoo.paper.runs import read_measurements
from zoo.report import Report

BLEU = ("score", "dev", "paper_bleu", "bleu")
Numbers = tuple[float, ...]
PERPLEXITY = ("score", "dev", "perplexity")


def claim(*printed: str, spec: str = "", measure: tuple[str, ...] = ()) -> Claim:
    return Claim("part.key", "6", "a statement", tuple(map(Printed, printed)), spec=spec, measure=measure)


def find(measure: tuple[str, ...], *printed: str, spec: str = "") -> CheckedClaim:
    return check(claim(*printed, spec=spec, measure=measure), read_measurements(None, Report()))


@pytest.mark.parametrize(
    ("text", "agreeing", "others"),
    [
        ("65", (64.5, 65.0, 65.4999), (64.49, 65.5)),
        ("3.3e18", (3.25e18, 3.283e18), (3.35e18, 3.04e18, 3.3)),
        ("25.80", (25.80, 25.804), (25.81, 25.794)),
        ("37000", (37000,), (37001, 36999)),
        ("1e-9", (1e-9,), (2e-9,)),
    ],
)
def test_printed_number_agrees_with_values_that_round_to_it(text: str, agreeing: Numbers, others: Numbers) -> None:
    assert [value for value in (*agreeing, *others) if Printed(text).agrees(value)] == list(agreeing)


def test_numbers_are_formatted_for_people() -> None:
    assert [format_number(value) for value in (37_000, 0.98, 3.2832e18, 0)] == ["37,000", "0.98", "3.283e18", "0"]


def test_claims_are_read_from_their_file() -> None:
    assert len(CLAIMS) > 150
    assert all(claim.section and claim.says for claim in CLAIMS.values())
    row, (abstract, versions) = CLAIMS["table3.a-h1.bleu"], CLAIMS["table2.transformer-big.en-fr.bleu"].printed
    assert (row.section, row.says, row.spec) == ("Table 3 (A)", "h=1, d_k=d_v=512: BLEU", "table3/a-h1")
    assert (row.printed, row.measure) == ((Printed("24.9"),), BLEU)
    assert (abstract.text, versions) == ("41.8", Printed("41.0", "two versions"))
    assert CLAIMS["network.encoder"].derive == ("derived.layer_count", "encoder")
    assert "table3.a-h1.parameters" not in CLAIMS, "a cell that the paper leaves empty"


def test_derived_number_is_compared_with_each_printed_one_and_a_sentence_holds_or_not() -> None:
    right = compare(claim("12"), 11.9, "a derivation")
    assert (right.status, right.value, right.because) == (Status.DERIVED, 11.9, "a derivation")
    wrong = compare(claim("12"), 11.1, "a derivation")
    assert (wrong.status, wrong.ours, wrong.because) == (Status.DIFFERENT, "11.1", "not 12: a derivation")
    both = compare(claim("41.8", "41.0"), 41.03, "so")
    assert (both.status, both.because) == (Status.DIFFERENT, "41.0 and not 41.8: so")
    several = compare(claim("64"), None, "32, 64")
    assert (several.status, several.value, several.because) == (Status.DIFFERENT, None, "the numbers differ: 32, 64")
    true, false = (compare(claim(), value, "reason") for value in (True, False))
    assert (true.status, true.ours, true.because) == (Status.DERIVED, "yes", "reason")
    assert (false.status, false.ours, false.because) == (Status.DIFFERENT, "no", "reason")
    assert find(("gpu", "P100")).status is Status.OPEN


def test_missing_score_is_explained(make_run: MakeRun) -> None:
    missing = find(BLEU, "25.8", spec="table3/a-h1")
    assert (missing.status, missing.value) == (Status.OPEN, None)
    assert missing.because.startswith("no run of table3/a-h1 in `runs`; ")
    assert find(BLEU, "93", spec="tiny").because == "no run of tiny in `runs`"
    make_run("table3/a-h1", "one", scores={"test": {"bleu": 20.0}})
    unscored = find(BLEU, "25.8", spec="table3/a-h1")
    assert unscored.status is Status.OPEN
    assert "`zoo evaluate --model runs/one --set dev`" in unscored.because


def test_runs_of_a_row_are_measured_at_one_scale(make_run: MakeRun) -> None:
    for number, score in enumerate((20.0, 22.0, 21.0)):
        make_run("table3/a-h4", f"{number}", scores={"dev": {"bleu": score, "perplexity": 7.5}})
    make_run("table3/a-h4", "longer", log=(), scores={"dev": {"bleu": 90.0}})
    found = find(BLEU, "25.5", spec="table3/a-h4")
    assert (found.status, found.value, found.ours) == (Status.MEASURED, 21.0, "21.00 (20.00 to 22.00)")
    assert found.runs == ("runs/0", "runs/1", "runs/2")
    scale = "N=1, d_model=32, d_ff=64, h=2, d_k=16, d_v=16, on the built-in corpus (40), 30 steps"
    assert found.because == f"BLEU of 3 runs, the first runs/0: {scale}"


def test_scale_closest_to_the_papers_is_chosen_whatever_its_metric(make_run: MakeRun) -> None:
    for number in range(2):
        make_run("table3/a-h4", f"small{number}", scores={"dev": {"perplexity": 9.0, "paper_bleu": 3.0}})
    make_run("table3/a-h4", "whole", overrides={}, scores={"dev": {"perplexity": 6.0, "bleu": 25.0}})
    found = find(PERPLEXITY, "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.0, ("runs/whole",))
    assert "on the built-in corpus (40), 30 steps" in found.because
    assert find(BLEU, "25.5", spec="table3/a-h4").value == 25.0
    make_run("table3/big", "both", scores={"dev": {"bleu": 20.0, "paper_bleu": 21.5}})
    found = find(BLEU, "26.4", spec="table3/big")
    assert (found.value, found.because.partition(" of ")[0]) == (21.5, "paper's BLEU"), "it is preferred"


def test_scores_on_different_sets_are_not_combined(make_run: MakeRun) -> None:
    """Neither are those on sets held out of different texts, nor those of corpora with different cleaning."""
    other_sets = [{"train": [{"grammar": 40}], "dev": [{"grammar": dev}], "test": []} for dev in (5, 5, 50)]
    other_texts = [{"train": [{"grammar": train}], "dev": [{"held_out": 5}], "test": []} for train in (40, 40, 41)]
    for row, corpora in (("a-h4", other_sets), ("a-h16", other_texts)):
        for number, corpus in enumerate(corpora):
            make_run(f"table3/{row}", f"{row}{number}", {"corpus": corpus}, {"dev": {"perplexity": 6.0 + number}})
        found = find(PERPLEXITY, "5.00", spec=f"table3/{row}")
        assert (found.value, found.runs) == (6.5, (f"runs/{row}0", f"runs/{row}1"))
    make_run("table3/a-h4", "a", overrides={"corpus.max_ratio": 1.5}, scores={"dev": {"perplexity": 7.0}})
    (cleaned,) = [run for run in read_measurements(None, Report()).runs if run.folder == "runs/a"]
    assert "max_ratio=1.5" in cleaned.scale.split(", ")


def test_corpus_is_counted_if_it_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    before, unprepared = find(("corpus_size",), "600", spec="tiny"), "but `zoo prepare tiny` has not been run"
    assert (before.status, before.because) == (Status.OPEN, f"its corpus is available, {unprepared}")
    monkeypatch.setattr(runs, "known_counts", lambda spec: CleaningCounts(read=600))
    for printed, status in (("600", Status.MEASURED), ("4.5e6", Status.DIFFERENT)):
        after = find(("corpus_size",), printed, spec="tiny")
        assert (after.status, after.value) == (status, 600)
        absent = find(("corpus_size",), printed, spec="base")
        assert (absent.status, absent.value) == (Status.OPEN, None)


def test_figure_is_left_to_the_reader(make_run: MakeRun) -> None:
    assert "no run of base" in find(("figure", "3"), spec="base").because
    (make_run("base", "own") / "weights.safetensors").write_bytes(b"")
    found = find(("figure", "3"), spec="base")
    assert found.status is Status.OPEN
    assert "`zoo attend --model runs/own --figure 3`" in found.because
