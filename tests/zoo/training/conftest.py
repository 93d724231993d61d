"""A trainer of the world in which training takes a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specs import Spec
from zoo.data.prepare import prepare
from zoo.data.training_set import TrainingSet
from zoo.report import Report
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.trainer import Trainer


@pytest.fixture
def trainer(world: Callable[..., Spec], words: Report) -> Callable[..., Trainer]:
    """A trainer of this world that is before its first step; of the run `nowhere`, unless it is told otherwise."""

    def made(*more: str, run: Path | str = "nowhere") -> Trainer:
        spec = world(*more)
        return Trainer(
            spec, TrainingSet(spec, prepare(spec, Report()).store("train")), Run(Path(run)), Processes("cpu"), words
        )

    return made
