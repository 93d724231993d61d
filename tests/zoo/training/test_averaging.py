"""Averages of checkpoints: the mean in float64, without scores of other weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file

import compiler
from tests.refusals import refused
from tests.zoo.training.conftest import files_of
from zoo.generation.loading import open_model
from zoo.models.weights import Weights, read
from zoo.training.averaging import average, end_of_training, mean_of
from zoo.training.checkpoints import list_checkpoints, scheduled_checkpoints
from zoo.training.run import Run

pytestmark = pytest.mark.integration


def test_average_is_the_mean_in_float64(tmp_path: Path) -> None:
    tensors = {tmp_path / f"{i}.safetensors": torch.randn(50) * 10.0**i for i in range(3)}
    for file, tensor in tensors.items():
        save_file({"a": tensor}, file)
    expected = torch.stack([tensor.double() for tensor in tensors.values()]).mean(0).float()
    assert torch.equal(mean_of([*tensors])["a"], expected)


def test_average_writes_the_mean_of_the_last_checkpoints(finished_run: Run) -> None:
    finished_run.answers("test").write_text("")
    average(finished_run, 2)
    first, second = (load_file(c.weights) for c in list_checkpoints(finished_run)[-2:])
    mean = read(finished_run.weights)
    torch.testing.assert_close(mean.tensors, {name: (first[name] + second[name]) / 2 for name in first})
    assert mean.metadata["steps"] == "20,24"
    assert open_model(finished_run.folder, device="cpu").longest_source == finished_run.identity.longest_source
    left = [finished_run.scores, finished_run.answers("dev"), finished_run.answers("test")]
    assert not any(file.exists() for file in left), "they are scores of other weights"


def test_average_in_int8_replaces_the_float32_average_and_back(finished_run: Run) -> None:
    expected = compiler.int8_dimensions(compiler.lower(finished_run.spec, compiler.Purpose.SCORE))
    for int8, dimensions in ((False, {}), (True, expected), (False, {})):
        assert read(average(finished_run, int8=int8)).int8_dimensions == dimensions
    mean = read(average(finished_run))
    rounded = read(average(finished_run, int8=True))
    assert rounded.metadata["steps"] == mean.metadata["steps"]
    assert all(torch.allclose(rounded.tensors[name], mean.tensors[name], atol=0.02) for name in mean.tensors)


def test_average_that_exists_changes_nothing(finished_run: Run) -> None:
    average(finished_run)
    before = files_of(finished_run)
    average(finished_run)
    for last in (0, 4):
        refused("has 3", average, finished_run, last)
    assert files_of(finished_run) == before


def test_old_scores_are_removed_even_if_averaging_is_killed(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weights, "write", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        average(finished_run, 2)
    assert not finished_run.scores.exists()


def test_missing_checkpoints_are_explained(trained: Callable[..., Run], finished_run: Run) -> None:
    state = list_checkpoints(finished_run)[-2].folder / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "due": False}))
    refused(r"has \d+ to average; the others \(1\) were written when training", average, finished_run, last=50)
    for checkpoint in list_checkpoints(finished_run):
        (checkpoint.folder / "state.json").write_text("{")
    assert (end_of_training(finished_run, finished_run.spec), len(scheduled_checkpoints(finished_run))) == (None, 1)
    refused("no checkpoints yet", average, trained("runs/new"))
