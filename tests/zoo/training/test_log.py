"""The log of a training that was killed while it wrote."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from specs import ZooError
from zoo.data.batches import BatchSize
from zoo.training.checkpoints import TrainingProgress
from zoo.training.run_log import RunLog, TensorBoardEvents
from zoo.training.step import StepResult


@pytest.mark.parametrize("rest", [b"", b'{"step": 3, "lo', b"\x00\x00\x00", b'{"step": 3, "name": "M\xc3'])
def test_lines_that_are_whole_stay(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    whole = b'{"step": 1}\n{"step": 2}\n'
    path.write_bytes(whole + rest)
    log_of(path, TrainingProgress(step=2)).close()
    assert path.read_bytes() == whole


def test_speeds_are_of_the_time_that_steps_took(tmp_path: Path) -> None:
    """What is between them, a checkpoint's writing or a dev set's score, is no part of it."""
    log = log_of(tmp_path / "log.jsonl", TrainingProgress(step=2, seconds=100.0))
    lines = []
    for seconds in (104.0, 106.0):
        log.add(BatchSize(2, 40, 60, 100), StepResult(*torch.tensor([6.0, 6.0, 1.0]), 60), 4e9)
        lines.append(log.write(TrainingProgress(step=3, seconds=seconds), 0.1, {}))
    assert [line["source_tokens_per_second"] for line in lines] == [10.0, 20.0]
    assert [line["target_tokens_per_second"] for line in lines] == [15.0, 30.0]
    assert [line["utilisation"] for line in lines] == [1.0, 2.0]


def test_a_disk_that_is_full_is_told_with_the_logs_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path / "log.jsonl", TrainingProgress())
    log.add(BatchSize(2, 40, 60, 100), StepResult(*torch.tensor([6.0, 6.0, 1.0]), 60), 4e9)

    def full(path: Path, *how: object, **more: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(ZooError, match=r"log\.jsonl` cannot be written: the disk is full"):
            log.write(TrainingProgress(step=1, seconds=1.0), 0.1, {})


def log_of(path: Path, begun: TrainingProgress) -> RunLog:
    return RunLog(path, begun, 1e9, torch.device("cpu"), TensorBoardEvents(path.parent / "events", begun.step))
