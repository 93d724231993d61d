"""Archives by address."""

import errno
import hashlib
import json
import subprocess
import sys
import threading

import pytest

from specs import ZooError
from zoo.files import storage
from zoo.files.download import fetch, lock_file, recorded_sha256
from zoo.report import Report

CONTENT = b"some archive"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(site):
    site.content = CONTENT
    return f"{site.address}/wmt/some.tgz"


def kept():
    return sorted(path.name for path in storage.archives().iterdir() if not path.name.startswith("."))


def test_an_archive_is_fetched_once_and_recorded(site, url):
    assert recorded_sha256(url) is None
    first = fetch(url, None, Report())
    assert first.path.read_bytes() == CONTENT
    assert first.sha256 == recorded_sha256(url) == HASH
    assert json.loads(lock_file().read_text()) == {url: {"sha256": HASH, "bytes": len(CONTENT)}}
    assert fetch(url, None, Report()) == fetch(url, HASH, Report()) == first
    assert len(site.asked) == 1
    assert set(kept()) == {first.path.name, "corpus.lock"}


@pytest.mark.parametrize("mirror", ["http://[::1", "http://", "https://x:99999999", "http://a..b/c"])
def test_a_mirror_that_is_no_address_is_told(monkeypatch, mirror):
    monkeypatch.setenv("ZOO_MIRROR", mirror)
    with pytest.raises(ZooError, match=r"ZOO_MIRROR is .* which is no address") as told:
        fetch("http://host/a.tgz", None, Report())
    assert told.value.hint


def test_nobodys_folder_and_a_disk_that_fails_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_MIRROR", "~nosuchuser/mirror")
    with pytest.raises(ZooError, match=r"there is no file `~nosuchuser/mirror/a\.tgz`"):
        fetch("http://host/a.tgz", None, Report())
    (tmp_path / "a.tgz").write_bytes(CONTENT)

    def fail(*given):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("zoo.files.files.hashlib.file_digest", fail)
    with pytest.raises(ZooError, match=r"a\.tgz` cannot be read: Input/output error") as told:
        fetch(f"file://{tmp_path}/a.tgz", None, Report())
    assert told.value.exit_code == 1


def test_what_the_first_download_cannot_verify_is_said_once(site, url, report):
    fetch(url, None, report)
    (told,) = report.warnings
    assert "could not be verified" in told
    assert HASH in told
    fetch(url, None, report).path.unlink()
    fetch(url, None, report)
    fetch(url.replace("some", "other"), HASH, report)
    assert report.warnings == [told]


def test_archives_of_one_name_do_not_meet(site, url):
    first = fetch(url, None, Report())
    site.content = b"another"
    second = fetch(url.replace("wmt", "iwslt"), None, Report())
    assert (first.path.read_bytes(), second.path.read_bytes()) == (CONTENT, b"another")
    assert first.path.name.endswith("-some.tgz")


def test_another_content_than_the_spec_says_is_told_and_not_kept(url):
    with pytest.raises(ZooError, match=rf"has the SHA-256 {HASH}, not {'0' * 64} as the spec says") as told:
        fetch(url, "0" * 64, Report())
    assert told.value.exit_code == 1
    assert kept() == []
    assert fetch(url, HASH, Report()).path.read_bytes() == CONTENT


def test_another_content_than_the_first_time_is_told_with_what_to_do(site, url):
    fetch(url, None, Report()).path.unlink()
    site.content = b"changed"
    with pytest.raises(ZooError, match=rf"and {HASH} when it was first fetched") as told:
        fetch(url, None, Report())
    assert str(lock_file()) in told.value.hint
    lock_file().unlink()
    assert fetch(url, None, Report()).path.read_bytes() == b"changed"


def test_a_damaged_archive_is_fetched_again(site, url, report):
    path = fetch(url, None, Report()).path
    path.write_bytes(CONTENT[:5])
    assert fetch(url, None, report).path.read_bytes() == CONTENT
    assert "fetching it again" in report.warnings[0]
    assert len(site.asked) == 2


def test_an_archive_put_there_by_hand_is_taken(site, url):
    path = fetch(url, None, Report()).path
    lock_file().unlink()
    assert fetch(url, None, Report()).path == path
    assert recorded_sha256(url) == HASH
    assert len(site.asked) == 1


def test_offline_what_is_here_is_used_and_the_rest_is_told(site, url, monkeypatch):
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match=r"some\.tgz` is not here, and ZOO_OFFLINE") as told:
        fetch(url, None, Report())
    assert "ZOO_MIRROR" in told.value.hint
    assert site.asked == []
    for word in ("0", ""):
        monkeypatch.setenv("ZOO_OFFLINE", word)
        fetch(url, None, Report())
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert fetch(url, None, Report()).path.read_bytes() == CONTENT


def test_offline_a_damaged_archive_is_not_thrown_away(url, monkeypatch):
    path = fetch(url, None, Report()).path
    path.write_bytes(b"damaged")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match="ZOO_OFFLINE"):
        fetch(url, None, Report())
    assert path.read_bytes() == b"damaged"


@pytest.mark.parametrize("written", ["{}", "file://{}"])
def test_a_mirror_folder_takes_the_place_of_the_host(tmp_path, monkeypatch, written):
    (tmp_path / "mirror" / "wmt").mkdir(parents=True)
    (tmp_path / "mirror" / "wmt" / "some one.tgz").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", written.format(tmp_path / "mirror"))
    found = fetch("http://host.invalid/wmt/some%20one.tgz", None, Report())
    assert found.path == tmp_path / "mirror" / "wmt" / "some one.tgz"
    assert kept() == ["corpus.lock"]
    with pytest.raises(ZooError, match=rf"there is no file `{tmp_path}/mirror/wmt/other\.tgz`, which stands for"):
        fetch("http://host.invalid/wmt/other.tgz", None, Report())


def test_what_a_mirror_has_must_be_the_same(tmp_path, monkeypatch):
    (tmp_path / "some.tgz").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path))
    fetch("http://host.invalid/some.tgz", None, Report())
    (tmp_path / "some.tgz").write_bytes(b"other")
    with pytest.raises(ZooError, match="when it was first fetched"):
        fetch("http://host.invalid/some.tgz", None, Report())
    assert (tmp_path / "some.tgz").exists()


def test_no_address_leads_out_of_the_mirror(tmp_path, monkeypatch):
    (tmp_path / "mirror").mkdir()
    (tmp_path / "secret").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    for path in ("../secret", "a/../../secret", "%2e%2e/secret", "..%2fsecret"):
        with pytest.raises(ZooError, match="there is no file"):
            fetch(f"http://host.invalid/{path}", None, Report())


def test_a_mirror_address_takes_the_place_of_the_host(site, monkeypatch):
    site.content = CONTENT
    monkeypatch.setenv("ZOO_MIRROR", f"{site.address}/mirror/")
    fetch("http://host.invalid/wmt/some.tgz?version=2", None, Report())
    assert [path for path, _ in site.asked] == ["/mirror/wmt/some.tgz?version=2"]
    assert recorded_sha256("http://host.invalid/wmt/some.tgz?version=2") == HASH


def test_a_file_address_is_used_where_it_lies(tmp_path):
    (tmp_path / "some.tgz").write_bytes(CONTENT)
    assert fetch((tmp_path / "some.tgz").as_uri(), HASH, Report()).path == tmp_path / "some.tgz"
    with pytest.raises(ZooError, match="there is no file"):
        fetch((tmp_path / "other.tgz").as_uri(), None, Report())


@pytest.mark.parametrize(
    "content", ['{"http://a": {}}', '{"http://a": 1}', '{"http://a": {"sha256": "x", "bytes": "y"}}']
)
def test_a_damaged_lock_is_told(content):
    storage.archives().mkdir(parents=True)
    lock_file().write_text(content)
    with pytest.raises(ZooError, match=r"corpus\.lock` is damaged"):
        recorded_sha256("http://a")


def test_two_at_once_fetch_once(site, url):
    site.content = CONTENT * 100_000
    found = []
    threads = [threading.Thread(target=lambda: found.append(fetch(url, None, Report()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1
    assert len(site.asked) == 1


NOTES = """
import sys
from zoo.files.lock import Entry, record
for number in range(40):
    record(f"https://a.org/{sys.argv[1]}{number}.tgz", Entry(64 * "a", number))
"""


def test_what_two_processes_note_at_once_is_all_noted():
    processes = [subprocess.Popen([sys.executable, "-c", NOTES, name]) for name in ("one", "other")]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(json.loads(lock_file().read_text())) == 80


def test_where_there_are_no_locks_it_is_fetched_without(site, url, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("zoo.files.lock.fcntl.flock", refuse)
    assert fetch(url, None, Report()).path.read_bytes() == CONTENT


def test_a_broken_transfer_goes_on_in_the_next_fetch(site, url):
    site.breaks, site.statuses = [4], [200, *[500] * 5]
    with pytest.raises(ZooError, match="could not be fetched") as told:
        fetch(url, None, Report())
    assert "goes on from there" in told.value.hint
    site.statuses = []
    assert fetch(url, None, Report()).path.read_bytes() == CONTENT
    assert site.asked[-1][1]["Range"] == "bytes=4-"
    assert len(kept()) == 2
