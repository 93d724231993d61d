"""Archives are downloaded once, checked, and recorded."""

import errno
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from tests.refusals import refused
from zoo.files import download, storage
from zoo.files.download import recorded_sha256, records_file
from zoo.files.manifest import ManifestEntry
from zoo.report import Report

CONTENT = b"some archive"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(web):
    web.content = CONTENT
    return f"{web.address}/wmt/some.tgz"


def fetch(url, sha256=None, report=None):
    return download.fetch(url, sha256, report or Report())


def stored_names():
    return sorted(path.name for path in storage.archives().iterdir() if not path.name.startswith("."))


def test_an_archive_is_downloaded_once_and_recorded(web, url):
    assert recorded_sha256(url) is None
    first = fetch(url)
    assert first.path.read_bytes() == CONTENT
    assert first.sha256 == recorded_sha256(url) == HASH
    assert json.loads(records_file().read_text()) == {url: {"sha256": HASH, "bytes": len(CONTENT)}}
    assert fetch(url) == fetch(url, HASH) == first
    records_file().unlink()  # a file that the user put there is recorded
    assert fetch(url) == first
    assert (recorded_sha256(url), len(web.requests)) == (HASH, 1)
    assert set(stored_names()) == {first.path.name, "corpus.lock"}
    web.content = b"another"
    second = fetch(url.replace("wmt", "iwslt"))
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
    error = refused(rf"has the SHA-256 {HASH}, but {'0' * 64} is specified", fetch, url, "0" * 64)
    assert (error.exit_code, stored_names()) == (1, [])
    assert fetch(url, HASH).path.read_bytes() == CONTENT


def test_another_sha256_than_at_the_first_download_is_an_error(web, url):
    fetch(url).path.unlink()
    web.content = b"changed"
    assert str(records_file()) in refused(rf"but had {HASH} at its first download", fetch, url).hint
    records_file().unlink()
    assert fetch(url).path.read_bytes() == b"changed"


def test_a_damaged_archive_is_downloaded_again_but_not_removed_offline(web, url, report):
    path = fetch(url).path
    path.write_bytes(CONTENT[:5])
    with mock.patch.dict(os.environ, ZOO_OFFLINE="1"):
        refused("ZOO_OFFLINE", fetch, url)
    assert path.read_bytes() == CONTENT[:5]
    assert fetch(url, None, report).path.read_bytes() == CONTENT
    assert "downloading the file again" in report.warnings[0]
    assert len(web.requests) == 2


def test_offline_only_stored_archives_are_used(web, url, monkeypatch):
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert "ZOO_MIRROR" in refused(r"some\.tgz` has not been downloaded yet, and ZOO_OFFLINE", fetch, url).hint
    assert web.requests == []
    for value in ("0", "", "1"):
        monkeypatch.setenv("ZOO_OFFLINE", value)
        assert fetch(url).path.read_bytes() == CONTENT


@pytest.mark.parametrize("template", ["{}", "file://{}"])
def test_a_mirror_folder_replaces_the_host(tmp_path, monkeypatch, template):
    mirror = tmp_path / "mirror"
    (mirror / "wmt").mkdir(parents=True)
    (mirror / "wmt" / "some one.tgz").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", template.format(mirror))
    url = "http://host.invalid/wmt/some%20one.tgz"
    assert fetch(url).path == mirror / "wmt" / "some one.tgz"
    assert stored_names() == ["corpus.lock"]
    for outside in ("wmt/other.tgz", "../secret", "a/../../secret", "%2e%2e/secret", "..%2fsecret"):
        refused("there is no file", fetch, f"http://host.invalid/{outside}")
    (mirror / "wmt" / "some one.tgz").write_bytes(b"other")
    refused("at its first download", fetch, url)
    assert (mirror / "wmt" / "some one.tgz").exists()


def test_a_mirror_address_replaces_the_host(web, monkeypatch):
    web.content = CONTENT
    monkeypatch.setenv("ZOO_MIRROR", f"{web.address}/mirror/")
    fetch("http://host.invalid/wmt/some.tgz?version=2")
    assert [path for path, _ in web.asked] == ["/mirror/wmt/some.tgz?version=2"]
    assert recorded_sha256("http://host.invalid/wmt/some.tgz?version=2") == HASH


def test_an_invalid_mirror_is_an_error(monkeypatch):
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    for mirror in ("http://[::1", "http://a..b/c"):
        monkeypatch.setenv("ZOO_MIRROR", mirror)
        assert "set ZOO_MIRROR" in refused("is not a valid URL", fetch, "http://host/a.tgz").hint
    refused("is not a valid URL", fetch, "http://[::1/a.tgz")
    monkeypatch.setenv("ZOO_MIRROR", "~nosuchuser/mirror")
    refused(r"there is no file `~nosuchuser/mirror/a\.tgz`", fetch, "http://host/a.tgz")


def test_a_file_address_is_used_without_copying(tmp_path, monkeypatch):
    file = tmp_path / "some.tgz"
    file.write_bytes(CONTENT)
    assert fetch(file.as_uri(), HASH).path == file
    refused("there is no file", fetch, (tmp_path / "other.tgz").as_uri())

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("zoo.files.manifest.hashlib.file_digest", fail)
    refused(r"some\.tgz` cannot be read: Input/output error", fetch, file.as_uri())


def test_a_damaged_lock_file_is_an_error():
    storage.archives().mkdir(parents=True)
    for record in ("{}", "1", '{"sha256": "x", "bytes": 1}', f'{{"sha256": "{HASH}", "bytes": "1"}}'):
        records_file().write_text(f'{{"http://a": {record}}}')
        refused(r"corpus\.lock` is damaged", recorded_sha256, "http://a")


def test_concurrent_calls_download_once(web, url):
    web.content = CONTENT * 100_000
    with ThreadPoolExecutor(3) as threads:
        assert len(set(threads.map(fetch, [url] * 3))) == 1
    assert len(web.requests) == 1


def test_concurrent_calls_lose_no_record():
    def record(name):
        for number in range(20):
            download._record(f"https://a.org/{name}{number}.tgz", ManifestEntry(64 * "a", number))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(record, ("one", "other"))) == [None, None]
    assert len(json.loads(records_file().read_text())) == 40
