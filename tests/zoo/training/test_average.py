"""Averaging makes weights that stand for themselves: with their vocabulary, without the scores of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specs import ZooError
from zoo.files import manifest
from zoo.files.atomic import write_json
from zoo.generation.loading import open_model
from zoo.models.weights import Weights, read
from zoo.training.averaging import average
from zoo.training.run import Run


@pytest.fixture
def run(trained: Callable[..., Run]) -> Run:
    """With three checkpoints, whose tensors are 1, 2 and 4 times those of the weights."""
    run = trained()
    write_json(run.data, {"fingerprint": "0" * 16, "longest_source": 9})
    tensors = load_file(run.weights)
    for step, factor in ((10, 1.0), (20, 2.0), (30, 4.0)):
        folder = run.checkpoints / f"{step:07d}"
        folder.mkdir(parents=True)
        save_file({name: factor * tensor for name, tensor in tensors.items()}, folder / "weights.safetensors")
        write_json(folder / "state.json", {})
        manifest.write(folder)
    return run


def test_the_mean_of_the_last(run: Run) -> None:
    before = read(run.weights).tensors
    average(run, 2)
    mean = read(run.weights)
    assert all(torch.equal(mean.tensors[name], 3 * tensor) for name, tensor in before.items())
    assert mean.facts["steps"] == "20,30"
    assert open_model(run.folder, device="cpu").longest_source == 9


def test_scores_of_other_weights_go(run: Run) -> None:
    assert run.scores.exists()
    run.answers("dev").write_text("")
    average(run)
    assert not run.scores.exists()
    assert not run.answers("dev").exists()


def test_scores_of_other_weights_go_whenever_it_is_killed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(weights: Weights, path: Path) -> None:
        written(weights, path)
        raise KeyboardInterrupt

    written = Weights.write
    with monkeypatch.context() as patch:
        patch.setattr(Weights, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            average(run)
    average(run)
    assert not run.scores.exists()


@pytest.mark.parametrize("last", [0, 4])
def test_what_cannot_be_averaged_changes_nothing(run: Run, last: int) -> None:
    before = run.weights.read_bytes()
    with pytest.raises(ZooError, match="between 1 and the 3 checkpoints"):
        average(run, last)
    assert run.weights.read_bytes() == before
    assert run.scores.exists()
