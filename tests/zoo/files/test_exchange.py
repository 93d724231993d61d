"""A folder that is replaced is there at every moment: whole, the older or the newer, whatever is killed."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from specs import ZooError
from zoo.files import exchange as exchanging
from zoo.files import files
from zoo.files.atomic import atomic_folder, restore_replaced
from zoo.files.exchange import exchange

ROOT = Path(__file__).parents[3]


def filled(folder, text):
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_text(text)


def held(folder):
    return {(folder / name).read_text() for name in ("one", "two")}


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def knows_how(folder):
    filled(folder / "a", "a")
    filled(folder / "b", "b")
    return exchange(folder / "a", folder / "b")


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no other system exchanges two folders")
def test_two_folders_exchange_their_places(place):
    if not knows_how(place):
        pytest.skip("the file system here cannot exchange")
    assert (held(place / "a"), held(place / "b")) == ({"b"}, {"a"})
    with pytest.raises(FileNotFoundError):
        exchange(place / "a", place / "none")


def test_a_system_that_does_not_know_how_says_so(place, monkeypatch):
    monkeypatch.setattr(exchanging, "_call", lambda: None)
    assert not knows_how(place)
    assert held(place / "a") == {"a"}


# A child is killed at each event of a replacement that Python reports, until none is left.
KILLED = """
import os, signal, sys
from pathlib import Path
from zoo.files import files
from zoo.files.partial import put_back

place, exchanges = Path(sys.argv[1]) / "folder", sys.argv[2] == "exchange"
if not exchanges:
    files.exchange = lambda one, other: False

def replace(text):
    with atomic.atomic_folder(place) as partial:
        for name in ("one", "two"):
            (partial / name).write_text(text)

def child(last):
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    replace("newer")
    os._exit(0)

last, missing = 0, 0
while True:
    replace("older")
    last += 1
    process = os.fork()
    if not process:
        child(last)
    _, status = os.waitpid(process, 0)
    missing += not place.exists()
    put_back(place.parent)
    assert {(place / name).read_text() for name in ("one", "two")} in ({"older"}, {"newer"}), last
    if not os.WIFSIGNALED(status):
        break
replace("last")
left = [path.name for path in place.parent.iterdir()]
print(last, missing, left)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
@pytest.mark.parametrize("how", ["exchange", "renames"])
def test_killed_anywhere_it_is_the_older_or_the_newer(place, how):
    run = [sys.executable, "-c", KILLED, str(place), how]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    kills, missing, left = done.stdout.split(maxsplit=2)
    assert int(kills) > 20
    assert left.strip() == "['folder']"
    if how == "renames":
        assert int(missing) > 0, "the fallback was never cut between its renames"
    elif knows_how(place):
        assert int(missing) == 0


def test_what_another_machine_was_killed_over_is_put_back(place):
    filled(place / ".folder.partial-elsewhere-12.34.replaced", "older")
    filled(place / ".folder.partial-elsewhere-12.34", "half")
    restore_replaced(place)
    assert held(place / "folder") == {"older"}
    filled(place / ".folder.partial-elsewhere-13.34.replaced", "oldest")
    restore_replaced(place)
    assert held(place / "folder") == {"older"}


def test_of_several_the_one_that_stood_there_last_is_put_back(place):
    for number, text in ((1, "oldest"), (2, "older")):
        aside = place / f".folder.partial-elsewhere-{number}.1.replaced"
        filled(aside, text)
        os.utime(aside, (number, number))
    restore_replaced(place)
    assert held(place / "folder") == {"older"}


@pytest.mark.parametrize("stolen", [1, 5])
def test_who_finds_the_place_taken_tries_again(place, monkeypatch, stolen):
    """A reader puts back what a publisher that lives has just put aside."""
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    put_aside, times = files._put_aside, []

    def robbed(path, why):
        aside = put_aside(path, why)
        if why == ".replaced" and len(times) < stolen:
            times.append(aside)
            restore_replaced(place)
        return aside

    filled(place / "folder", "older")
    monkeypatch.setattr(files, "_put_aside", robbed)
    with atomic_folder(place / "folder") as partial:
        for name in ("one", "two"):
            (partial / name).write_text("newer")
    assert held(place / "folder") == {"newer"}
    assert [path.name for path in place.iterdir()] == ["folder"]


def test_what_cannot_be_replaced_stays(place, monkeypatch):
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    filled(place / "folder", "older")

    def refuse(self, target):
        if self.name.endswith(str(threading.get_ident())):
            raise OSError(5, "Input/output error", str(self))
        return os.rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ZooError, match="Input/output error"), atomic_folder(place / "folder"):
        pass
    assert held(place / "folder") == {"older"}


def test_who_looks_on_never_finds_nothing(place):
    if not knows_how(place):
        pytest.skip("the file system here cannot exchange")
    folder, ended, looks = place / "a", threading.Event(), [0, 0]

    def look():
        while not ended.is_set():
            looks[0] += 1
            looks[1] += not folder.exists()

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(100):
            with atomic_folder(folder) as partial:
                (partial / "one").write_text(str(number))
    finally:
        ended.set()
        reader.join()
    assert looks[0] > 0
    assert looks[1] == 0
