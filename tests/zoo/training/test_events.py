"""What TensorBoard is told: the figures of the log, each step once though the run was stopped."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from specs import Spec
from zoo.training import run_log
from zoo.training.train import train


def _read(folder: Path) -> Iterator[Event]:
    """The records of all files: length, its checksum, the event, its checksum."""
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def test_the_figures_of_the_log_are_told(world: Callable[..., Spec]) -> None:
    train(world("training.steps=11"))
    run = train(world())
    told: dict[int, float] = {}
    for event in _read(run.events):
        if event.session_log.status == SessionLog.START:
            told = {step: loss for step, loss in told.items() if step < event.step}
        for value in event.summary.value:
            if value.tag == "loss":
                told[event.step] = value.simple_value
    lines = [json.loads(line) for line in run.log.read_text().splitlines()]
    assert told == pytest.approx({line["step"]: line["loss"] for line in lines}, abs=1e-4)


def test_without_tensorboardx_there_is_the_log_alone(
    world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "SummaryWriter", None)
    run = train(world("training.steps=4"))
    assert run.log.read_text()
    assert not run.events.exists()
