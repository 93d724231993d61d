"""A world in which training takes a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import specs
from specs import Spec
from zoo.data.prepare import prepare
from zoo.data.training_set import TrainingSet
from zoo.report import Report
from zoo.training.processes import Processes
from zoo.training.run import Run
from zoo.training.trainer import Trainer

WORLD = [
    "architecture.N=1",
    "architecture.d_model=16",
    "architecture.d_ff=24",
    "architecture.h=2",
    "architecture.d_k=6",
    "architecture.d_v=4",
    "architecture.dropout=0.1",
    "vocabulary.size=200",
    "corpus.train=[{grammar: 300}]",
    "corpus.dev=[{grammar: 10}]",
    "corpus.test=[{grammar: 10}]",
    "training.source_tokens=400",
    "training.target_tokens=400",
    "training.checkpoint_steps=4",
    "training.log_steps=3",
    "training.steps=24",
    "training.learning_rate=1.0",
    "training.warmup_steps=10",
    "training.average=3",
]


class Words(Report):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    warn = say


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def world() -> Callable[..., Spec]:
    return lambda *more: specs.load("tiny", [*WORLD, *more])


@pytest.fixture
def trainer(world: Callable[..., Spec], words: Words) -> Callable[..., Trainer]:
    """A trainer of this world that is before its first step; of the run `nowhere`, unless it is told otherwise."""

    def made(*more: str, run: Path | str = "nowhere") -> Trainer:
        spec = world(*more)
        return Trainer(
            spec, TrainingSet(spec, prepare(spec, Report()).store("train")), Run(Path(run)), Processes("cpu"), words
        )

    return made
