"""Locks between processes are released when a process ends."""

import errno
import subprocess
import sys
import threading

import pytest

from specs import ZooError
from tests.paths import ROOT
from zoo.files.atomic import remove_folder
from zoo.files.locks import exclusive, existing_lock_file, hold_while_alive, try_exclusive


class User:
    pass


HOLDER = """
import sys, time
from pathlib import Path
from zoo.files.locks import exclusive
with exclusive(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.mark.integration
def test_a_lock_of_a_killed_process_is_released(tmp_path, report):
    path = tmp_path / "file"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert holder.stdout.readline() == b"locked\n"
    with try_exclusive(existing_lock_file(path)) as free:
        assert not free
    entered = threading.Event()

    def wait_for_lock():
        with exclusive(path, report):
            entered.set()

    thread = threading.Thread(target=wait_for_lock)
    thread.start()
    assert not entered.wait(0.2)
    holder.kill()
    holder.communicate()
    thread.join()
    assert entered.is_set()
    assert report.said == ["waiting for another process that writes file"]
    with try_exclusive(existing_lock_file(path)) as free:
        assert free


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_accepted(tmp_path, monkeypatch, code):
    def refuse(file, how):
        raise OSError(code, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    entered = []
    with exclusive(tmp_path / "file"):
        entered.append(True)
    with try_exclusive(tmp_path) as free:
        entered.append(free)
    hold_while_alive(User(), tmp_path)
    assert entered == [True, True]


def test_a_lock_where_no_file_can_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ZooError, match="file` cannot be written"), exclusive(tmp_path / "file" / "inner"):
        pass


@pytest.mark.parametrize("removed", [True, False])
def test_a_new_user_of_a_folder_waits_for_its_possible_removal(tmp_path, removed):
    folder, user, results = tmp_path / "prepared", User(), []
    folder.mkdir()

    def use():
        try:
            hold_while_alive(user, folder)
            results.append("in use")
        except ZooError as error:
            results.append(error.problem)

    with try_exclusive(folder) as free:
        assert free
        thread = threading.Thread(target=use)
        thread.start()
        thread.join(0.1)
        assert results == []
        if removed:
            remove_folder(folder)
    thread.join()
    assert results == [f"`{folder}` was removed by another process" if removed else "in use"]
    if not removed:
        with try_exclusive(folder) as free:
            assert not free
