"""Files and folders are written completely or not at all, whatever interrupts the writer."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from specs import ZooError
from tests.paths import ROOT
from tests.refusals import refused
from zoo.files import atomic
from zoo.files.atomic import (
    FolderExistsError,
    atomic_file,
    atomic_folder,
    link_or_copy,
    partial_target,
    restore_replaced,
    write_json,
)
from zoo.files.reading import read_json


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fill(folder, text):
    folder.mkdir(exist_ok=True)
    for name in ("one", "two"):
        (folder / name).write_text(text)


def content(folder):
    return {(folder / name).read_text() for name in ("one", "two")}


def test_a_file_appears_complete(folder):
    path = folder / "new" / "file"
    for text, before in (("first", None), ("second", "first")):
        with atomic_file(path) as partial:
            partial.write_text(text)
            assert partial.parent == path.parent
            assert partial_target(partial.name) == "file"
            assert (path.read_text() if path.exists() else None) == before
        assert path.read_text() == text
    assert names(path.parent) == ["file"]
    assert partial_target("file") is None


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_an_interrupted_writer_changes_nothing(folder, interruption):
    (folder / "file").write_text("before")

    def interrupt(writer, write):
        with writer as partial:
            write(partial)
            raise interruption

    with pytest.raises(interruption):
        interrupt(atomic_file(folder / "file"), lambda partial: partial.write_text("half"))
    with pytest.raises(interruption):
        interrupt(atomic_folder(folder / "inner"), lambda partial: (partial / "half").touch())
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"file": "before"}


def test_a_folder_that_must_not_be_replaced_is_kept(folder):
    def overtaken():
        with atomic_folder(folder / "inner", replace=False) as late:
            fill(late, "late")
            fill(folder / "inner", "early")

    with pytest.raises(FolderExistsError, match="inner` already exists"):
        overtaken()
    assert (names(folder), content(folder / "inner")) == (["inner"], {"early"})


# A child process is killed at each event of a replacement that Python reports, until it ends by itself.
KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from zoo.files.atomic import atomic_folder, restore_replaced

folder = Path(sys.argv[1]) / "inner"

def replace(text):
    with atomic_folder(folder) as partial:
        for name in ("one", "two"):
            (partial / name).write_text(text)

def child(last):
    seen = itertools.count(1)
    def hook(event, arguments):
        if next(seen) == last:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    replace("newer")
    os._exit(0)

last = missing = 0
while True:
    replace("older")
    last += 1
    process = os.fork()
    if not process:
        child(last)
    _, status = os.waitpid(process, 0)
    missing += not folder.exists()
    restore_replaced(folder.parent)
    assert {(folder / name).read_text() for name in ("one", "two")} in ({"older"}, {"newer"}), last
    if not os.WIFSIGNALED(status):
        break
replace("last")
print(last, missing, [path.name for path in folder.parent.iterdir()])
"""


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
def test_a_killed_replacement_leaves_the_older_or_the_newer_folder(folder):
    output = subprocess.check_output([sys.executable, "-c", KILLED, str(folder)], text=True, cwd=ROOT)
    kills, missing, left = output.split(maxsplit=2)
    assert int(kills) > 20
    assert left.strip() == "['inner']"
    assert int(missing) > 0, "no kill came between the two renames"


def test_a_replaced_folder_is_removed_after_the_new_name_is_on_the_disk(folder, monkeypatch):
    path, flushed, flush = folder / ("long" * 34), [], atomic.flush_to_disk
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 64)  # temporary names have at most 255 bytes

    def record(flushed_path):
        if flushed_path == folder:
            flushed.append({file.read_text() for file in folder.rglob("one")})
        flush(flushed_path)

    monkeypatch.setattr(atomic, "flush_to_disk", record)
    fill(path, "old")
    with atomic_folder(path) as partial:
        fill(partial, "new")
    assert (flushed[0], names(folder)) == ({"old", "new"}, [path.name])


def test_the_newest_replaced_folder_is_restored_if_its_name_is_free(folder):
    for number, text in ((1, "oldest"), (2, "older")):
        replaced = folder / f".inner.partial-elsewhere-{number}.1.replaced"
        fill(replaced, text)
        os.utime(replaced, (number, number))
    fill(folder / ".inner.partial-elsewhere-3.1", "half")
    for _ in range(2):
        restore_replaced(folder)
        assert content(folder / "inner") == {"older"}


@pytest.mark.parametrize("times", [1, 5])
def test_a_replacement_is_repeated_if_a_reader_restores_the_old_folder(folder, monkeypatch, times):
    set_aside, restored = atomic._set_aside, []

    def disturbed(path, suffix):
        renamed = set_aside(path, suffix)
        if suffix == ".replaced" and len(restored) < times:
            restored.append(renamed)
            restore_replaced(folder)
        return renamed

    fill(folder / "inner", "older")
    monkeypatch.setattr(atomic, "_set_aside", disturbed)
    with atomic_folder(folder / "inner") as partial:
        fill(partial, "newer")
    assert len(restored) == times
    assert (names(folder), content(folder / "inner")) == (["inner"], {"newer"})


def test_a_folder_that_cannot_be_replaced_is_kept(folder, monkeypatch):
    def refuse(self, target):
        if self.name.endswith(str(threading.get_native_id())):
            raise OSError(errno.EIO, "Input/output error", str(self))
        return os.rename(self, target)

    fill(folder / "inner", "older")
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ZooError, match="Input/output error"), atomic_folder(folder / "inner"):
        pass
    assert content(folder / "inner") == {"older"}


def dead_process():
    with subprocess.Popen(["true"]) as process:
        return process.pid


def test_the_next_writer_removes_what_a_killed_process_left_unless_it_is_of_another_user(folder, monkeypatch):
    dead, alive = (f".{{}}{atomic._host_mark()}{number}.1" for number in (dead_process(), os.getpid()))
    others, unlink = dead.format("others"), Path.unlink
    with mock.patch.object(atomic, "_PID_NAMESPACE", folder):  # a container with the same host name
        container = f".other{atomic._host_mark()}{dead_process()}.1"
    elsewhere = (".other.partial-elsewhere-1.1", container)
    fill(folder / dead.format("inner"), "half")
    for name in (dead.format("file"), alive.format("other"), *elsewhere, others):
        (folder / name).write_text("half")

    def refuse(path, **options):
        if path.name == others:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        return unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    write_json(folder / "mine.json", {"a": 1})
    assert names(folder) == sorted([*elsewhere, alive.format("other"), others, "mine.json"])
    assert read_json(folder / "mine.json") == {"a": 1}


FULL, QUOTA, LIMIT = "the disk is full", "the disk quota is used up", "larger than the file size limit"
CODES = {errno.ENOSPC: FULL, errno.EDQUOT: QUOTA, errno.EFBIG: LIMIT}
ERRORS = [(OSError(code, os.strerror(code)), message) for code, message in CODES.items()]
ERRORS.append((RuntimeError('Os { code: 28, message: "No space left on device" }'), FULL))


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_a_full_disk_is_a_clear_error(folder, error, message):
    with mock.patch.object(Path, "write_text", side_effect=error):
        raised = refused(rf"file` cannot be written: .*{message}", write_json, folder / "file", {})
    assert raised.exit_code == 1
    assert raised.hint
    assert names(folder) == []


def test_only_errors_about_the_written_file_are_converted(folder):
    (folder / "file").touch()
    with pytest.raises(ZooError, match="file/inner` cannot be written"), atomic_file(folder / "file" / "inner"):
        pass
    with pytest.raises(FileNotFoundError), atomic_file(folder / "mine"):
        (folder / "other").read_text()
    with pytest.raises(ConnectionError), atomic_file(folder / "mine"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(folder / "mine", {"loss": float("nan")})
    assert names(folder) == ["file"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask_even_if_a_library_sets_others(folder, umask):
    before = os.umask(umask)
    try:
        with atomic_file(folder / "file") as partial:
            partial.touch(0o600)
        with atomic_folder(folder / "inner") as partial:
            (partial / "file").touch(0o600)
    finally:
        os.umask(before)
    modes = {(path / "file").stat().st_mode & 0o777 for path in (folder, folder / "inner")}
    assert modes == {0o666 & ~umask}


def test_a_file_is_linked_or_copied(folder, monkeypatch):
    (folder / "one").write_text("same")
    link_or_copy(folder / "one", folder / "two")
    assert (folder / "one").samefile(folder / "two")
    monkeypatch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    link_or_copy(folder / "one", folder / "three")
    assert (folder / "three").read_text() == "same"
    assert not (folder / "one").samefile(folder / "three")
