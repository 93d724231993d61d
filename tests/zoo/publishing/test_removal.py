"""`zoo clean` removes what it announces, to the byte, and nothing else."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest

import specs
from compiler.artefact import Artefact
from tests.conftest import Trained
from tests.examples import SMALL
from tests.refusals import refused
from tests.zoo.files.test_atomic import dead_process
from zoo.data.prepare import prepare
from zoo.files import atomic, storage
from zoo.files.atomic import write_json
from zoo.files.download import path_of, records_file
from zoo.files.locks import exclusive
from zoo.files.storage import folder_bytes
from zoo.models import find
from zoo.publishing.removal import plan_cleanup
from zoo.report import Report


def fill(folder: Path, name: str, count: int = 5000) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "file").write_bytes(b"x" * count)
    return folder / name


@pytest.fixture
def caches(home: Path) -> list[Path]:
    """An entry in each cache that `zoo clean` empties by default, and `corpus.lock`."""
    storage.archives().mkdir(parents=True)
    archive = path_of("https://x.org/some.json")
    archive.write_bytes(b"y" * 9000)
    write_json(records_file(), {"https://x.org/some.json": {"sha256": "0" * 64, "bytes": 9000}})
    artefacts = (Artefact(storage.compiled(), name, {}).folder for name in ("native", "packed-everyday-float32"))
    compiled = [fill(folder.parent, folder.name) for folder in artefacts]
    prepared, members = fill(storage.prepared(), "0123456789abcdef"), fill(storage.archives(), "members")
    return [*compiled, prepared, archive, members, fill(storage.pulls(), f"model@{'0' * 64}")]


def paths(targets: tuple[str, ...] = ()) -> list[Path]:
    return [item.path for item in plan_cleanup(targets).removable]


def test_caches_are_removed_and_free_the_announced_bytes(caches: list[Path], trained: Trained, bundle: Path) -> None:
    weights, home = trained("runs/tiny").weights, storage.home()
    mine = [fill(folder, "mine") for folder in (storage.compiled(), storage.prepared(), storage.archives())]
    (storage.archives() / "notes.txt").write_text("mine")
    plan, before = plan_cleanup(), folder_bytes(home)
    assert [item.path for item in plan.removable] == caches
    assert {item.path for item in plan.kept} == {*mine, storage.archives() / "notes.txt"}
    assert {item.reason for item in plan.kept} == {"zoo does not use this name, so another program may have written it"}
    assert plan.bytes == sum(item.bytes for item in plan.removable) >= 5000 * 4 + 9000
    assert folder_bytes(home) == before
    assert plan.remove() == []
    assert before - folder_bytes(home) == plan.bytes
    assert all(path.is_file() for path in (records_file(), weights, bundle / "weights.safetensors"))
    assert plan_cleanup().removable == ()


def test_only_selected_runs_are_removed(trained: Trained) -> None:
    first, second, third = (trained(f"runs/{name}").folder for name in ("a", "b/c", "d"))
    assert paths(("runs",)) == [first, second, third]
    assert paths(("b/c", "runs/b/c", str(second.absolute()))) == [second.absolute()]
    plan_cleanup(("d",)).remove()
    assert paths(("runs",)) == [first, second]


def test_published_models_and_foreign_files_are_kept(trained: Trained, bundle: Path) -> None:
    mine = trained("runs/mine").folder
    (trained("runs/hidden").folder / ".spec.yaml-mine").write_text("mine")
    (mine / "notes.txt").write_text("mine")
    shutil.copytree(bundle, "runs/copy")
    reasons = {item.path.name: item.reason for item in plan_cleanup(("runs",)).kept}
    foreign = "it contains files that are not part of a run:"
    assert reasons.pop("copy") == "it is a published model"
    assert reasons == {"mine": f"{foreign} notes.txt", "hidden": f"{foreign} .spec.yaml-mine"}
    for name in ("nope", "transformer-tiny-ende", str(bundle)):
        refused(f"there is no run `{name}`", plan_cleanup, (name,))


def test_a_half_removed_run_is_not_a_run_and_the_next_removal_removes_it(trained: Trained) -> None:
    run = trained("runs/tiny")
    left = Path(f"runs/.gone{atomic._host_mark()}{dead_process()}.1.removed")
    shutil.copytree(run.folder, left)
    assert find.all_runs() == [run.folder]
    plan_cleanup(("runs",)).remove()
    assert not left.exists()


def test_files_that_a_killed_process_left_are_removed(caches: list[Path]) -> None:
    mark = atomic._host_mark()
    folders = (storage.models(), storage.prepared())
    left = [fill(folder, f".a{mark}{dead_process()}.1") for folder in folders]
    used = [fill(folder, f".b{mark}{os.getpid()}.1") for folder in folders]
    plan = plan_cleanup()
    assert {item.path for item in plan.removable} == {*caches, *left}
    assert plan.remove() == []
    assert [path.exists() for path in (*left, *used)] == [False, False, True, True]


def test_a_run_can_be_named_by_a_relative_path(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trained("runs/tiny").folder.absolute()
    (folder / "checkpoints").mkdir()
    monkeypatch.chdir(folder)
    assert paths((".",)) == [folder]
    monkeypatch.chdir("checkpoints")
    assert paths(("..",)) == [folder]
    plan = plan_cleanup(("..",))
    monkeypatch.chdir(folder.parents[1])
    assert plan.remove() == []
    assert not folder.exists()


def test_a_run_in_training_is_kept_even_if_it_starts_after_the_plan(trained: Trained) -> None:
    run = trained("runs/tiny")
    planned = plan_cleanup(("runs",))
    with run.locked():
        plan = plan_cleanup(("runs",))
        assert (plan.removable, plan.bytes) == ((), 0)
        assert [item.reason for item in plan.kept] == ["it is being trained"]
        assert [item.reason for item in planned.remove()] == ["it is being trained"]
        assert run.weights.is_file()
    assert planned.remove() == []
    assert not run.folder.exists()


def test_a_corpus_is_kept_while_a_process_uses_it() -> None:
    corpus = {"train": [{"grammar": 40}], "dev": [{"held_out": 2}], "test": []}
    prepared = prepare(specs.load("tiny", {**SMALL, "corpus": corpus}), Report())
    assert [item.reason for item in plan_cleanup(("prepared",)).kept] == ["a process uses it"]
    folder = prepared.folder
    del prepared
    gc.collect()
    assert paths(("prepared",)) == [folder]


def test_what_is_being_downloaded_or_compiled_is_kept(caches: list[Path]) -> None:
    archive, pulled = caches[3], caches[5]
    for name, entry in (("archives", archive), ("pulls", pulled), ("compiled", caches[0])):
        with exclusive(entry, Report()):
            assert [(item.path, item.reason) for item in plan_cleanup((name,)).kept] == [(entry, "a process uses it")]
    with exclusive(archive, Report()):
        archive.rename(f"{archive}.partial")
        kept = plan_cleanup(("archives",)).kept
        assert [(item.path.name, item.reason) for item in kept] == [(f"{archive.name}.partial", "a process uses it")]
    assert Path(f"{archive}.partial") in paths(("archives",))
    assert paths(("pulls",)) == [pulled]


def test_links_are_not_followed(caches: list[Path], trained: Trained, tmp_path: Path) -> None:
    elsewhere = fill(tmp_path, "elsewhere", 10**6)
    (caches[0] / "inside").symlink_to(elsewhere)
    (storage.compiled() / "link").symlink_to(elsewhere)
    run = trained(tmp_path / "disk" / "run")
    Path("runs").mkdir()
    Path("runs/link").symlink_to(run.folder)
    plan = plan_cleanup(("compiled", "link"))
    assert [item.path for item in plan.removable] == caches[:2]
    assert {item.path.name for item in plan.kept} == {"link"}
    assert plan.bytes < 10**5
    plan.remove()
    assert (elsewhere / "file").stat().st_size == 10**6
    assert run.weights.is_file()
    shutil.rmtree("runs")
    Path("runs").symlink_to(tmp_path / "disk")
    assert paths(("runs",)) == []
