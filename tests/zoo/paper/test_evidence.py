"""What runs tell of themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import specs
from compiler import Purpose, cost, lower
from specs import ZooError
from zoo.paper.evidence import evidence
from zoo.report import Report

Made = Callable[..., Path]


class Warned(Report):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_a_log_says_what_the_paper_would_call_the_cost(made: Made) -> None:
    made("tiny", "tiny")
    (run,) = evidence(None, Report()).runs
    assert run.record is not None
    record = run.record
    assert (record.steps, record.seconds, record.devices) == (30, 12.0, 2)
    products = cost(lower(run.spec, Purpose.TRAIN)).flops
    even = 3 * products(batch=1, source=27, target=27) / 27
    # 12 seconds of 100 source and 80 target tokens, busy for half of the peak.
    assert 960 * even < record.flops < 1200 * even
    assert record.peak * record.devices * 0.5 * 12 == pytest.approx(record.flops)
    assert record.priced == pytest.approx(2 * record.flops)


def test_flops_by_tokens_are_those_of_the_plan_where_both_sides_are_even(made: Made) -> None:
    line = {"step": 1, "seconds": 27.0, "source_tokens_per_second": 5.0, "target_tokens_per_second": 5.0}
    made("tiny", "tiny", log=({**line, "utilisation": 1.0},), processes=1)
    (run,) = evidence(None, Report()).runs
    assert run.record is not None
    assert run.record.flops == pytest.approx(
        3 * cost(lower(run.spec, Purpose.TRAIN)).flops(batch=5, source=27, target=27)
    )


def test_a_line_that_was_cut_short_counts_for_nothing(made: Made) -> None:
    run = made("tiny", "tiny")
    whole = evidence(None, Report()).runs[0].record
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('[1]\n{"step": 40}\n{"step": 31, "seco')
    assert evidence(None, Report()).runs[0].record == whole


def test_a_run_without_a_log_has_no_record(made: Made) -> None:
    (made("tiny", "tiny") / "log.jsonl").unlink()
    assert evidence(None, Report()).runs[0].record is None


def test_a_scale_is_what_differs_from_the_shipped_spec(made: Made) -> None:
    made("table3/base", "one", overrides={"training": {"seed": 7, "log_steps": 5, "warmup_steps": 100}})
    (run,) = evidence(None, Report()).runs
    assert run.scale == "warmup_steps=100, on the built-in corpus (40), 30 steps"
    assert run.distance == 3  # the corpus, the steps and the warm-up
    assert evidence(None, Report()).of("table3/base") == (run,)
    assert evidence(None, Report()).of("table3/big") == ()


def test_another_set_is_told_and_is_further_from_the_papers(made: Made) -> None:
    spec = specs.load("tiny")
    whole = {"train": [part.model_dump() for part in spec.corpus.train]}
    for folder, test in (("same", spec.corpus.test[0].model_dump()), ("other", {"source": "my.en", "target": "my.de"})):
        dev = [part.model_dump() for part in spec.corpus.dev]
        made("tiny", folder, overrides={"corpus": {**whole, "dev": dev, "test": [test]}})
    other, same = evidence(None, Report()).runs
    assert (same.distance, other.distance) == (1, 2), "both have fewer steps"
    assert "another test set" in other.scale
    assert "set" not in same.scale


def test_a_damaged_run_is_left_out_and_told(made: Made) -> None:
    made("tiny", "good")
    (made("tiny", "odd") / "spec.yaml").write_text("format: 1\n", encoding="utf-8")
    report = Warned()
    assert [run.folder for run in evidence(None, report).runs] == ["runs/good"]
    assert len(report.warnings) == 1


def test_another_folder_may_be_looked_into(made: Made) -> None:
    made("tiny", "sweep/one")
    made("tiny", "two")
    found = evidence(Path("runs/sweep"), Report())
    assert ([run.folder for run in found.runs], found.root) == (["runs/sweep/one"], Path("runs/sweep"))
    assert evidence(None, Report()).root == Path("runs")
    with pytest.raises(ZooError, match="there is no folder `nowhere`"):
        evidence(Path("nowhere"), Report())
    assert specs.load("tiny").name == found.runs[0].spec.name
