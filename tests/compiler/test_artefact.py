"""Artefacts are cached by content, and compiled again if they are incomplete or damaged."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from compiler import artefact
from compiler.artefact import Artefact
from specs import ZooError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "compiled"


@pytest.fixture
def write() -> Mock:
    """A function that writes one file into a folder, and counts its calls."""

    def write_engine(folder: Path) -> None:
        (folder / "parts").mkdir()
        (folder / "parts" / "a.bin").write_text("engine", encoding="utf-8")

    return Mock(side_effect=write_engine)


def _folders(root: Path) -> list[Path]:
    """Return what is in the root, except for locks."""
    return [path for path in root.iterdir() if path.suffix != ".lock"]


def test_an_artefact_is_compiled_once_per_key(root: Path, write: Mock) -> None:
    first = Artefact(root, "x", {"code": "1"}).make(write)
    assert Artefact(root, "x", {"code": "1"}).make(write) == first
    assert Artefact(root, "x", {"code": "2"}).make(write) != first
    assert write.call_count == 2
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert len(_folders(root)) == 2


DAMAGE = {
    "changed": ("parts/a.bin", "engina"),
    "missing": ("parts/a.bin", None),
    "unfinished": ("manifest.json", None),
    "torn": ("manifest.json", "{"),
    "other": ("manifest.json", "[1]"),
    "nested": ("manifest.json", "[" * 100_000),
}


@pytest.mark.parametrize(("name", "content"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_artefact_is_compiled_again(root: Path, write: Mock, name: str, content: str | None) -> None:
    folder = Artefact(root, "x", {}).make(write)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content, encoding="utf-8")
    assert not Artefact(root, "x", {}).use()
    Artefact(root, "x", {}).make(write)
    assert write.call_count == 2
    assert (folder / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert Artefact(root, "x", {}).use()


def test_one_of_several_threads_compiles_an_artefact(root: Path, write: Mock) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: Artefact(root, "x", {}).make(write), range(8)))
    assert write.call_count == 1
    assert made == {*_folders(root)}


def test_a_read_only_folder_is_replaced_by_a_temporary_one(tmp_path: Path, write: Mock) -> None:
    (tmp_path / "file").touch()
    first, second = (Artefact(tmp_path / "file" / "compiled", "x", {"code": "1"}).make(write) for _ in range(2))
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert (second, write.call_count) == (first, 1), "the second call finds it"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), ZooError("ld: No space left on device")])
def test_a_full_disk_is_replaced_by_a_temporary_folder(root: Path, write: Mock, error: Exception) -> None:
    """The failed compilation leaves no files."""

    def full(folder: Path) -> None:
        (folder / "half").touch()
        if folder.is_relative_to(root):
            raise error
        write(folder)

    assert (Artefact(root, "x", {"error": str(error)}).make(full) / "parts" / "a.bin").is_file()
    assert write.call_count == 1
    assert _folders(root) == []


def test_all_files_of_a_killed_build_of_kernels_are_removed(root: Path, write: Mock, tmp_path: Path) -> None:
    """The C++ compiler kills the process that waits for it."""
    compiler, temporary = tmp_path / "c++", tmp_path / "temporary"
    compiler.write_text("#!/bin/sh\nkill -9 $PPID\n", encoding="utf-8")
    compiler.chmod(0o755)
    temporary.mkdir()
    code = (
        "import sys; from pathlib import Path; from compiler.kernels.library import Artefact, compile_kernels; "
        "Artefact(Path(sys.argv[1]), 'x', {}).make(lambda folder: compile_kernels(folder / 'native.so'))"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", code, str(root)], env=environment, check=False)
    assert (done.returncode, [*temporary.iterdir()], len(_folders(root))) == (-9, [], 1)
    assert [Artefact(root, "x", {}).make(write)] == _folders(root)


def test_a_process_that_hangs_does_not_stop_others(root: Path, write: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folder stays."""
    monkeypatch.setattr(artefact, "MAX_WAIT", 0.1)
    inner: list[Path] = []

    def hang(folder: Path) -> None:
        inner.append(Artefact(root, "x", {}).make(write))
        (folder / "late").touch()

    assert Artefact(root, "x", {}).make(hang) == inner[0]
    assert _folders(root) == inner
