"""What `zoo clean` removes: what it says, to the byte, and nothing else."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specs import Spec, ZooError
from zoo.data.prepare import prepare
from zoo.files import storage
from zoo.files.download import lock_file
from zoo.files.lock import Entry, record
from zoo.files.locks import exclusive
from zoo.files.storage import reclaimable_bytes
from zoo.models import find
from zoo.publishing.publish import publish
from zoo.publishing.removal import plan_cleanup
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.training.run import Run

Trained = Callable[..., Run]


COMPILED = f"native-{'0' * 24}"


def fill(folder: Path, name: str, count: int = 5000) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "file").write_bytes(b"x" * count)
    return folder / name


@pytest.fixture
def caches(home: Path) -> list[Path]:
    """One of each kind, and what was fetched is known by its digest."""
    storage.archives().mkdir(parents=True)
    archive = storage.archives() / "12345678-some.tgz"
    archive.write_bytes(b"y" * 9000)
    record("https://x.org/some.tgz", Entry("0" * 64, 9000))
    return [
        fill(storage.compiled(), COMPILED),
        fill(storage.prepared(), "0123456789abcdef"),
        archive,
        fill(storage.archives(), "members"),
        fill(storage.pulls(), f"model@{'0' * 64}"),
    ]


def paths(wanted: tuple[str, ...] = ()) -> list[Path]:
    return [each.path for each in plan_cleanup(wanted).removable]


def test_caches_go_and_free_what_was_said_and_the_rest_stays(caches: list[Path], trained: Trained, home: Path) -> None:
    publish(trained("runs/tiny").folder)
    found, before = plan_cleanup(), reclaimable_bytes([home])
    assert [each.path for each in found.removable] == caches
    assert found.bytes == sum(each.bytes for each in found.removable) >= 5000 * 3 + 9000
    assert reclaimable_bytes([home]) == before, "a plan removes nothing"
    assert found.remove() == []
    assert before - reclaimable_bytes([home]) == found.bytes
    assert not [path for path in caches if path.exists()]
    assert lock_file().is_file()
    assert Run(Path("runs/tiny")).weights.is_file()
    verify("transformer-tiny-ende")
    assert plan_cleanup().removable == ()


def test_runs_go_only_when_they_are_named(trained: Trained) -> None:
    first, second, third = (trained(f"runs/{name}").folder for name in ("a", "b/c", "d"))
    assert paths(("runs",)) == [first, second, third]
    assert paths(("b/c", "runs/b/c", str(second.absolute()))) == [second.absolute()]
    plan_cleanup(("d",)).remove()
    assert paths(("runs",)) == [first, second]
    assert first.exists()
    with pytest.raises(ZooError, match="there is no run `nope`"):
        plan_cleanup(("nope",))


def test_what_is_published_or_is_not_the_runs_own_stays(trained: Trained, home: Path) -> None:
    mine, bundle = trained("runs/mine").folder, publish(trained("runs/tiny").folder)
    (mine / "notes.txt").write_text("mine")
    shutil.copytree(bundle, "runs/copy")
    kept = {each.path.name: each.reason for each in plan_cleanup(("runs",)).kept}
    assert kept == {"copy": "it is a published model", "mine": "it holds what is not the run's own: notes.txt"}
    for name in ("transformer-tiny-ende", str(bundle)):
        with pytest.raises(ZooError, match="there is no run"):
            plan_cleanup((name,))


def test_what_zoo_did_not_put_there_stays(caches: list[Path]) -> None:
    """ZOO_HOME may be a folder that has more in it."""
    mine = [fill(place, "mine") for place in (storage.compiled(), storage.prepared(), storage.archives())]
    (storage.archives() / "notes.txt").write_text("mine")
    found = plan_cleanup()
    assert [each.path for each in found.removable] == caches
    assert {each.path: each.reason for each in found.kept} == dict.fromkeys(
        [*mine, storage.archives() / "notes.txt"], "zoo gives nothing such a name"
    )


def test_hidden_files_of_ones_own_are_not_the_runs(trained: Trained) -> None:
    run = trained("runs/tiny")
    (run.folder / ".spec.yaml-mine").write_text("mine")
    assert [each.reason for each in plan_cleanup(("tiny",)).kept] == [
        "it holds what is not the run's own: .spec.yaml-mine"
    ]


def test_what_a_killed_removal_left_is_no_run_and_goes_with_the_next(trained: Trained) -> None:
    run = trained("runs/tiny")
    process = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = Path(f"runs/.gone.partial-{socket.gethostname()}-{process.stdout.strip()}.1.removed")
    shutil.copytree(run.folder, left)
    assert find.all_runs() == [run.folder]
    plan_cleanup(("runs",)).remove()
    assert not left.exists()


@pytest.mark.parametrize(("inside", "name"), [("", "."), ("checkpoints", "..")])
def test_a_run_goes_by_any_name_of_its_folder(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, inside: str, name: str
) -> None:
    folder = trained("runs/tiny").folder.absolute()
    (folder / inside).mkdir(exist_ok=True)
    monkeypatch.chdir(folder / inside)
    found = plan_cleanup((name,))
    monkeypatch.chdir(folder.parents[1])
    assert [each.path for each in found.removable] == [folder]
    assert found.remove() == []
    assert not folder.exists()


def test_a_run_that_is_trained_stays_even_if_it_begins_after_the_plan(trained: Trained) -> None:
    run = trained("runs/tiny")
    planned = plan_cleanup(("runs",))
    with run.locked():
        found = plan_cleanup(("runs",))
        assert (found.removable, found.bytes) == ((), 0)
        assert [each.reason for each in found.kept] == ["it is being trained"]
        assert [each.reason for each in planned.remove()] == ["it is being trained"]
        assert run.weights.is_file()
    assert planned.remove() == []
    assert not run.folder.exists()


def test_a_corpus_stays_while_somebody_uses_it(small: Callable[..., Spec]) -> None:
    corpus = {"train": [{"grammar": 40}], "dev": [{"held_out": 2}], "test": []}
    spec = small()
    spec = spec.model_copy(update={"corpus": spec.corpus.model_validate({**spec.corpus.model_dump(), **corpus})})
    prepared = prepare(spec, Report())
    assert [each.reason for each in plan_cleanup(("prepared",)).kept] == ["a process uses it"]
    folder = prepared.folder
    del prepared
    gc.collect()
    assert paths(("prepared",)) == [folder]


def test_what_is_being_fetched_stays(caches: list[Path]) -> None:
    archive = caches[2]
    with exclusive(archive, Report()):
        archive.rename(f"{archive}.partial")
        kept = plan_cleanup(("archives",)).kept
        assert [(each.path.name, each.reason) for each in kept] == [(f"{archive.name}.partial", "it is being fetched")]
    assert Path(f"{archive}.partial") in paths(("archives",))


def test_what_is_being_pulled_stays(caches: list[Path]) -> None:
    with exclusive(caches[4], Report()):
        kept = plan_cleanup(("pulls",)).kept
        assert [(each.path, each.reason) for each in kept] == [(caches[4], "it is being pulled")]
    assert paths(("pulls",)) == [caches[4]]


def test_links_are_never_followed(caches: list[Path], trained: Trained, tmp_path: Path) -> None:
    elsewhere = fill(tmp_path, "elsewhere", 10**6)
    (caches[0] / "inside").symlink_to(elsewhere)
    (storage.compiled() / "link").symlink_to(elsewhere)
    run = trained(tmp_path / "disk" / "run")
    Path("runs").mkdir()
    Path("runs/link").symlink_to(run.folder)
    found = plan_cleanup(("compiled", "link"))
    assert [each.path for each in found.removable] == [caches[0]]
    assert {each.path.name for each in found.kept} == {"link"}
    assert found.bytes < 10**5
    found.remove()
    assert (elsewhere / "file").stat().st_size == 10**6
    assert run.weights.is_file()
    shutil.rmtree("runs")
    Path("runs").symlink_to(tmp_path / "disk")
    assert paths(("runs",)) == []


def test_a_file_of_two_names_is_freed_with_the_second(home: Path) -> None:
    first, second = (fill(storage.compiled(), f"aot-{sign * 24}", 10) for sign in "ab")
    os.link(first / "file", second / "again")
    both, empty = plan_cleanup(("compiled",)), reclaimable_bytes([first]) + reclaimable_bytes([second])
    assert both.bytes > empty
    before = reclaimable_bytes([home])
    both.remove()
    assert before - reclaimable_bytes([home]) == both.bytes
