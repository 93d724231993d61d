"""Archives are downloaded once, checked, and recorded."""

import errno
import hashlib
import json
import subprocess
import sys
import threading

import pytest

from specs import ZooError
from tests.paths import ROOT
from zoo.files import storage
from zoo.files.download import fetch, lock_file, recorded_sha256
from zoo.report import Report

CONTENT = b"some archive"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(web):
    web.content = CONTENT
    return f"{web.address}/wmt/some.tgz"


def stored_names():
    return sorted(path.name for path in storage.archives().iterdir() if not path.name.startswith("."))


def test_an_archive_is_downloaded_once_and_recorded(web, url):
    assert recorded_sha256(url) is None
    first = fetch(url, None, Report())
    assert first.path.read_bytes() == CONTENT
    assert first.sha256 == recorded_sha256(url) == HASH
    assert json.loads(lock_file().read_text()) == {url: {"sha256": HASH, "bytes": len(CONTENT)}}
    assert fetch(url, None, Report()) == fetch(url, HASH, Report()) == first
    lock_file().unlink()  # a file that the user put there is recorded
    assert fetch(url, None, Report()) == first
    assert recorded_sha256(url) == HASH
    assert len(web.requests) == 1
    assert set(stored_names()) == {first.path.name, "corpus.lock"}


def test_archives_with_one_name_are_kept_apart(web, url):
    first = fetch(url, None, Report())
    web.content = b"another"
    second = fetch(url.replace("wmt", "iwslt"), None, Report())
    assert (first.path.read_bytes(), second.path.read_bytes()) == (CONTENT, b"another")
    assert first.path.name.endswith("-some.tgz")


def test_a_first_download_without_sha256_is_warned_of_once(web, url, report):
    fetch(url, None, report)
    (warning,) = report.warnings
    assert "could not be verified" in warning
    assert HASH in warning
    fetch(url, None, report).path.unlink()
    fetch(url, None, report)
    fetch(url.replace("some", "other"), HASH, report)
    assert report.warnings == [warning]


def test_another_sha256_than_the_spec_requires_is_an_error(url):
    with pytest.raises(ZooError, match=rf"has the SHA-256 {HASH}, but {'0' * 64} is specified") as raised:
        fetch(url, "0" * 64, Report())
    assert raised.value.exit_code == 1
    assert stored_names() == []
    assert fetch(url, HASH, Report()).path.read_bytes() == CONTENT


def test_another_sha256_than_at_the_first_download_is_an_error(web, url):
    fetch(url, None, Report()).path.unlink()
    web.content = b"changed"
    with pytest.raises(ZooError, match=rf"but had {HASH} at its first download") as raised:
        fetch(url, None, Report())
    assert str(lock_file()) in raised.value.hint
    lock_file().unlink()
    assert fetch(url, None, Report()).path.read_bytes() == b"changed"


def test_a_damaged_archive_is_downloaded_again_but_not_removed_offline(web, url, report, monkeypatch):
    path = fetch(url, None, Report()).path
    path.write_bytes(CONTENT[:5])
    with monkeypatch.context() as patch:
        patch.setenv("ZOO_OFFLINE", "1")
        with pytest.raises(ZooError, match="ZOO_OFFLINE"):
            fetch(url, None, Report())
    assert path.read_bytes() == CONTENT[:5]
    assert fetch(url, None, report).path.read_bytes() == CONTENT
    assert "downloading the file again" in report.warnings[0]
    assert len(web.requests) == 2


def test_offline_only_stored_archives_are_used(web, url, monkeypatch):
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match=r"some\.tgz` has not been downloaded yet, and ZOO_OFFLINE") as raised:
        fetch(url, None, Report())
    assert "ZOO_MIRROR" in raised.value.hint
    assert web.requests == []
    for value in ("0", "", "1"):
        monkeypatch.setenv("ZOO_OFFLINE", value)
        assert fetch(url, None, Report()).path.read_bytes() == CONTENT


@pytest.mark.parametrize("template", ["{}", "file://{}"])
def test_a_mirror_folder_replaces_the_host(tmp_path, monkeypatch, template):
    mirror = tmp_path / "mirror"
    (mirror / "wmt").mkdir(parents=True)
    (mirror / "wmt" / "some one.tgz").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", template.format(mirror))
    url = "http://host.invalid/wmt/some%20one.tgz"
    assert fetch(url, None, Report()).path == mirror / "wmt" / "some one.tgz"
    assert stored_names() == ["corpus.lock"]
    for outside in ("wmt/other.tgz", "../secret", "a/../../secret", "%2e%2e/secret", "..%2fsecret"):
        with pytest.raises(ZooError, match="there is no file"):
            fetch(f"http://host.invalid/{outside}", None, Report())
    (mirror / "wmt" / "some one.tgz").write_bytes(b"other")
    with pytest.raises(ZooError, match="at its first download"):
        fetch(url, None, Report())
    assert (mirror / "wmt" / "some one.tgz").exists()


def test_a_mirror_address_replaces_the_host(web, monkeypatch):
    web.content = CONTENT
    monkeypatch.setenv("ZOO_MIRROR", f"{web.address}/mirror/")
    fetch("http://host.invalid/wmt/some.tgz?version=2", None, Report())
    assert [path for path, _ in web.asked] == ["/mirror/wmt/some.tgz?version=2"]
    assert recorded_sha256("http://host.invalid/wmt/some.tgz?version=2") == HASH


def test_an_invalid_mirror_is_an_error(monkeypatch):
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    for mirror in ("http://[::1", "http://a..b/c"):
        monkeypatch.setenv("ZOO_MIRROR", mirror)
        with pytest.raises(ZooError, match=r"is not a valid address") as raised:
            fetch("http://host/a.tgz", None, Report())
        assert "set ZOO_MIRROR" in raised.value.hint
    with pytest.raises(ZooError, match=r"is not a valid address"):
        fetch("http://[::1/a.tgz", None, Report())
    monkeypatch.setenv("ZOO_MIRROR", "~nosuchuser/mirror")
    with pytest.raises(ZooError, match=r"there is no file `~nosuchuser/mirror/a\.tgz`"):
        fetch("http://host/a.tgz", None, Report())


def test_a_file_address_is_used_without_copying(tmp_path, monkeypatch):
    (tmp_path / "some.tgz").write_bytes(CONTENT)
    assert fetch((tmp_path / "some.tgz").as_uri(), HASH, Report()).path == tmp_path / "some.tgz"
    with pytest.raises(ZooError, match="there is no file"):
        fetch((tmp_path / "other.tgz").as_uri(), None, Report())

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("zoo.files.manifest.hashlib.file_digest", fail)
    with pytest.raises(ZooError, match=r"some\.tgz` cannot be read: Input/output error"):
        fetch((tmp_path / "some.tgz").as_uri(), None, Report())


def test_a_damaged_lock_file_is_an_error():
    storage.archives().mkdir(parents=True)
    for record in ("{}", "1", '{"sha256": "x", "bytes": "y"}'):
        lock_file().write_text(f'{{"http://a": {record}}}')
        with pytest.raises(ZooError, match=r"corpus\.lock` is damaged"):
            recorded_sha256("http://a")


def test_concurrent_calls_download_once(web, url):
    web.content = CONTENT * 100_000
    results = []
    threads = [threading.Thread(target=lambda: results.append(fetch(url, None, Report()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert len(set(results)) == 1
    assert len(web.requests) == 1


RECORD = """
import sys
from zoo.files.download import _record
from zoo.files.manifest import ManifestEntry
for number in range(20):
    _record(f"https://a.org/{sys.argv[1]}{number}.tgz", ManifestEntry(64 * "a", number))
"""


@pytest.mark.integration
def test_concurrent_processes_lose_no_record():
    command = [sys.executable, "-c", RECORD]
    processes = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("one", "other")]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(json.loads(lock_file().read_text())) == 40
