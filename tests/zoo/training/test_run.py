"""A run's folder: one process at a time, and what it was begun with."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from specs import Spec, ZooError
from zoo.training.checkpoints import list_checkpoints
from zoo.training.run import Run, RunIdentity
from zoo.training.train import train

World = Callable[..., Spec]
BASIS = RunIdentity("0123456789abcdef", 30, "eager", 2, 1)
HOLDER = "import sys; from pathlib import Path; from zoo.training.run import Run\n"
HOLDER += "with Run(Path('runs/tiny')).locked(): print('mine', flush=True); sys.stdin.read()"


def test_two_processes_in_one_folder(world: World) -> None:
    """The second is told who the first is, and writes nothing; it may begin when the first is gone, however it went."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(ZooError, match=f"process {holder.pid} on {socket.gethostname()}") as caught:
            train(world("training.steps=4"))
        assert "--run" in (caught.value.hint or "")
        assert [path.name for path in Path("runs/tiny").iterdir()] == [".lock"]
        holder.kill()
    assert train(world("training.steps=4")).weights.is_file()


def test_a_training_that_comes_to_nothing_leaves_no_folder(world: World) -> None:
    with pytest.raises(ZooError, match="not there"):
        train(world("corpus.train=[{source: a.en, target: a.de}]"), run="some/where")
    assert not Path("some").exists()
    Path("there").mkdir()
    with pytest.raises(ZooError, match="not there"):
        train(world("corpus.train=[{source: a.en, target: a.de}]"), run="there")
    assert list(Path("there").iterdir()) == []


@pytest.mark.parametrize("meanwhile", [lambda: Path("runs/another").mkdir(), lambda: shutil.rmtree("runs")])
def test_why_it_came_to_nothing_is_told_whatever_became_of_its_folder(meanwhile: Callable[[], None]) -> None:
    def fails() -> None:
        with Run(Path("runs/one")).locked():
            meanwhile()
            raise ZooError("the cause")

    with pytest.raises(ZooError, match="the cause"):
        fails()
    assert not Path("runs/one").exists()


def test_a_lock_names_nobody_after_the_training(world: World) -> None:
    run = train(world("training.steps=4"))
    assert (run.folder / ".lock").read_text() == ""
    with run.locked():
        assert f"process {os.getpid()}" in (run.folder / ".lock").read_text()
    train(world("training.steps=4"), fresh=True)


def test_a_run_goes_by_what_it_was_begun_with(world: World, words: Any) -> None:
    run, spec = Run(Path("runs/tiny")), world()
    run.folder.mkdir(parents=True)
    assert run.start(spec, BASIS, words) == BASIS == run.identity
    assert run.spec_file.read_text().startswith(f"# written by zoo {zoo.__version__}\n")
    assert run.spec == spec
    assert run.start(spec, replace(BASIS, threads=5), words) == BASIS
    with pytest.raises(ZooError, match="corpus has changed"):
        run.start(spec, replace(BASIS, fingerprint="f" * 16), words)
    with pytest.raises(ZooError, match="`eager`, and this machine takes `inductor`"):
        run.start(spec, replace(BASIS, backend="inductor"), words)
    assert run.identity == BASIS
    assert not words.said
    more = replace(BASIS, threads=1, processes=4)
    assert run.start(spec, more, words) == more == run.identity
    assert words.said == ["the number of processes is 4, and was 1: dropout falls otherwise from here on"]


def test_whose_name_a_run_has_is_said_when_it_begins(world: World, words: Any) -> None:
    """Its own spec.yaml, by which it may go on, is a whole one and has a name."""
    run, spec = Run(Path("runs/own")), world()
    run.folder.mkdir(parents=True)
    run.start(spec, replace(BASIS, named=False), words)
    for basis in (BASIS, replace(BASIS, processes=2)):
        assert run.start(spec, basis, words).named is False


def test_every_machine_that_it_was_trained_on_is_remembered(world: World, words: Any) -> None:
    run, spec = Run(Path("runs/tiny")), world()
    run.folder.mkdir(parents=True)
    run.start(spec, replace(BASIS, machine="one, 2 threads"), words)
    run.start(spec, replace(BASIS, machine="other, 4 threads", processes=2), words)
    assert (
        run.start(spec, replace(BASIS, machine="one, 2 threads"), words).machine == "one, 2 threads; other, 4 threads"
    )
    run.start(spec, replace(BASIS, machine="one"), words)
    assert run.identity.machine == "one, 2 threads; other, 4 threads; one", "a name may be the beginning of another"


def test_a_run_of_before_knows_no_machine(world: World, words: Any) -> None:
    run, spec = Run(Path("runs/tiny")), world()
    run.folder.mkdir(parents=True)
    run.start(spec, BASIS, words)
    kept = json.loads(run.data.read_text())
    del kept["machine"]
    run.data.write_text(json.dumps(kept))
    assert run.start(spec, replace(BASIS, machine="one"), words).machine == "", "it did not do all of it"


def test_without_dropout_another_backend_is_another_rounding(world: World, words: Any) -> None:
    run, spec = Run(Path("runs/tiny")), world("architecture.dropout=0.0")
    run.folder.mkdir(parents=True)
    run.start(spec, BASIS, words)
    assert run.start(spec, replace(BASIS, backend="inductor", threads=7), words).threads == BASIS.threads
    assert "rounded otherwise" in words.said[0]
    assert run.identity.backend == "inductor"


def test_sums_are_taken_on_as_many_threads_as_at_the_beginning(world: World, words: Any) -> None:
    ours = torch.get_num_threads()
    train(world("training.steps=4"))
    torch.set_num_threads(ours + 1)
    try:
        train(world("training.steps=8"), report=words)
        assert torch.get_num_threads() == ours + 1
    finally:
        torch.set_num_threads(ours)
    assert any(f"on {ours} threads, as the run began" in line for line in words.said)


def test_what_another_version_wrote_is_told(world: World, words: Any) -> None:
    run, spec = Run(Path("runs/tiny")), world()
    run.folder.mkdir(parents=True)
    run.start(spec, BASIS, words)
    written = json.loads(run.data.read_text())
    run.data.write_text(json.dumps({**written, "novelty": 3}))
    with pytest.raises(ZooError, match=r"data\.json` is of another version"):
        run.start(spec, BASIS, words)
    del written["processes"], written["threads"]
    run.data.write_text(json.dumps(written))
    assert run.start(spec, replace(BASIS, processes=2), words).processes == 2
    assert "was 1" in words.said[0]


def test_a_restarted_launcher_does_not_start_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(world("training.steps=8"))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    train(world("training.steps=12"), fresh=True)
    assert [c.step for c in list_checkpoints(run)] == [4, 8, 12]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    train(world("training.steps=4"), fresh=True)
    assert [c.step for c in list_checkpoints(run)] == [4]
