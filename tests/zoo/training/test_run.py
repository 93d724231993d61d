"""The folder of a run: one process at a time, its identity, and its own files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from compiler.host import ONEDNN, matrix_libraries
from specs import Spec, ZooError
from zoo.training.run import Run, RunIdentity
from zoo.training.step import TrainStep
from zoo.training.train import train

World = Callable[..., Spec]
IDENTITY = RunIdentity("0123456789abcdef", 30, "eager", 2, 1)
HOLDER = "import sys; from pathlib import Path; from zoo.training.run import Run\n"
HOLDER += "with Run(Path('runs/tiny')).locked(): print('locked', flush=True); sys.stdin.read()"


@pytest.fixture
def run() -> Run:
    folder = Path("runs/tiny")
    folder.mkdir(parents=True)
    return Run(folder)


@pytest.mark.integration
def test_second_process_is_refused_and_names_the_first(world: World) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(ZooError, match=f"process {holder.pid} on {socket.gethostname()}") as caught:
            train(world("training.steps=4"))
        assert "--run" in (caught.value.hint or "")
        assert [path.name for path in Path("runs/tiny").iterdir()] == [".lock"]
        holder.kill()
    with Run(Path("runs/tiny")).locked():
        assert f"process {os.getpid()}" in Path("runs/tiny/.lock").read_text()
        Path("runs/tiny/spec.yaml").touch()
    assert Path("runs/tiny/.lock").read_text() == ""


def test_training_that_writes_nothing_leaves_no_folder(world: World) -> None:
    missing = world("corpus.train=[{source: a.en, target: a.de}]")
    with pytest.raises(ZooError, match="does not exist"):
        train(missing, run="some/where")
    assert not Path("some").exists()
    Path("existing").mkdir()
    with pytest.raises(ZooError, match="does not exist"):
        train(missing, run="existing")
    assert list(Path("existing").iterdir()) == []
    with suppress(ZooError), Run(Path("runs/one")).locked():
        Path("runs/another").mkdir()
        raise ZooError("the cause")
    assert [path.name for path in Path("runs").iterdir()] == ["another"]


def test_run_keeps_the_identity_that_it_was_started_with(world: World, words: Any, run: Run) -> None:
    spec = world()
    assert run.start(spec, IDENTITY, words) == IDENTITY == run.identity
    assert run.spec_file.read_text().startswith(f"# written by zoo {zoo.__version__}\n")
    assert run.spec == spec
    assert run.start(spec, replace(IDENTITY, threads=5), words) == IDENTITY
    with pytest.raises(ZooError, match="corpus has changed"):
        run.start(spec, replace(IDENTITY, fingerprint="f" * 16), words)
    with pytest.raises(ZooError, match="`eager` backend, but now uses `inductor`"):
        run.start(spec, replace(IDENTITY, backend="inductor"), words)
    assert run.identity == IDENTITY
    assert not words.said
    more = replace(IDENTITY, threads=1, processes=4)
    assert run.start(spec, more, words) == more == run.identity
    assert run.start(spec, replace(more, sharded=True), words).sharded
    assert words.said[0] == "the number of processes was 1 and is now 4: later steps differ"


def test_all_machines_are_recorded(world: World, words: Any, run: Run) -> None:
    """With other processes, a run also keeps whether its spec had its own name: its own spec.yaml always has one."""
    spec = world()
    run.start(spec, replace(IDENTITY, machine="one, 2 threads", named=False), words)
    assert not run.start(spec, replace(IDENTITY, machine="other, 4 threads", processes=2), words).named
    both = "one, 2 threads; other, 4 threads"
    assert run.start(spec, replace(IDENTITY, machine="one, 2 threads"), words).machine == both
    run.start(spec, replace(IDENTITY, machine="one"), words)
    assert run.identity.machine == f"{both}; one", "a name may be a prefix of another"


def test_identity_of_another_version_is_refused(world: World, words: Any, run: Run) -> None:
    run.start(world(), IDENTITY, words)
    stored = json.loads(run.data.read_text())
    run.data.write_text(json.dumps({**stored, "novelty": 3}))
    with pytest.raises(ZooError, match=r"data\.json` was written by another version"):
        run.start(world(), IDENTITY, words)


@pytest.mark.integration
def test_matrix_library_that_is_missing_is_replaced(world: World, words: Any, finished_run: Run) -> None:
    stored = json.loads(finished_run.data.read_text())
    finished_run.data.write_text(json.dumps({**stored, "matrix_library": "a foreign library"}))
    train(world("training.steps=25"), report=words)
    assert "a foreign library is not available on this machine" in " ".join(words.said)
    assert finished_run.identity.matrix_library == stored["matrix_library"]


@pytest.mark.integration
@pytest.mark.skipif(len(matrix_libraries()) < 2, reason="this processor has one float32 library")
def test_training_uses_the_library_that_the_run_was_started_with(
    world: World, words: Any, finished_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, original = [], TrainStep.__call__

    def recording(self: Any, *args: Any) -> Any:
        used.append(torch.backends.mkldnn.matmul.fp32_precision)
        return original(self, *args)

    monkeypatch.setattr(TrainStep, "__call__", recording)
    for library in matrix_libraries():
        stored = json.loads(finished_run.data.read_text())
        finished_run.data.write_text(json.dumps({**stored, "matrix_library": library}))
        train(world(f"training.steps={25 + len(used)}"), report=words)
    default = torch.backends.mkldnn.matmul.fp32_precision
    assert used == ["bf16" if library == ONEDNN else default for library in matrix_libraries()]


def test_other_spec_is_refused_with_its_differing_keys(finished_run: Run, world: World) -> None:
    before = finished_run.spec_file.read_bytes()
    with pytest.raises(ZooError, match=r"architecture\.dropout: `0\.1` in the run, `0\.2` now") as caught:
        train(world("architecture.dropout=0.2", "training.seed=3"))
    assert "training.seed: `1` in the run, `3` now" in str(caught.value)
    assert str(caught.value.hint).startswith("`zoo train runs/tiny/spec.yaml` resumes with the run's own values; ")
    assert finished_run.spec_file.read_bytes() == before
    finished_run.check(world("training.steps=8", "training.average=2", "training.log_steps=4"))


def test_steps_of_a_run_with_a_cooldown_are_fixed(world: World, words: Any, run: Run) -> None:
    run.start(world("training.cooldown_steps=2", "training.steps=8"), IDENTITY, words)
    run.check(world("training.cooldown_steps=2", "training.steps=8", "training.average=2"))
    with pytest.raises(ZooError, match=r"training\.steps: `8` in the run, `9` now"):
        run.check(world("training.cooldown_steps=2", "training.steps=9"))


def test_fresh_start_removes_only_own_files(finished_run: Run, world: World) -> None:
    (finished_run.folder / "notes.txt").write_text("my notes")
    for fresh in (True, False):
        with pytest.raises(ZooError, match=r"notes\.txt" if fresh else "a different spec"):
            train(world("training.steps=4", "training.seed=3"), fresh=fresh)
    (finished_run.folder / "notes.txt").unlink()
    finished_run.clear()
    assert list(finished_run.folder.iterdir()) == [finished_run.lock]


def test_folder_of_other_files_is_refused(world: World) -> None:
    Path("thesis").mkdir()
    Path("thesis/chapter1.tex").write_text("...")
    for fresh in (False, True):
        with pytest.raises(ZooError, match=r"chapter1\.tex"):
            train(world(), run="thesis", fresh=fresh)
    assert [p.name for p in Path("thesis").iterdir()] == ["chapter1.tex"]
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/.spec.yaml.partial-somewhere-1.2").touch()  # left by a killed training
    Run(Path("runs/tiny")).check(world())
