"""Artefacts are cached by content, and compiled again if they are incomplete or damaged."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from compiler import artefact
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


def _folders(root: Path) -> list[Path]:
    """Return what is in the root, except for locks."""
    return [path for path in root.iterdir() if path.suffix != ".lock"]


def test_an_artefact_is_compiled_once_per_key(root: Path) -> None:
    write, calls = _writer()
    first = Artefact(root, "x", {"code": "1"}).make(write)
    assert Artefact(root, "x", {"code": "1"}).make(write) == first
    assert len(calls) == 1
    assert Artefact(root, "x", {"code": "2"}).make(write) != first
    assert len(calls) == 2
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert len(_folders(root)) == 2


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
        lambda folder: (folder / "manifest.json").write_text("[" * 100_000, encoding="utf-8"),
    ],
    ids=["changed", "truncated", "missing", "unfinished", "torn", "other", "empty", "nested"],
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
    assert _folders(root) == []


def test_one_of_several_threads_compiles_an_artefact(root: Path) -> None:
    write, calls = _writer()
    threads = [Thread(target=lambda: Artefact(root, "x", {}).make(write)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert Artefact(root, "x", {}).is_complete()
    assert _folders(root) == [Artefact(root, "x", {}).folder]


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
    assert _folders(root) == []


def test_folders_of_killed_processes_are_removed(root: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from compiler.artefact import Artefact; "
        "Artefact(Path(sys.argv[1]), 'x', {}).make(lambda folder: os.kill(os.getpid(), 9))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(root)], check=False).returncode == -9
    assert len(_folders(root)) == 1
    folder = Artefact(root, "x", {}).make(_writer()[0])
    assert _folders(root) == [folder]


def test_a_process_that_hangs_does_not_keep_others_from_compiling(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folder stays."""
    monkeypatch.setattr(artefact, "MAX_WAIT", 0.1)
    inner: list[Path] = []

    def hang(folder: Path) -> None:
        inner.append(Artefact(root, "x", {}).make(_writer()[0]))
        (folder / "late").touch()

    assert Artefact(root, "x", {}).make(hang) == inner[0]
    assert _folders(root) == inner
