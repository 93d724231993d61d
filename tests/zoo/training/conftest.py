"""A prepared corpus and a trained run, made once per session and copied into the home of each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from compiler import build_module
from specs import Spec
from zoo.data.prepare import prepare
from zoo.data.training_set import TrainingSet
from zoo.report import Report
from zoo.training.distributed import Processes, join_processes
from zoo.training.run import Run
from zoo.training.step import TrainStep
from zoo.training.train import _train, train
from zoo.training.trainer import Trainer

World = Callable[..., Spec]
"""Type of the fixture `world`."""
Make = Callable[..., Trainer]
"""Type of the fixture `trainer`."""
Patch = pytest.MonkeyPatch
"""Type of the fixture `monkeypatch`."""


def train_steps(spec: Spec, run: Path | str, device: str = "auto", report: Report | None = None) -> None:
    """Train as `train` does, but without averaging and scoring at the end."""
    chosen = Run(Path(run))
    with join_processes(device) as processes, chosen.locked():
        _train(spec, chosen, processes, fresh=False, report=report or Report())


def files_of(run: Run) -> dict[Path, bytes]:
    """Return the content of the files in a run's folder."""
    return {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}


@pytest.fixture
def world(world: Callable[..., Spec]) -> Callable[..., Spec]:
    """The tiny world with a backend that compiles nothing."""
    return lambda *overrides: world("compilation.backend=eager", *overrides)


@pytest.fixture
def shared_world(world: Callable[..., Spec], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the `home` and the finished `run` of this world, shared by all tests and all xdist workers."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if root.name.startswith("popen-") else root) / "world"
    with FileLock(f"{folder}.lock"):
        if not (folder / "finished").exists():
            folder.mkdir(exist_ok=True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ZOO_HOME", str(folder / "home"))
                patch.chdir(folder)
                train(world(), run="run")
            (folder / "finished").touch()
    return folder


@pytest.fixture(autouse=True)
def prepared_home(request: pytest.FixtureRequest, home: Path) -> None:
    """Prepare the corpus of the world for tests that use it."""
    if "world" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("shared_world") / "home" / "prepared", home / "prepared")


@pytest.fixture
def finished_run(shared_world: Path) -> Run:
    """A copy of the run of `world()`: 24 steps, with checkpoints at 16, 20 and 24."""
    return Run(Path(shutil.copytree(shared_world / "run", "runs/tiny")))


@pytest.fixture
def trainer(world: Callable[..., Spec], words: Report) -> Callable[..., Trainer]:
    """Makes a trainer of this world before its first step, for the run `nowhere` by default."""

    def make(*overrides: str, run: Path | str = "nowhere") -> Trainer:
        spec = world(*overrides)
        data = TrainingSet(spec, prepare(spec, Report()).store("train"))
        return Trainer(TrainStep(spec, build_module(spec), Processes("cpu"), words), data, Run(Path(run)))

    return make
