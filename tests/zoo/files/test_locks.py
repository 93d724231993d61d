"""Locks between processes are released when a process ends."""

import errno
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

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

    def wait_for_lock():
        with exclusive(path, report):
            pass

    thread = threading.Thread(target=wait_for_lock)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    holder.kill()
    holder.communicate()
    thread.join()
    assert report.said == ["waiting for another process to finish writing file"]
    with try_exclusive(existing_lock_file(path)) as free:
        assert free


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_accepted_but_no_path_that_cannot_be_written(tmp_path, monkeypatch, code):
    def refuse(file, how):
        raise OSError(code, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with exclusive(tmp_path / "file"), try_exclusive(tmp_path) as free:
        assert free
    hold_while_alive(User(), tmp_path)
    (tmp_path / "inner").touch()
    with pytest.raises(ZooError, match="inner` cannot be written"), exclusive(tmp_path / "inner" / "file"):
        pass


@pytest.mark.parametrize("removed", [True, False])
def test_a_new_user_of_a_folder_waits_for_its_possible_removal(tmp_path, removed):
    folder, user = tmp_path / "prepared", User()
    folder.mkdir()
    with ThreadPoolExecutor() as threads, try_exclusive(folder) as free:
        assert free
        use = threads.submit(hold_while_alive, user, folder)
        with pytest.raises(TimeoutError):
            use.result(0.1)
        if removed:
            remove_folder(folder)
    if removed:
        assert use.exception().problem == f"`{folder}` was removed by another process"
    else:
        assert use.exception() is None
        with try_exclusive(folder) as free:
            assert not free
