"""The log of a run: complete lines, speeds of the time in steps, and TensorBoard events."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event, SessionLog

from specs import Spec
from tests.refusals import refused
from zoo.data.batches import BatchSize
from zoo.models.folder import ModelFolder
from zoo.training import run_log
from zoo.training.checkpoints import TrainingProgress
from zoo.training.run import Run
from zoo.training.run_log import RunLog
from zoo.training.step import StepResult
from zoo.training.train import train


def open_log(path: Path, start: TrainingProgress) -> RunLog:
    spec: Any = SimpleNamespace(scores=("bleu",))
    return RunLog(Run(path.parent), spec, start, 1e9, torch.device("cpu"))


def write_step(log: RunLog, step: int, seconds: float) -> dict[str, Any]:
    log.add(BatchSize(2, 40, 60, 100), StepResult(*torch.tensor([6.0, 6.0, 1.0]), 60), 4e9)
    return log.write(TrainingProgress(step=step, seconds=seconds), 0.1, {})


@pytest.mark.parametrize("damage", ["[" * 100_000, '{"step": 1e999}', "[]", '"x"', "NaN", "9" * 5_000])
def test_damaged_lines_are_skipped(tmp_path: Path, damage: str) -> None:
    good = dict.fromkeys(run_log._REQUIRED, 1.0)
    other = json.dumps({**good, "seconds": "here"}).replace('"here"', damage)
    (tmp_path / "log.jsonl").write_text(f"{damage}\n{other}\n{json.dumps(good)}\n")
    assert run_log.read_log(ModelFolder(tmp_path)) == [good]


@pytest.mark.parametrize("rest", [b"", b'{"step": 3, "lo', b"\x00\x00\x00", b'{"step": 3, "name": "M\xc3'])
def test_incomplete_line_is_removed(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    log = open_log(path, TrainingProgress())
    for step in (1, 2):
        write_step(log, step, float(step))
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    open_log(path, TrainingProgress(step=2)).close()
    assert path.read_bytes() == whole


def test_speeds_refer_to_the_time_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time between steps does not count. Not all losses have a perplexity. The log does not need tensorboardX."""
    monkeypatch.setattr(run_log, "SummaryWriter", None)
    log = open_log(tmp_path / "log.jsonl", TrainingProgress(step=2, seconds=100.0))
    lines = [write_step(log, 3, seconds) for seconds in (104.0, 106.0)]
    names = ("source_tokens_per_second", "target_tokens_per_second", "utilisation", "loss", "padding", "perplexity")
    assert [[line[name] for name in names] for line in lines] == [[10, 15, 1, 0.1, 0, None], [20, 30, 2, 0.1, 0, None]]
    log.close()
    assert not (tmp_path / "events").exists()


def test_full_disk_is_reported_with_the_name_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "log.jsonl", TrainingProgress())
    monkeypatch.setattr(Path, "open", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    refused(r"log\.jsonl` cannot be written: the disk is full", write_step, log, 1, 1.0)


def read_events(folder: Path) -> Iterator[Event]:
    """Yield the records of all files: length, its checksum, the event, its checksum."""
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


@pytest.mark.integration
def test_resumed_training_continues_log_and_events(finished_run: Run, world: Callable[..., Spec], words: Any) -> None:
    """Each step is in the events once, though the lines after step 21 were lost."""
    lines = finished_run.log.read_text().splitlines(keepends=True)
    finished_run.log.write_text("".join(lines[:-1]))
    train(world("training.steps=29"), report=words)
    lines = [json.loads(line) for line in finished_run.log.read_text().splitlines()]
    steps = [line["step"] for line in lines]
    assert steps == [step for step in range(1, 30) if (step % 3 == 0 or step % 4 == 0 or step == 29) and step != 24]
    for line in lines:
        assert 0.8 < line["target_tokens_per_second"] / line["source_tokens_per_second"] < 1.5
        assert 0 < line["padding"] < 0.9
        assert min(line["utilisation"], line["memory_bytes"]) > 0
    losses: dict[int, float] = {}
    for event in read_events(finished_run.events):
        if event.session_log.status == SessionLog.START:
            losses = {step: loss for step, loss in losses.items() if step < event.step}
        for value in event.summary.value:
            if value.tag == "loss":
                losses[event.step] = value.simple_value
    del losses[24]
    assert losses == pytest.approx({line["step"]: line["loss"] for line in lines}, abs=1e-4)


@pytest.mark.integration
def test_training_that_ends_before_the_warmup_is_reported(world: Callable[..., Spec], words: Any) -> None:
    for steps in (4, 5):
        train(world(f"training.steps={steps}", "training.warmup_steps=9"), report=words)
    warnings = [each.split(",")[0] for each in words.said if "the learning rate rises until step 9" in each]
    assert warnings == ["training ends at step 4", "training ends at step 5"]
