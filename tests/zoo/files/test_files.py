"""Files that are whole or not there."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from specs import ZooError
from zoo.files.atomic import (
    FolderExistsError,
    atomic_file,
    atomic_folder,
    create_file,
    link_or_copy,
    remove_folder,
    write_json,
)
from zoo.files.hashes import sha256
from zoo.files.reading import read_json
from zoo.files.storage import require_space


@pytest.fixture
def place(tmp_path):
    """An empty folder."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole(place):
    path = place / "new" / "file"
    with atomic_file(path) as partial:
        partial.write_text("first")
        assert partial.parent == path.parent
        assert not path.exists()
    assert path.read_text() == "first"
    with atomic_file(path) as partial:
        partial.write_text("second")
        assert path.read_text() == "first"
    assert path.read_text() == "second"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("existing", [True, False])
def test_an_interrupted_file_changes_nothing(place, interruption, existing):
    path = place / "file"
    if existing:
        path.write_text("before")

    def interrupted():
        with atomic_file(path) as partial:
            partial.write_text("half")
            raise interruption

    with pytest.raises(interruption):
        interrupted()
    assert names(place) == (["file"] if existing else [])
    assert not existing or path.read_text() == "before"


def test_a_folder_appears_whole_and_replaces_an_older_one(place):
    path = place / "folder"
    for text in ("first", "second"):
        with atomic_folder(path) as partial:
            (partial / "inner").mkdir()
            (partial / "inner" / text).write_text(text)
    assert names(path / "inner") == ["second"]
    assert names(place) == ["folder"]


def test_of_two_folders_the_first_stays_where_the_second_must_not_replace_it(place):
    path = place / "folder"

    def overtaken():
        with atomic_folder(path, replace=False) as late:
            (late / "late").touch()
            path.mkdir()
            (path / "early").touch()

    with pytest.raises(FolderExistsError, match=r"folder` is there already"):
        overtaken()
    assert names(path) == ["early"]
    assert names(place) == ["folder"]


def test_an_interrupted_folder_leaves_nothing(place):
    def interrupted():
        with atomic_folder(place / "folder") as partial:
            (partial / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(place) == []


KILLED = """
import os, pathlib, signal, sys
from zoo.files.files import writing, writing_folder
with writing(pathlib.Path(sys.argv[1])) as file, writing_folder(pathlib.Path(sys.argv[2])) as folder:
    file.write_text("half")
    (folder / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_writing_there(place, request):
    file, folder = place / "file", place / "folder"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), str(folder)], cwd=request.config.rootpath, check=False
    )
    assert done.returncode < 0
    assert not file.exists()
    assert not folder.exists()
    assert len(names(place)) == 2
    with atomic_file(place / "other") as partial:
        partial.touch()
    assert names(place) == ["other"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError('Os { code: 28, message: "No space left on device" }'),
    ],
)
def test_a_full_disk_is_told(place, error):
    def full():
        with atomic_file(place / "file"):
            raise error

    with pytest.raises(ZooError, match=r"file` cannot be written: the disk is full") as told:
        full()
    assert told.value.exit_code == 1
    assert "ZOO_HOME" in told.value.hint
    assert names(place) == []


def test_a_place_that_cannot_be_written_to_is_told(place):
    (place / "file").touch()
    with (
        pytest.raises(ZooError, match=r"file/inner` cannot be written"),
        atomic_file(place / "file" / "inner"),
    ):
        pass


def test_errors_that_are_not_about_the_place_are_left_alone(place):
    with pytest.raises(FileNotFoundError), atomic_file(place / "file"):
        (place / "other").read_text()
    with pytest.raises(ConnectionError), atomic_file(place / "file"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")


def test_a_folder_is_removed_at_once(place):
    (place / "folder" / "inner").mkdir(parents=True)
    remove_folder(place / "folder")
    remove_folder(place / "folder")
    assert names(place) == []


def test_sha256_is_that_of_the_standard(place):
    (place / "file").write_bytes(b"abc")
    assert sha256(place / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_space_is_required_where_the_folder_will_be(place):
    folder = place / "not" / "yet"
    require_space(folder, 1, "the corpus")
    require_space(folder, -5, "the corpus")
    with pytest.raises(ZooError, match=r"the corpus needs 1,000,000.0 TB in .*yet`, and .* are free"):
        require_space(folder, 10**18, "the corpus")
    assert not folder.parent.exists()


def test_json_goes_there_and_back(place):
    value = {"größe": [1, 2.5, None, "ß"], "inner": {}}
    write_json(place / "file.json", value)
    assert read_json(place / "file.json") == value
    assert "größe" in (place / "file.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b'{"a": \xff}', b'{"a": 1}}', b'{"a": Infinity}', b'{"a":' + b"[" * 10**5],
)
def test_damaged_json_is_told(place, content):
    (place / "file.json").write_bytes(content)
    with pytest.raises(ZooError, match=r"file.json` is damaged") as told:
        read_json(place / "file.json")
    assert told.value.exit_code == 1


def test_json_that_is_not_there_is_told(place):
    with pytest.raises(ZooError, match=r"file.json` is missing"):
        read_json(place / "file.json")


def test_json_has_no_word_for_what_is_no_number(place):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(place / "file.json", {"loss": float("nan")})
    assert names(place) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_leave_to_write_is_told(place):
    place.chmod(0o500)
    with pytest.raises(ZooError, match="cannot be written: Permission denied"):
        write_json(place / "file.json", json.loads("{}"))


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_others_may_read_what_a_library_wrote_for_its_user_alone(place, umask):
    before = os.umask(umask)
    try:
        with atomic_file(place / "file") as partial:
            partial.touch(0o600)
        with atomic_folder(place / "folder") as partial:
            (partial / "file").touch(0o600)
    finally:
        os.umask(before)
    modes = {(path / "file").stat().st_mode & 0o777 for path in (place, place / "folder")}
    assert modes == {0o666 & ~umask}


def test_a_file_is_created_once(place):
    path = place / "new" / "file"
    assert create_file(path, b"first")
    assert not create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert names(path.parent) == ["file"]


def test_of_many_that_create_a_file_at_once_one_does(place):
    start, done = threading.Barrier(8), []

    def creating(content):
        start.wait()
        done.append((create_file(place / "file", content), content))

    threads = [threading.Thread(target=creating, args=(bytes([number]) * 100_000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ((_, content),) = [each for each in done if each[0]]
    assert (place / "file").read_bytes() == content
    assert names(place) == ["file"]


def test_a_file_is_shared_or_copied(place, monkeypatch):
    (place / "one").write_text("same")
    link_or_copy(place / "one", place / "two")
    assert (place / "one").samefile(place / "two")
    monkeypatch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    link_or_copy(place / "one", place / "three")
    assert (place / "three").read_text() == "same"
    assert not (place / "one").samefile(place / "three")


def test_what_another_user_left_stays_and_stops_nobody(place, monkeypatch):
    killed = subprocess.Popen(["true"])
    killed.wait()
    left = place / (f".other.partial-{socket.gethostname()}-{killed.pid}.1")
    left.write_text("half")

    def refused(path, **how):
        if path == left:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        return unlink(path, **how)

    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", refused)
    write_json(place / "mine.json", {"a": 1})
    assert (read_json(place / "mine.json"), left.read_text()) == ({"a": 1}, "half")
