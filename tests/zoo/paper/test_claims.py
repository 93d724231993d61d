"""The status of a claim follows from what its check finds, and changes with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import paper
from zoo.data.cleaning import CleaningCounts
from zoo.paper import claims
from zoo.paper.claims import (
    Check,
    Claim,
    Finding,
    Printed,
    Status,
    corpus_size,
    drawn,
    equals,
    format_number,
    holds,
    needs_gpu,
    power_of_ten,
    scored,
    slug,
)
from zoo.paper.evidence import evidence
from zoo.paper.ledger import claims as all_claims
from zoo.report import Report

MakeRun = Callable[..., Path]


def find(check: Check, *printed: str, spec: str | None = None) -> Finding:
    claim = Claim("part.key", "6", "a statement", check, tuple(map(Printed, printed)), spec=spec)
    return check(claim, evidence(None, Report()))


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
def test_printed_number_agrees_with_values_that_round_to_it(
    text: str, agreeing: tuple[float, ...], others: tuple[float, ...]
) -> None:
    printed = Printed(text)
    assert [value for value in agreeing if not printed.agrees(value)] == []
    assert [value for value in others if printed.agrees(value)] == []


def test_numbers_are_formatted_for_people() -> None:
    assert [format_number(value) for value in (37_000, 0.98, 3.2832e18, 0)] == ["37,000", "0.98", "3.283e18", "0"]
    assert (power_of_ten(3.2832e18), power_of_ten(2e19)) == ("3.28e18", "2e19")
    assert slug("GNMT + RL & more ensemble") == "gnmt-rl-and-more-ensemble"


def test_claims_have_different_keys_and_no_typed_status() -> None:
    known = list(all_claims())
    assert len({claim.key for claim in known}) == len(known) > 150
    assert all(claim.section and claim.says for claim in known)
    parts = [path for path in Path(paper.__path__[0]).glob("*.py") if "def claims()" in path.read_text()]
    assert len(parts) > 5
    assert [path.name for path in parts if "Status" in path.read_text() and path.name != "ledger.py"] == []


def test_derived_number_is_compared_with_each_printed_one() -> None:
    right = find(equals(lambda: (11.9, "a derivation")), "12")
    assert (right.status, right.value, right.because) == (Status.DERIVED, 11.9, "a derivation")
    wrong = find(equals(lambda: (11.1, "a derivation")), "12")
    assert (wrong.status, wrong.ours, wrong.because) == (Status.DIFFERENT, "11.1", "not 12: a derivation")
    both = find(equals(lambda: (41.03, "so")), "41.8", "41.0")
    assert (both.status, both.because) == (Status.DIFFERENT, "41.0 and not 41.8: so")
    several = find(equals(lambda: (None, "32, 64")), "64")
    assert (several.status, several.value, several.because) == (Status.DIFFERENT, None, "the numbers differ: 32, 64")


def test_sentence_holds_or_not() -> None:
    true, false = (find(holds(lambda value=value: (value, "reason"))) for value in (True, False))
    assert (true.status, true.ours, true.because) == (Status.DERIVED, "yes", "reason")
    assert (false.status, false.ours, false.because) == (Status.DIFFERENT, "no", "reason")
    assert find(needs_gpu("P100")).status is Status.OPEN


def test_missing_score_is_explained(make_run: MakeRun) -> None:
    check = scored("dev", "paper_bleu", "bleu")
    cited = find(check, "25.8")
    assert (cited.status, cited.because) == (Status.CITED, "a number of another system, which the paper cites")
    missing = find(check, "25.8", spec="table3/a-h1")
    assert (missing.status, missing.value) == (Status.OPEN, None)
    assert missing.because.startswith("no run of table3/a-h1 in `runs`; ")
    assert find(check, "93", spec="tiny").because == "no run of tiny in `runs`"
    make_run("table3/a-h1", "one", scores={"test": {"bleu": 20.0}})
    unscored = find(check, "25.8", spec="table3/a-h1")
    assert unscored.status is Status.OPEN
    assert "`zoo evaluate --model runs/one --set dev`" in unscored.because


def test_runs_of_a_row_are_measured_at_one_scale(make_run: MakeRun) -> None:
    for number, score in enumerate((20.0, 22.0, 21.0)):
        make_run("table3/a-h4", f"{number}", scores={"dev": {"bleu": score, "perplexity": 7.5}})
    make_run("table3/a-h4", "longer", log=(), scores={"dev": {"bleu": 90.0}})
    found = find(scored("dev", "paper_bleu", "bleu"), "25.5", spec="table3/a-h4")
    assert (found.status, found.value, found.ours) == (Status.MEASURED, 21.0, "21.00 (20.00 to 22.00)")
    assert found.runs == ("runs/0", "runs/1", "runs/2")
    assert found.because == (
        "BLEU of 3 runs, the first runs/0: N=1, d_model=32, d_ff=64, h=2, d_k=16, d_v=16, "
        "on the built-in corpus (40), 30 steps"
    )


def test_scale_closest_to_the_papers_is_chosen_whatever_its_metric(make_run: MakeRun) -> None:
    for number in range(2):
        make_run("table3/a-h4", f"small{number}", scores={"dev": {"perplexity": 9.0, "paper_bleu": 3.0}})
    make_run("table3/a-h4", "whole", overrides={}, scores={"dev": {"perplexity": 6.0, "bleu": 25.0}})
    found = find(scored("dev", "perplexity"), "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.0, ("runs/whole",))
    assert "on the built-in corpus (40), 30 steps" in found.because
    assert find(scored("dev", "paper_bleu", "bleu"), "25.5", spec="table3/a-h4").value == 25.0


def test_scores_on_different_sets_are_not_combined(make_run: MakeRun) -> None:
    """Neither are those on sets held out of different texts, nor those of corpora with different cleaning."""
    for number, grammar in enumerate((5, 5, 50)):
        corpus = {"train": [{"grammar": 40}], "dev": [{"grammar": grammar}], "test": [{"grammar": 5}]}
        make_run("table3/a-h4", f"{number}", overrides={"corpus": corpus}, scores={"dev": {"perplexity": 6.0 + number}})
    found = find(scored("dev", "perplexity"), "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.5, ("runs/0", "runs/1"))
    for number, train in enumerate((40, 40, 41)):
        corpus = {"train": [{"grammar": train}], "dev": [{"held_out": 5}], "test": []}
        make_run("table3/a-h16", f"h{number}", {"corpus": corpus}, {"dev": {"perplexity": 6.0 + number}})
    found = find(scored("dev", "perplexity"), "5.00", spec="table3/a-h16")
    assert (found.value, found.runs) == (6.5, ("runs/h0", "runs/h1"))
    make_run("table3/a-h4", "a", overrides={"corpus.max_ratio": 1.5}, scores={"dev": {"perplexity": 7.0}})
    (cleaned,) = [run for run in evidence(None, Report()).runs if run.folder == "runs/a"]
    assert "max_ratio=1.5" in cleaned.scale_parts


def test_bleu_of_the_paper_is_preferred(make_run: MakeRun) -> None:
    make_run("table3/big", "both", scores={"dev": {"bleu": 20.0, "paper_bleu": 21.5}})
    found = find(scored("dev", "paper_bleu", "bleu"), "26.4", spec="table3/big")
    assert (found.value, found.because.partition(" of ")[0]) == (21.5, "paper's BLEU")


def test_corpus_is_counted_if_it_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    before = find(corpus_size(), "600", spec="tiny")
    assert before.status is Status.OPEN
    assert before.because == "its corpus is available, but `zoo prepare tiny` has not been run"
    monkeypatch.setattr(claims, "known_counts", lambda spec: CleaningCounts(read=600))
    for printed, status in (("600", Status.MEASURED), ("4.5e6", Status.DIFFERENT)):
        after = find(corpus_size(), printed, spec="tiny")
        assert (after.status, after.value) == (status, 600)
        absent = find(corpus_size(), printed, spec="base")
        assert (absent.status, absent.value) == (Status.OPEN, None)


def test_figure_is_left_to_the_reader(make_run: MakeRun) -> None:
    assert "no run of base" in find(drawn(3), spec="base").because
    (make_run("base", "own") / "weights.safetensors").write_bytes(b"")
    found = find(drawn(3), spec="base")
    assert found.status is Status.OPEN
    assert "`zoo attend --model runs/own --figure 3`" in found.because
