"""Measurements read from run folders: records of their logs, and their scale."""

from __future__ import annotations

from typing import Any

import pytest

import specs
from compiler import Purpose, cost, lower
from tests.zoo.paper.conftest import MakeRun
from zoo.paper.runs import RunResults, read_measurements
from zoo.report import Report


def read_runs() -> tuple[RunResults, ...]:
    return read_measurements(None, Report()).runs


def test_log_gives_the_cost_of_a_training(make_run: MakeRun) -> None:
    folder = make_run("tiny", "tiny")
    (run,) = read_runs()
    record = run.record
    assert (record.steps, record.seconds, record.devices) == (30, 12.0, 2)
    assert record.peak * record.devices * 0.5 * 12 == pytest.approx(record.flops)
    assert record.estimated_flops == pytest.approx(2 * record.flops)
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('[1]\n{"step": 40}\n{"step": 31, "seco')
    assert read_runs()[0].record == record, "incomplete lines do not count"
    (folder / "log.jsonl").unlink()
    assert read_runs()[0].record is None


def test_flops_equal_those_of_the_plan_if_both_sides_have_as_many_tokens(make_run: MakeRun) -> None:
    line = {"step": 1, "seconds": 27.0, "source_tokens_per_second": 5.0, "target_tokens_per_second": 5.0}
    make_run("tiny", "tiny", log=({**line, "utilisation": 1.0},), processes=1)
    (run,) = read_runs()
    planned = cost(lower(run.spec, Purpose.TRAIN)).flops(batch=5, source=27, target=27)
    assert run.record.flops == pytest.approx(3 * planned)


def test_scale_lists_the_differences_to_the_shipped_spec(make_run: MakeRun) -> None:
    make_run("table3/base", "one", overrides={"training": {"seed": 7, "log_steps": 5, "warmup_steps": 100}})
    (run,) = read_runs()
    assert run.scale == "warmup_steps=100, on the built-in corpus (40), 30 steps"
    assert run.distance == 3, "the corpus, the steps and the warm-up"
    assert [read_measurements(None, Report()).of(f"table3/{row}") for row in ("base", "big")] == [(run,), ()]


def test_other_dev_or_test_set_is_listed_and_counts_as_a_difference(make_run: MakeRun) -> None:
    corpus = specs.load("tiny").corpus
    train, dev = ([part.model_dump() for part in parts] for parts in (corpus.train, corpus.dev))
    for folder, test in (("same", corpus.test[0].model_dump()), ("other", {"source": "my.en", "target": "my.de"})):
        make_run("tiny", folder, overrides={"corpus": {"train": train, "dev": dev, "test": [test]}})
    other, same = read_runs()
    assert (same.distance, other.distance) == (1, 2), "both have fewer steps"
    assert ("a different test set" in other.scale, "set" in same.scale) == (True, False)


def test_damaged_run_is_left_out_with_a_warning(make_run: MakeRun, report: Any) -> None:
    make_run("tiny", "good")
    (make_run("tiny", "odd") / "spec.yaml").write_text("format: 1\n", encoding="utf-8")
    assert [run.folder for run in read_measurements(None, report).runs] == ["runs/good"]
    assert len(report.warnings) == 1
