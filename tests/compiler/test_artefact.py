"""What was compiled is kept by content, and never trusted when it is not whole."""

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


def test_it_is_made_once_for_each_content(root: Path) -> None:
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
    ids=["changed", "truncated", "missing", "unfinished", "torn", "other", "naming nothing"],
)
def test_what_is_damaged_is_made_again(root: Path, harm: Callable[[Path], object]) -> None:
    write, calls = _writer()
    folder = Artefact(root, "x", {}).make(write)
    harm(folder)
    assert not Artefact(root, "x", {}).is_complete()
    Artefact(root, "x", {}).make(write)
    assert len(calls) == 2
    assert (folder / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert Artefact(root, "x", {}).is_complete()


def test_a_failure_leaves_nothing(root: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Artefact(root, "x", {}).make(fail)
    assert list(root.iterdir()) == []


def test_several_at_once_all_end_well(root: Path) -> None:
    write, _ = _writer()
    threads = [Thread(target=lambda: Artefact(root, "x", {}).make(write)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Artefact(root, "x", {}).is_complete()
    assert [p.name for p in root.iterdir()] == [Artefact(root, "x", {}).folder.name]


def test_without_a_root_it_is_there_as_long_as_the_process() -> None:
    write, _ = _writer()
    assert (Artefact(None, "x", {}).make(write) / "parts" / "a.bin").is_file()


def test_a_folder_that_cannot_be_written_to_does_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write, calls = _writer()
    first = Artefact(tmp_path / "file" / "compiled", "x", {"code": "1"}).make(write)
    assert (first / "parts" / "a.bin").read_text(encoding="utf-8") == "engine"
    assert Artefact(tmp_path / "file" / "compiled", "x", {"code": "1"}).make(write) == first
    assert len(calls) == 1, "for the rest of the process it is there"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "x"), ZooError("ld: final link failed: No space left on device")]
)
def test_a_folder_without_room_does_not_stop_it(root: Path, error: Exception) -> None:
    write, calls = _writer()

    def full(folder: Path) -> None:
        if folder.is_relative_to(root):
            raise error
        write(folder)

    assert (Artefact(root, "x", {"capacity": str(error)}).make(full) / "parts" / "a.bin").is_file()
    assert len(calls) == 1
    assert list(root.iterdir()) == []


def test_others_may_read_what_new_folders_let_them(root: Path) -> None:
    write, _ = _writer()
    folder = Artefact(root, "x", {}).make(write)
    (root / "usual").mkdir()
    assert folder.stat().st_mode == (root / "usual").stat().st_mode


BEGINS = """
import os, sys
from pathlib import Path
from compiler.artefact import Artefact

def write(folder):
    (folder / "half").touch()
    print(flush=True)
    os.kill(os.getpid(), 9) if sys.argv[2] == "killed" else sys.stdin.read()

Artefact(Path(sys.argv[1]), "x", {}).make(write)
"""


def test_what_a_killed_process_had_begun_goes_and_what_a_living_one_writes_stays(root: Path) -> None:
    begins = [sys.executable, "-c", BEGINS, str(root)]
    assert subprocess.run([*begins, "killed"], check=False, stdout=subprocess.PIPE).returncode == -9
    with subprocess.Popen([*begins, "lives"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        (half,) = [path for path in root.iterdir() if path.name.startswith(".")]
        folder = Artefact(root, "x", {}).make(_writer()[0])
        assert (half / "half").exists()
        assert folder.is_dir()
        process.communicate(b"")
    assert [path for path in root.iterdir() if path.name.startswith(".")] == []
