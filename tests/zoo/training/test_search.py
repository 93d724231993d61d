"""`zoo average --search`: which means are tried, what they score, and that nothing is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from specs import Spec, ZooError
from zoo.evaluation.metrics import Metric
from zoo.files.hashes import sha256
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.averaging import mean_of, search_averages, select_checkpoints
from zoo.training.checkpoints import Checkpoint, list_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run
from zoo.training.train import train


def tried(count: int) -> list[tuple[int, int, list[int]]]:
    found = [Checkpoint(Path(f"{step:07d}")) for step in range(1, count + 1)]
    return [(each.last, each.every, [c.step for c in each.checkpoints]) for each in select_checkpoints(found)]


def test_the_means_are_of_the_last_of_every_so_manieth() -> None:
    assert tried(1) == [(1, 1, [1])]
    assert tried(5) == [(1, 1, [5]), (2, 1, [4, 5]), (5, 1, [1, 2, 3, 4, 5]), (2, 2, [3, 5]), (2, 4, [1, 5])]
    assert [(last, every) for last, every, _ in tried(40)] == [
        *((1, 1), (2, 1), (5, 1), (10, 1), (20, 1), (2, 2), (5, 2), (10, 2), (20, 2)),
        *((2, 4), (5, 4), (10, 4), (2, 8), (5, 8), (2, 16), (2, 32)),
    ]


@pytest.fixture
def run(world: Callable[..., Spec]) -> Run:
    return train(world("training.average=5", "compilation.backend=eager"), run="runs/good", device="cpu")


def test_each_score_is_that_of_its_mean_and_nothing_is_written(run: Run) -> None:
    before = {path: sha256(path) for path in run.folder.rglob("*") if path.is_file()}
    curve = search_averages(run, device="cpu")
    dev = DevSet(run.spec, Vocabulary.load(run.folder), "cpu", Report())
    by_step = {checkpoint.step: checkpoint.weights for checkpoint in list_checkpoints(run)}
    for mean in curve.means:
        assert mean.score == dev.score(mean_of([by_step[step] for step in mean.steps]))
        assert mean.more == mean.score - curve.best.score
        assert mean.half is not None
        assert mean.more >= 0, "less perplexity is better"
    assert (curve.best.half_interval, curve.best.worse) == (0.0, False)
    assert {path: sha256(path) for path in run.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("scores", [[math.nan, 3.0, 4.0], [math.inf, 4.0, 3.0], [3.0, math.nan, math.inf]])
def test_a_score_that_is_not_finite_is_never_the_best(
    run: Run, scores: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter([*scores, *[5.0] * 9])
    monkeypatch.setattr(Metric, "score", lambda metric, answers: next(given))
    curve = search_averages(run, device="cpu")
    assert curve.best.score == 3.0
    assert [each.worse for each in curve.means[:3] if not math.isfinite(each.score)] == [
        True for score in scores if not math.isfinite(score)
    ]


def test_where_no_mean_has_a_finite_score_there_is_no_best(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metric, "score", lambda metric, answers: math.inf)
    with pytest.raises(ZooError, match=r"no mean of .* has a finite dev perplexity"):
        search_averages(run, device="cpu")


def test_a_run_without_checkpoints_has_no_means(trained: Callable[..., Run]) -> None:
    with pytest.raises(ZooError, match="no checkpoint yet"):
        search_averages(trained())
