"""Artefacts are cached by content, and compiled again if they are incomplete or damaged."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from compiler.artefact import Artefact
from specs import ZooError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "compiled"


def _writer(text: str = "engine") -> tuple[Callable[[Path], None], list[Path]]:
    calls: list[Path] = []

    def write(folder: Path) -> None:
        calls.append(folder)
        (folder / "parts").mkdir()
        (folder / "parts" / "a.bin").write_text(text, encoding="utf-8")

    return write, calls


def test_an_artefact_is_compiled_once_per_key(root: Path) -> None:
    write, calls = _writer()
    first = Artefact(root, "x", {"code": "1"}).make(write)
    assert Artefact(root, "x", {"code": "1"}).make(write) == first
    assert len(calls) == 1
    assert Artefact(root, "x", {"code": "2"}).make(write) != first
    assert len(calls) == 2
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert sorted(p.name for p in root.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "parts" / "a.bin").write_text("engina", encoding="utf-8"),
        lambda folder: (folder / "parts" / "a.bin").write_text("eng", encoding="utf-8"),
        lambda folder: (folder / "parts" / "a.bin").unlink(),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{", encoding="utf-8"),
        lambda folder: (folder / "manifest.json").write_text("[]", encoding="utf-8"),
        lambda folder: (folder / "manifest.json").write_text("{}", encoding="utf-8"),
    ],
    ids=["changed", "truncated", "missing", "unfinished", "torn", "other", "empty"],
)
def test_a_damaged_artefact_is_compiled_again(root: Path, harm: Callable[[Path], object]) -> None:
    write, calls = _writer()
    folder = Artefact(root, "x", {}).make(write)
    harm(folder)
    assert not Artefact(root, "x", {}).is_complete()
    Artefact(root, "x", {}).make(write)
    assert len(calls) == 2
    assert (folder / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert Artefact(root, "x", {}).is_complete()


def test_a_failed_compilation_leaves_no_files(root: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Artefact(root, "x", {}).make(fail)
    assert list(root.iterdir()) == []


def test_threads_can_compile_the_same_artefact(root: Path) -> None:
    write, _ = _writer()
    threads = [Thread(target=lambda: Artefact(root, "x", {}).make(write)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Artefact(root, "x", {}).is_complete()
    assert [p.name for p in root.iterdir()] == [Artefact(root, "x", {}).folder.name]


def test_without_a_root_an_artefact_is_in_a_temporary_folder() -> None:
    write, _ = _writer()
    assert (Artefact(None, "x", {}).make(write) / "parts" / "a.bin").is_file()


def test_a_read_only_folder_is_replaced_by_a_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write, calls = _writer()
    first = Artefact(tmp_path / "file" / "compiled", "x", {"code": "1"}).make(write)
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert Artefact(tmp_path / "file" / "compiled", "x", {"code": "1"}).make(write) == first
    assert len(calls) == 1, "the second call finds it"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "x"), ZooError("ld: final link failed: No space left on device")]
)
def test_a_full_disk_is_replaced_by_a_temporary_folder(root: Path, error: Exception) -> None:
    write, calls = _writer()

    def full(folder: Path) -> None:
        if folder.is_relative_to(root):
            raise error
        write(folder)

    assert (Artefact(root, "x", {"error": str(error)}).make(full) / "parts" / "a.bin").is_file()
    assert len(calls) == 1
    assert list(root.iterdir()) == []


def test_an_artefact_has_the_permissions_of_new_folders(root: Path) -> None:
    write, _ = _writer()
    folder = Artefact(root, "x", {}).make(write)
    (root / "other").mkdir()
    assert folder.stat().st_mode == (root / "other").stat().st_mode


COMPILE_PARTLY = """
import os, sys
from pathlib import Path
from compiler.artefact import Artefact

def write(folder):
    (folder / "half").touch()
    print(flush=True)
    os.kill(os.getpid(), 9) if sys.argv[2] == "killed" else sys.stdin.read()

Artefact(Path(sys.argv[1]), "x", {}).make(write)
"""


@pytest.mark.integration
def test_folders_of_killed_processes_are_removed_and_those_of_running_ones_stay(root: Path) -> None:
    command = [sys.executable, "-c", COMPILE_PARTLY, str(root)]
    assert subprocess.run([*command, "killed"], check=False, stdout=subprocess.PIPE).returncode == -9
    with subprocess.Popen([*command, "running"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        (half,) = [path for path in root.iterdir() if path.name.startswith(".")]
        folder = Artefact(root, "x", {}).make(_writer()[0])
        assert (half / "half").exists()
        assert folder.is_dir()
        process.communicate(b"")
    assert [path for path in root.iterdir() if path.name.startswith(".")] == []
