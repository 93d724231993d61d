"""The status of a run as its files describe it: damaged entries, the time left, and who trains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.refusals import refused
from zoo.training.run import Run
from zoo.training.run_status import learning_curves, run_curves
from zoo.visualization.curves_page import finite


def entry(step: int, seconds: float | None = None, **figures: object) -> dict[str, Any]:
    speeds = {"source_tokens_per_second": 100.0, "target_tokens_per_second": 200.0, "utilisation": 0.5}
    fields = {"step": step, "seconds": float(step if seconds is None else seconds), **speeds}
    return {**fields, "loss": 10.0 / step, "perplexity": 20.0 / step, "learning_rate": 0.001, **figures}


def write_log(run: Run, *entries: dict[str, Any], rest: str = "") -> Run:
    run.log.write_text("".join(f"{json.dumps(each)}\n" for each in entries) + rest, encoding="utf-8")
    return run


def test_a_limit_on_tokens_counts(trained: Callable[..., Run]) -> None:
    run = write_log(trained(training={"steps": 100, "max_tokens": 4000}), entry(5), entry(10))
    assert run_curves(run).state.endswith("at step 10 of 100 (50%)")  # 10 seconds with 200 tokens each


def test_the_process_that_trains_is_known_while_it_holds_the_lock(trained: Callable[..., Run]) -> None:
    run = trained()
    assert not run.is_training
    with run.locked():
        assert run.is_training
        assert "training, at step 0" in run_curves(run).state
    assert not run.is_training
    run.lock.write_text("process 1 on a machine that was switched off\n")
    assert not run.is_training
    with run.locked():  # asking does not lock the folder
        pass
    run.lock.unlink()
    run.lock.mkdir()  # cannot be opened, like a file that another user may not read
    assert not run.is_training


def test_curves_have_gaps_and_leave_out_missing_metrics(trained: Callable[..., Run], words: Any) -> None:
    nothing = {"loss": None, "perplexity": math.nan}
    one = write_log(trained("runs/one"), entry(1), entry(2, **nothing), entry(3, dev_bleu=7.5), rest="\x00")
    two = write_log(trained("runs/two"), entry(4, perplexity=0))
    empty = trained("runs/empty")
    metrics, runs = learning_curves([one.folder, two.folder, empty.folder, Path("runs/../runs/one")], words)
    assert [run.name for run in runs] == ["one", "two"]
    keys = ["loss", "perplexity", "dev_bleu", "learning_rate", "target_tokens_per_second"]
    assert [metric.key for metric in metrics] == keys
    points = runs[0].values["loss"]
    assert [point[:2] for point in points] == [(1, 1), (2, 2), (3, 3)]
    assert math.isnan(points[1][2])
    assert runs[0].values["dev_bleu"] == ((3, 3, 7.5),)
    assert not finite(runs[1].values["perplexity"]), "0 cannot be drawn on a logarithmic axis"
    assert "the log of `empty` has no complete entry yet" in words.said[0]
    refused("has no complete entry yet", learning_curves, [empty.folder], words)
