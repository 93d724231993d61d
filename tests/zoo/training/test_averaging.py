"""Averages of checkpoints: the mean in float64, without scores of other weights, and the search for the best."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from specs import ZooError
from zoo.evaluation.metrics import Metric
from zoo.files.manifest import sha256
from zoo.generation.loading import open_model
from zoo.models.weights import Weights, read
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.averaging import average, mean_of, search_averages, select_checkpoints
from zoo.training.checkpoints import Checkpoint, list_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run

pytestmark = pytest.mark.integration


def test_average_is_the_mean_in_float64(tmp_path: Path) -> None:
    tensors, files = [torch.randn(50) * 10.0**i for i in range(3)], []
    for number, tensor in enumerate(tensors):
        files.append(tmp_path / f"{number}.safetensors")
        save_file({"a": tensor}, files[-1])
    assert torch.equal(mean_of(files)["a"], torch.stack([t.double() for t in tensors]).mean(0).float())


def test_average_writes_the_mean_of_the_last_checkpoints(finished_run: Run) -> None:
    finished_run.answers("test").write_text("")
    average(finished_run, 2)
    first, second = (load_file(c.weights) for c in list_checkpoints(finished_run)[-2:])
    mean = read(finished_run.weights)
    for name, tensor in mean.tensors.items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)
    assert mean.metadata["steps"] == "20,24"
    assert open_model(finished_run.folder, device="cpu").longest_source == finished_run.identity.longest_source
    left = [finished_run.scores, finished_run.answers("dev"), finished_run.answers("test")]
    assert not any(file.exists() for file in left), "they are scores of other weights"


def test_average_in_int8_replaces_the_float32_average_and_back(finished_run: Run) -> None:
    def int8_matrices(int8: bool) -> int:
        with safe_open(average(finished_run, int8=int8), framework="pt") as opened:
            return sum(opened.get_tensor(name).dtype == torch.int8 for name in opened.keys())  # noqa: SIM118

    counts = [int8_matrices(int8) for int8 in (False, True, False)]
    assert counts[0] == counts[2] == 0 < counts[1]
    mean = read(average(finished_run))
    rounded = read(average(finished_run, int8=True))
    assert rounded.metadata["steps"] == mean.metadata["steps"]
    assert all(torch.allclose(rounded.tensors[name], mean.tensors[name], atol=0.02) for name in mean.tensors)


def test_checkpoints_of_a_stop_are_explained(finished_run: Run) -> None:
    state = list_checkpoints(finished_run)[-2].folder / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "due": False}))
    with pytest.raises(ZooError, match=r"has \d+, and 1 more that were written when training was stopped"):
        average(finished_run, last=50)


def test_average_that_exists_changes_nothing(finished_run: Run) -> None:
    average(finished_run)
    before = {path: path.read_bytes() for path in finished_run.folder.iterdir() if path.is_file()}
    average(finished_run)
    for last in (0, 4):
        with pytest.raises(ZooError, match="has 3"):
            average(finished_run, last)
    assert {path: path.read_bytes() for path in finished_run.folder.iterdir() if path.is_file()} == before


def test_old_scores_are_removed_even_if_averaging_is_killed(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weights, "write", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        average(finished_run, 2)
    assert not finished_run.scores.exists()


def test_averages_are_of_the_last_checkpoints_at_growing_distances() -> None:
    def selected(count: int) -> list[tuple[int, int, list[int]]]:
        found = [Checkpoint(Path(f"{step:07d}")) for step in range(1, count + 1)]
        return [(len(chosen), every, [c.step for c in chosen]) for every, chosen in select_checkpoints(found)]

    assert selected(1) == [(1, 1, [1])]
    assert selected(5) == [(1, 1, [5]), (2, 1, [4, 5]), (5, 1, [1, 2, 3, 4, 5]), (2, 2, [3, 5]), (2, 4, [1, 5])]
    assert [(last, every) for last, every, _ in selected(40)] == [
        *((1, 1), (2, 1), (5, 1), (10, 1), (20, 1), (2, 2), (5, 2), (10, 2), (20, 2)),
        *((2, 4), (5, 4), (10, 4), (2, 8), (5, 8), (2, 16), (2, 32)),
    ]


def test_search_scores_each_average_and_writes_nothing(finished_run: Run) -> None:
    before = {path: sha256(path) for path in finished_run.folder.rglob("*") if path.is_file()}
    result = search_averages(finished_run, device="cpu")
    dev = DevSet(finished_run.spec, Vocabulary.load(finished_run.folder), "cpu", Report())
    by_step = {checkpoint.step: checkpoint.weights for checkpoint in list_checkpoints(finished_run)}
    assert [a.steps for a in result.averages] == [(24,), (20, 24), (16, 24)]
    for scored in result.averages:
        assert scored.score == pytest.approx(dev.score(mean_of([by_step[step] for step in scored.steps])), rel=1e-5)
        assert scored.difference == scored.score - result.best.score
        assert scored.half_interval is not None
        assert scored.difference >= 0, "a lower perplexity is better"
    assert (result.best.half_interval, result.best.worse) == (0.0, False)
    assert {path: sha256(path) for path in finished_run.folder.rglob("*") if path.is_file()} == before


def test_score_that_is_not_finite_is_never_the_best(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for scores in ([math.nan, 3.0, 4.0], [math.inf, 4.0, 3.0], [3.0, math.nan, math.inf]):
        given = iter(scores)
        monkeypatch.setattr(Metric, "score", lambda metric, answers, given=given: next(given))
        result = search_averages(finished_run, device="cpu")
        assert result.best.score == 3.0
        assert all(a.worse for a in result.averages if not math.isfinite(a.score))
    monkeypatch.setattr(Metric, "score", lambda metric, answers: math.inf)
    with pytest.raises(ZooError, match=r"no average of .* has a finite dev perplexity"):
        search_averages(finished_run, device="cpu")


def test_run_without_checkpoints_has_no_averages(trained: Callable[..., Run]) -> None:
    with pytest.raises(ZooError, match="no checkpoint yet"):
        search_averages(trained())
