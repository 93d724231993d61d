"""Averages of checkpoints: the mean in float64, without scores of other weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from specs import ZooError
from zoo.generation.loading import open_model
from zoo.models.weights import Weights, read
from zoo.training.averaging import average, mean_of
from zoo.training.checkpoints import list_checkpoints
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


def test_run_without_checkpoints_has_no_averages(trained: Callable[..., Run]) -> None:
    with pytest.raises(ZooError, match="no checkpoints yet"):
        average(trained())
