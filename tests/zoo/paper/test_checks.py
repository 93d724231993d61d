"""A claim's status follows from the facts, and turns with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.data.cleaning import CleaningCounts
from zoo.paper import claims
from zoo.paper.claims import Check, Claim, Finding, Printed, Status, corpus_size, drawn, equals, hardware, holds, scored
from zoo.paper.evidence import evidence
from zoo.report import Report

Made = Callable[..., Path]


def asked(check: Check, *printed: str, spec: str | None = None) -> Finding:
    claim = Claim("part.key", "6", "it is so", check, tuple(map(Printed, printed)), spec=spec)
    return check(claim, evidence(None, Report()))


def test_a_number_that_is_derived_is_checked_against_every_print() -> None:
    right = asked(equals(lambda: (11.9, "so and so")), "12")
    assert (right.status, right.value, right.because) == (Status.DERIVED, 11.9, "so and so")
    wrong = asked(equals(lambda: (11.1, "so and so")), "12")
    assert (wrong.status, wrong.ours, wrong.because) == (Status.OPEN, "11.1", "not 12: so and so")
    torn = asked(equals(lambda: (41.03, "so")), "41.8", "41.0")
    assert (torn.status, torn.because) == (Status.OPEN, "41.0 and not 41.8: so")


def test_several_numbers_are_not_the_one_that_is_printed() -> None:
    torn = asked(equals(lambda: (None, "32, 64")), "64")
    assert (torn.status, torn.value, torn.because) == (Status.OPEN, None, "not one number: 32, 64")


@pytest.mark.parametrize(
    ("model", "there"),
    [("Tesla P100-PCIE-16GB", "P100"), ("Quadro P1000", ""), ("Tesla K40m", "K40"), ("Quadro K4000", "")],
)
def test_a_device_is_known_by_its_whole_name(
    model: str, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0000:00:04.0").mkdir()
    (tmp_path / "0000:00:04.0" / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 11\n")
    monkeypatch.setattr(claims, "_DRIVER", tmp_path)
    for name in ("P100", "K40"):
        assert asked(hardware(name)).because.startswith(f"{'a' if name == there else 'no'} {name} is ")


@pytest.mark.parametrize("true", [True, False])
def test_a_sentence_holds_or_does_not(true: bool) -> None:
    found = asked(holds(lambda: (true, "by these")))
    assert (found.status, found.ours, found.because) == (
        (Status.DERIVED, "yes", "by these") if true else (Status.OPEN, "no", "by these")
    )


def test_without_a_run_a_score_says_what_is_missing(made: Made) -> None:
    check = scored("dev", "paper_bleu", "bleu")
    assert asked(check, "25.8").because == "a model of others: no spec of it is in this zoo"
    missing = asked(check, "25.8", spec="table3/a-h1")
    assert (missing.status, missing.value) == (Status.OPEN, None)
    assert missing.because.startswith("no run of table3/a-h1 in `runs`; its corpus is not here: ")
    assert asked(check, "93", spec="tiny").because == "no run of tiny in `runs`"
    made("table3/a-h1", "one", scores={"test": {"bleu": 20.0}})
    unscored = asked(check, "25.8", spec="table3/a-h1")
    assert unscored.status is Status.OPEN
    assert "`zoo evaluate --model runs/one --set dev`" in unscored.because


def test_runs_of_a_row_are_measured_with_their_scale(made: Made) -> None:
    for number, score in enumerate((20.0, 22.0, 21.0)):
        made("table3/a-h4", f"{number}", scores={"dev": {"bleu": score, "perplexity": 7.5}})
    made("table3/a-h4", "longer", log=(), scores={"dev": {"bleu": 90.0}})
    found = asked(scored("dev", "paper_bleu", "bleu"), "25.5", spec="table3/a-h4")
    assert (found.status, found.value, found.ours) == (Status.MEASURED, 21.0, "21.00 (20.00 to 22.00)")
    assert found.runs == ("runs/0", "runs/1", "runs/2")
    assert found.because == (
        "BLEU of 3 runs, the first runs/0: N=1, d_model=32, d_ff=64, h=2, d_k=16, d_v=16, "
        "on the built-in corpus (40), 30 steps"
    )


def test_the_nearest_to_the_papers_scale_is_taken(made: Made) -> None:
    for number in range(2):
        made("table3/a-h4", f"small{number}", scores={"dev": {"perplexity": 9.0}})
    made("table3/a-h4", "whole", overrides={}, scores={"dev": {"perplexity": 6.0}})
    found = asked(scored("dev", "perplexity"), "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.0, ("runs/whole",))
    assert "on the built-in corpus (40), 30 steps" in found.because


def test_scores_on_other_sets_are_not_put_together(made: Made) -> None:
    for number, grammar in enumerate((5, 5, 50)):
        corpus_size = {"train": [{"grammar": 40}], "dev": [{"grammar": grammar}], "test": [{"grammar": 5}]}
        made(
            "table3/a-h4", f"{number}", overrides={"corpus": corpus_size}, scores={"dev": {"perplexity": 6.0 + number}}
        )
    found = asked(scored("dev", "perplexity"), "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.5, ("runs/0", "runs/1"))


def test_what_is_held_out_of_other_text_is_another_set(made: Made) -> None:
    """And a corpus that was cleaned otherwise is told as another."""
    for number, train in enumerate((40, 40, 41)):
        corpus_size = {"train": [{"grammar": train}], "dev": [{"held_out": 5}], "test": []}
        made(
            "table3/a-h4", f"{number}", overrides={"corpus": corpus_size}, scores={"dev": {"perplexity": 6.0 + number}}
        )
    found = asked(scored("dev", "perplexity"), "5.00", spec="table3/a-h4")
    assert (found.value, found.runs) == (6.5, ("runs/0", "runs/1"))
    made("table3/a-h4", "a", overrides={"corpus.max_ratio": 1.5}, scores={"dev": {"perplexity": 7.0}})
    (cleaned,) = [run for run in evidence(None, Report()).runs if run.folder == "runs/a"]
    assert "max_ratio=1.5" in cleaned.scales


def test_a_near_run_that_has_another_metric_goes_before_a_far_one(made: Made) -> None:
    made("table3/a-h4", "small", scores={"dev": {"bleu": 2.0, "paper_bleu": 3.0}})
    made("table3/a-h4", "whole", overrides={}, scores={"dev": {"bleu": 25.0}})
    found = asked(scored("dev", "paper_bleu", "bleu"), "25.5", spec="table3/a-h4")
    assert (found.value, found.runs) == (25.0, ("runs/whole",))


def test_the_papers_own_bleu_goes_before_the_other(made: Made) -> None:
    made("table3/big", "both", scores={"dev": {"bleu": 20.0, "paper_bleu": 21.5}})
    found = asked(scored("dev", "paper_bleu", "bleu"), "26.4", spec="table3/big")
    assert (found.value, found.because.partition(" of ")[0]) == (21.5, "paper's BLEU")


@pytest.mark.parametrize(("printed", "status"), [("600", Status.MEASURED), ("4.5e6", Status.OPEN)])
def test_a_corpus_is_counted_where_it_was_prepared(
    printed: str, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asked(corpus_size(), printed, spec="tiny")
    assert before.status is Status.OPEN
    assert before.because == "its corpus is here, and `zoo prepare tiny` has not been done"
    monkeypatch.setattr(claims, "known_counts", lambda spec: CleaningCounts(read=600))
    after = asked(corpus_size(), printed, spec="tiny")
    assert (after.status, after.value) == (status, 600)
    absent = asked(corpus_size(), printed, spec="base")
    assert (absent.status, absent.value) == (Status.OPEN, None)
    assert "has not been fetched" in absent.because


def test_a_figure_is_drawn_of_a_model_and_judged_by_eyes(made: Made) -> None:
    assert "no run of base" in asked(drawn(3), spec="base").because
    (made("base", "mine") / "weights.safetensors").write_bytes(b"")
    found = asked(drawn(3), spec="base")
    assert found.status is Status.OPEN
    assert "`zoo attend --model runs/mine --figure 3`" in found.because
