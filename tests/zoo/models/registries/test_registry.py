"""Models are found in registries of every kind, and damage is reported."""

import errno
import io
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import pytest

from tests.refusals import refused
from zoo.files import storage
from zoo.models.registries import registry, remote_stores
from zoo.models.registries.file_stores import FolderStore, WritableFileStore
from zoo.models.registries.registry import INDEX, Registry, open_registry
from zoo.models.registries.remote_stores import FsspecStore
from zoo.report import Progress, Report


def pins(entries):
    return [f"{entry.name}@{entry.revision}" for entry in entries]


def test_a_full_disk_is_reported_for_the_written_file(filled, tmp_path):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    store, opened = filled(1).store, Path.open
    (tmp_path / "file").write_bytes(b"content")
    full = lambda path, mode="r", **how: Full() if mode in ("ab", "wb") else opened(path, mode, **how)  # noqa: E731
    with mock.patch.object(Path, "open", full):
        put, fetch = (f"{name}` cannot be written: the disk is full" for name in ("blobs/x", "partial"))
        refused(put, store.put, "blobs/x", tmp_path / "file", Progress())
        refused(fetch, store.fetch, "models/model/1.json", tmp_path / "partial", 5, Report())
    store.put("blobs/x", tmp_path / "file", Progress())
    store.fetch("blobs/x", tmp_path / "partial", 7, Report())
    assert (tmp_path / "partial").read_bytes() == b"content"


def test_a_remote_file_is_downloaded_in_chunks_and_resumed(tmp_path, monkeypatch):
    class Recorder(FsspecStore):
        def _read_range(self, path, start, end):
            ranges.append((start, end))
            return super()._read_range(path, start, end)

    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(remote_stores, "_CHUNK", 4)
    store = Recorder("memory://chunks")
    store.files.pipe_file("memory://chunks/blob", b"0123456789")
    for kept, expected in ((b"", [(0, 4), (4, 8), (8, 10)]), (b"012", [(3, 7), (7, 10)])):
        ranges.clear()
        (tmp_path / "partial").write_bytes(kept)
        store.fetch("blob", tmp_path / "partial", 10, Report())
        assert (tmp_path / "partial").read_bytes() == b"0123456789"
        assert ranges == expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_the_newest_revision_is_found_by_bisection(filled, count):
    class Recorder(FolderStore):
        def read(self, path, max_bytes):
            reads.append(path)
            return super().read(path, max_bytes)

    reads: list[str] = []
    newest = Registry(Recorder(filled(count).store.folder)).newest("model")
    assert (newest.revision if newest else 0) == count
    assert len(reads) <= 2 * (count + 1).bit_length()


def test_a_web_server_serves_a_registry_that_is_read_only_and_nothing_forbidden_or_damaged_is_skipped(filled, web):
    folder, served = filled(3), open_registry(web.address)
    assert served.newest("model") == folder.newest("model")
    assert served.revision("model", 2) == folder.revision("model", 2)
    assert served.entries(pytest.fail) == folder.entries(pytest.fail) != ()
    refused("it is read-only", served.write_index, Report())
    web.forbidden.add("/models/model/3.json")
    refused("the server returned 403", open_registry(web.address).newest, "model")
    (folder.store.folder / INDEX).write_text(json.dumps({"models": [{"name": "x"}]}))
    refused("index.json` is damaged: models.0.revision", open_registry(web.address).entries, pytest.fail)


def test_403_counts_as_missing_only_if_the_server_always_answers_it(filled, web, monkeypatch):
    """A bucket that strangers may not list answers 403 for missing files."""
    send_error = BaseHTTPRequestHandler.send_error
    monkeypatch.setattr(BaseHTTPRequestHandler, "send_error", lambda self, code, *_: send_error(self, 403))
    folder, served = filled(3), open_registry(web.address)
    assert served.newest("model") == folder.newest("model")
    assert served.newest("another") is None
    assert served.absence() is None
    (folder.store.folder / "registry.json").unlink()
    for ask in (lambda of: of.newest("another"), lambda of: of.absence()):
        refused("the server returned 403", ask, open_registry(web.address))


def test_a_revision_under_another_name_or_number_is_refused(filled):
    found = filled(2)
    models = found.store.folder / "models"
    (models / "model" / "1.json").write_bytes((models / "model" / "2.json").read_bytes())
    refused(r"1.json` is damaged: it describes `model@2` instead of `model@1`", found.revision, "model", 1)
    (models / "model").rename(models / "other")
    refused("is damaged: it describes `model@2` instead of `other@1`", found.newest, "other")


def test_entries_are_current_without_the_index_and_a_damaged_revision_hides_no_others(filled, summary, bundle):
    found = filled(2)
    filled(1, name="another")
    models, stale = found.store.folder / "models", (found.store.folder / INDEX).read_bytes()
    found.publish("model", bundle(7), summary, Report())
    assert (found.store.folder / INDEX).read_bytes() == stale
    for stray in ("0.json", "01.json", "x.json", "1.json.partial", "²."):
        (models / "model" / stray).write_text("{}")
    (models / "empty").mkdir()
    assert pins(found.entries(pytest.fail)) == ["another@1", "model@3"]
    (models / "model" / "4.json").write_text("{")
    errors = []
    assert pins(found.entries(errors.append)) == ["another@1", "model@2"], "that in the index"
    (error,) = errors
    assert "4.json" in error.summary
    assert error.hint.startswith("use the earlier revision `model@3`, or ask")


KINDS = dict.fromkeys(["models", "/srv/models", "file:///srv/a%20b"], "FolderStore")
KINDS |= {"http://h/x": "WebStore", "https://h": "WebStore", "s3://bucket/x": "S3Store", "hf://org/name": "HubStore"}


@pytest.mark.parametrize(("address", "kind"), KINDS.items())
def test_the_address_determines_the_kind_of_registry(address, kind):
    found = open_registry(f"{address}/" if "://" in address else address)
    assert type(found.store).__name__ == kind
    assert found.is_remote is (kind != "FolderStore")
    if kind == "FolderStore":
        assert found.store.folder.is_absolute()
        assert found.store.folder.name in ("models", "a b")
    else:
        assert urlsplit(found.address) == urlsplit(address)


def test_invalid_addresses_are_refused_and_unusual_folder_names_are_folders():
    incomplete = ["s3:/bucket/x", "https:/models.org", "file://models/zoo", "s3://", "hf:/org/name"]
    without_slashes = ["hf:org/name", "s3:bucket", "https:models.org", "file:/srv/models"]
    for address in ["https://", "s3:///x", "http://[", "nonsense://x", "gs://b/x", *incomplete, *without_slashes]:
        refused("is not the address of a registry", open_registry, address)
    for address in ("", " "):
        refused("the registry address is empty", open_registry, address)
    for address in ("hf://org", "hf://org/", "hf://datasets/org"):
        assert "hf://ORG/NAME" in refused("is not the address of a repository", open_registry, address).hint
    for address in ("./hf:org/name", "/srv/models:2", "C:models", "~nobody-here/zoo"):
        assert open_registry(address).address == str(Path(address).absolute())


def test_configured_registries_are_those_of_the_variable_then_of_the_file_then_the_included_one(monkeypatch, home):
    def addresses():
        found = registry.Registries.configured()
        return [each.address for each in found.searched], found.skipped

    included = str(registry.INCLUDED)
    assert addresses() == ([included], [])
    home.mkdir()
    storage.registries().write_text("# ours\n\nhttps://own.org/zoo\n  /srv/two models  \n/srv/one\n")
    monkeypatch.setenv("ZOO_REGISTRIES", " /srv/one\n s3://bucket/x ")
    monkeypatch.delenv("ZOO_OFFLINE")
    expected = ["/srv/one", "s3://bucket/x", "https://own.org/zoo", "/srv/two models", included]
    assert addresses() == (expected, [])
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert addresses() == (["/srv/one", "/srv/two models", included], ["s3://bucket/x", "https://own.org/zoo"])


@pytest.mark.parametrize(("address", "hint"), [("s3://b/x", "[s3]"), ("hf://org/x", "[hf]")])
def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch, address, hint):
    def missing(scheme, **options):
        raise ImportError(f"Install a package for {scheme}")

    monkeypatch.setattr("zoo.models.registries.remote_stores.fsspec.filesystem", missing)
    found = open_registry(address)
    writes = [lambda: found.store.write("x", b"", replace=False)] if isinstance(found.store, WritableFileStore) else []
    for ask in (lambda: found.newest("model"), *writes):
        assert hint in refused("cannot be reached: Install a package", ask).hint
