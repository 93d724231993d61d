"""The folder of a run: one process at a time, its identity, and its own files."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

import zoo
from compiler.host import ONEDNN, matrix_libraries
from specs import ZooError
from tests.refusals import refused
from tests.zoo.training.conftest import World
from zoo.training.run import Run, RunIdentity
from zoo.training.step import TrainStep
from zoo.training.train import train

IDENTITY = RunIdentity("0123456789abcdef", 30, "eager", 2, 1)
HOLDER = "import sys; from pathlib import Path; from zoo.training.run import Run\n"
HOLDER += "with Run(Path('runs/tiny')).locked(): print('locked', flush=True); sys.stdin.read()"


@pytest.fixture
def run() -> Run:
    run = Run(Path("runs/tiny"))
    run.folder.mkdir(parents=True)
    return run


def write_identity(run: Run, **fields: object) -> None:
    run.data.write_text(json.dumps({**json.loads(run.data.read_text()), **fields}))


@pytest.mark.integration
def test_second_process_is_refused_and_names_the_first(world: World) -> None:
    pipe, folder = subprocess.PIPE, Path("runs/tiny")
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        error = refused(f"process {holder.pid} on {socket.gethostname()}", train, world("training.steps=4"))
        assert "--run" in (error.hint or "")
        assert [path.name for path in folder.iterdir()] == [".lock"]
        holder.kill()
    with Run(folder).locked():
        assert f"process {os.getpid()}" in (folder / ".lock").read_text()
        (folder / "spec.yaml").touch()
    assert (folder / ".lock").read_text() == ""


def test_training_that_writes_nothing_leaves_no_folder(world: World) -> None:
    missing = world("corpus.train=[{source: a.en, target: a.de}]")
    Path("existing").mkdir()
    for folder in ("some/where", "existing"):
        refused("does not exist", train, missing, run=folder)
    with patch.object(os, "write", side_effect=OSError(errno.ENOSPC, "")):
        refused("`some/where` cannot be written: the disk is full", train, world(), run="some/where")
    assert (Path("some").exists(), list(Path("existing").iterdir())) == (False, [])
    with suppress(ZooError), Run(Path("runs/one")).locked():
        Path("runs/another").mkdir()
        raise ZooError("the cause")
    assert [path.name for path in Path("runs").iterdir()] == ["another"]


def test_run_keeps_the_identity_that_it_was_started_with(world: World, words: Any, run: Run) -> None:
    spec = world()
    assert run.start(spec, IDENTITY, words) == IDENTITY == run.identity
    assert run.spec_file.read_text().startswith(f"# written by zoo {zoo.__version__}\n")
    assert (run.spec, run.start(spec, replace(IDENTITY, threads=5), words)) == (spec, IDENTITY)
    refused("corpus has changed", run.start, spec, replace(IDENTITY, fingerprint="f" * 16), words)
    refused("`eager` backend, but now uses `inductor`", run.start, spec, replace(IDENTITY, backend="inductor"), words)
    assert (run.identity, words.said) == (IDENTITY, [])
    more = replace(IDENTITY, threads=1, processes=4)
    assert run.start(spec, more, words) == more == run.identity
    assert run.start(spec, replace(more, sharded=True), words).sharded
    assert words.said[0] == "the number of processes was 1 and is now 4: later steps differ"
    write_identity(run, novelty=3)
    refused(r"data\.json` was written by another version", run.start, spec, more, words)


def test_all_machines_are_recorded(world: World, words: Any, run: Run) -> None:
    """With other processes, a run also keeps whether its spec had its own name: its own spec.yaml always has one."""
    spec, one, other = world(), "one, 2 threads", "other, 4 threads"
    run.start(spec, replace(IDENTITY, machine=one, named=False), words)
    assert not run.start(spec, replace(IDENTITY, machine=other, processes=2), words).named
    assert run.start(spec, replace(IDENTITY, machine=one), words).machine == f"{one}; {other}"
    run.start(spec, replace(IDENTITY, machine="one"), words)
    assert run.identity.machine == f"{one}; {other}; one", "a name may be a prefix of another"


@pytest.mark.integration
def test_matrix_library_that_is_missing_is_replaced(world: World, words: Any, finished_run: Run) -> None:
    available = finished_run.identity.matrix_library
    write_identity(finished_run, matrix_library="a foreign library")
    train(world("training.steps=25"), report=words)
    assert "a foreign library is not available on this machine" in " ".join(words.said)
    assert finished_run.identity.matrix_library == available


@pytest.mark.integration
@pytest.mark.skipif(len(matrix_libraries()) < 2, reason="this processor has one float32 library")
def test_training_uses_the_library_of_its_start(world: World, finished_run: Run, monkeypatch: Any) -> None:
    used, step, mkldnn = [], TrainStep.__call__, torch.backends.mkldnn.matmul

    def recording(*args: Any) -> Any:
        used.append(mkldnn.fp32_precision)
        return step(*args)

    monkeypatch.setattr(TrainStep, "__call__", recording)
    for library in matrix_libraries():
        write_identity(finished_run, matrix_library=library)
        train(world(f"training.steps={25 + len(used)}"))
    default = mkldnn.fp32_precision
    assert used == ["bf16" if library == ONEDNN else default for library in matrix_libraries()]


def test_other_spec_is_refused_with_its_differing_keys(finished_run: Run, world: World) -> None:
    before, other = finished_run.spec_file.read_bytes(), world("architecture.dropout=0.2", "training.seed=3")
    error = refused(r"architecture\.dropout: `0\.1` in the run, `0\.2` now", train, other)
    assert "training.seed: `1` in the run, `3` now" in str(error)
    assert str(error.hint).startswith("resume with the run's own values (`zoo train runs/tiny/spec.yaml`), ")
    assert finished_run.spec_file.read_bytes() == before
    finished_run.check(world("training.steps=8", "training.average=2", "training.log_steps=4"))
    finished_run.clear()
    assert list(finished_run.folder.iterdir()) == [finished_run.lock]


def test_steps_of_a_run_with_a_cooldown_are_fixed(world: World, words: Any, run: Run) -> None:
    keys = ("training.cooldown_steps=2", "training.steps=8")
    run.start(world(*keys), IDENTITY, words)
    run.check(world(*keys, "training.average=2"))
    refused(r"training\.steps: `8` in the run, `9` now", run.check, world(*keys, "training.steps=9"))


def test_folder_of_other_files_is_refused(world: World, run: Run) -> None:
    (run.folder / ".spec.yaml.partial-somewhere-1.2").touch()  # left by a killed training
    run.check(world())
    (run.folder / "chapter1.tex").write_text("...")
    for fresh in (False, True):
        refused(r"chapter1\.tex", train, world(), run=run.folder, fresh=fresh)
    assert {path.name for path in run.folder.iterdir()} == {".spec.yaml.partial-somewhere-1.2", "chapter1.tex"}
