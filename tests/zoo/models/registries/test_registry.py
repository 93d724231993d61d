"""What there is in a registry, wherever it lies."""

import errno
import io
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from specs import ZooError
from zoo.files import storage
from zoo.models.registries import publishing, registry
from zoo.models.registries.file_stores import FolderStore, WritableFileStore
from zoo.models.registries.registry import INDEX, Registry, open_registry
from zoo.models.registries.revision import Reference
from zoo.report import Progress, Report


class Counted(FolderStore):
    """Counts what is read."""

    def read(self, path, most):
        reads.append(path)
        return super().read(path, most)


reads: list[str] = []


def test_a_disk_that_takes_no_more_is_not_told_of_the_file_that_is_read(filled, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    place, opened = filled(1).place, Path.open
    (tmp_path / "file").write_bytes(b"content")
    full = lambda path, mode="r", **how: Full() if mode in ("ab", "wb") else opened(path, mode, **how)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(ZooError, match=r"blobs/x` cannot be written: the disk is full"):
            place.put("blobs/x", tmp_path / "file", Progress())
        with pytest.raises(ZooError, match=r"partial` cannot be written: the disk is full"):
            place.fetch("models/model/1.json", tmp_path / "partial", 5, Report())
    place.put("blobs/x", tmp_path / "file", Progress())
    place.fetch("blobs/x", tmp_path / "partial", 7, Report())
    assert (tmp_path / "partial").read_bytes() == b"content"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9, 31])
def test_the_newest_is_found_without_a_list(filled, count):
    place = filled(count).place
    reads.clear()
    newest = Registry(Counted(place.folder)).newest("model")
    assert (newest.revision if newest else 0) == count
    assert len(reads) <= 2 * (count + 1).bit_length()


def test_each_revision_is_found_by_number_and_by_digest(filled):
    found = filled(5)
    for number in range(1, 6):
        one = found.find(Reference("model", revision=number))
        assert one.revision == number
        assert found.find(Reference("model", digest=one.digest)) == one
    assert found.find(Reference("model")).revision == 5
    assert found.find(Reference("model", revision=6)) is None
    assert found.find(Reference("model", digest="0" * 64)) is None
    assert found.find(Reference("another")) is None


def test_a_web_server_has_the_same(filled, web):
    folder = filled(3)
    served = open_registry(web.address)
    assert served.newest("model") == folder.newest("model")
    assert served.revision("model", 2) == folder.revision("model", 2)
    assert served.entries() == folder.entries() != ()
    assert served.forward("model") is None
    with pytest.raises(ZooError, match="only read"):
        publishing.create_alias(served, "old", "model")


@pytest.fixture
def bucket_of_strangers(web, monkeypatch):
    """A server that says of what is not there, as a bucket does that strangers may not list, that it is forbidden."""
    told = BaseHTTPRequestHandler.send_error
    monkeypatch.setattr(BaseHTTPRequestHandler, "send_error", lambda self, code, *_: told(self, 403))
    return web.address


def test_a_bucket_that_is_not_listed_has_the_same(filled, bucket_of_strangers):
    folder, served = filled(3), open_registry(bucket_of_strangers)
    assert served.newest("model") == folder.newest("model")
    assert served.newest("another") is None
    assert served.forward("model") is None
    assert served.absent() is None


def test_a_registry_that_nobody_may_read_is_told(filled, bucket_of_strangers):
    (filled(1).place.folder / "registry.json").unlink()
    for ask in (lambda of: of.newest("another"), lambda of: of.absent()):
        with pytest.raises(ZooError, match="the server answers 403"):
            ask(open_registry(bucket_of_strangers))


def test_what_is_there_and_forbidden_is_not_passed_over(filled, web):
    """By a server that says of what is not there that it is not there."""
    filled(3)
    web.forbidden.add("/models/model/3.json")
    with pytest.raises(ZooError, match="the server answers 403"):
        open_registry(web.address).newest("model")


def test_what_lies_under_another_name_or_number_is_refused(filled):
    found = filled(2)
    models = found.place.folder / "models"
    (models / "model" / "1.json").write_bytes((models / "model" / "2.json").read_bytes())
    with pytest.raises(ZooError, match=r"1.json` is damaged: it is of `model@2`"):
        found.revision("model", 1)
    (models / "model").rename(models / "other")
    with pytest.raises(ZooError, match=r"is damaged: it is of `model@2`"):
        found.newest("other")


def test_a_list_says_the_newest_of_each_name_though_the_index_is_old(filled, summary, bundle):
    found = filled(2)
    filled(1, name="another")
    stale = (found.place.folder / INDEX).read_bytes()
    publishing.publish(found, "model", bundle(7), summary, Report())
    assert (found.place.folder / INDEX).read_bytes() == stale
    assert [(each.name, each.revision) for each in found.entries()] == [("another", 1), ("model", 3)]


def test_a_damaged_one_does_not_hide_the_others(filled):
    found = filled(2)
    filled(1, name="another")
    (found.place.folder / "models" / "model" / "3.json").write_text("{")
    with pytest.raises(ZooError, match=r"3\.json") as damaged:
        found.entries()
    assert str(damaged.value.hint).startswith("`model@2` is an earlier one; whoever keeps the registry restores")
    told = []
    entries = [(each.name, each.revision) for each in found.entries(told.append)]
    assert entries == [("another", 1), ("model", 2)], "as the index had it"
    assert ["3.json" in error.summary for error in told] == [True]


def test_what_is_no_revision_is_none(filled):
    found = filled(1)
    models = found.place.folder / "models"
    for stray in ("0.json", "01.json", "x.json", "1.json.partial", "²."):
        (models / "model" / stray).write_text("{}")
    (models / "empty").mkdir()
    assert [(each.name, each.revision) for each in found.entries()] == [("model", 1)]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        *(("models", "Folder"), ("/srv/models", "Folder"), ("file:///srv/a%20b", "Folder"), ("http://h/x", "Web")),
        *(("https://h", "Web"), ("s3://bucket/x", "Bucket"), ("hf://org/name", "Hub"), ("memory://x", "Remote")),
    ],
)
def test_an_address_says_what_kind_it_is(address, kind):
    found = open_registry(f"{address}/" if "://" in address else address)
    assert type(found.place).__name__ == kind
    if kind == "Folder":
        assert found.place.folder.is_absolute()
        assert found.place.folder.name in ("models", "a b")
        assert not found.place.outside
    else:
        assert urlsplit(found.address) == urlsplit(address)
        assert found.place.outside


@pytest.mark.parametrize("address", ["https://", "s3:///x", "http://[", "nonsense://x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ZooError, match="is no address of a registry"):
        open_registry(address).newest("model")


def test_registries_are_those_of_the_variable_then_those_of_the_list(monkeypatch, home):
    assert registry.configured_registries() == []
    home.mkdir()
    storage.registries().write_text("# ours\n\nhttps://own.org/zoo\n  /srv/two models  \n/srv/one\n")
    monkeypatch.setenv("ZOO_REGISTRIES", " /srv/one\n s3://bucket/x ")
    monkeypatch.delenv("ZOO_OFFLINE")
    assert [each.address for each in registry.configured_registries()] == [
        *("/srv/one", "s3://bucket/x", "https://own.org/zoo", "/srv/two models")
    ]
    assert registry.skipped_registries() == []
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert [each.address for each in registry.configured_registries()] == ["/srv/one", "/srv/two models"]
    assert registry.skipped_registries() == ["s3://bucket/x", "https://own.org/zoo"]


def test_an_index_that_is_damaged_is_told(filled, web):
    (filled(1).place.folder / INDEX).write_text(json.dumps({"models": [{"name": "x"}]}))
    with pytest.raises(ZooError, match=r"index.json` is damaged: models.0.revision"):
        open_registry(web.address).entries()


@pytest.mark.parametrize(("address", "hint"), [("s3://b/x", "[s3]"), ("hf://org/x", "[hf]"), ("gs://b/x", "names")])
def test_what_is_not_installed_is_told_with_the_extra_that_brings_it(monkeypatch, address, hint):
    def missing(scheme, **options):
        raise ImportError(f"Install what reads {scheme}")

    monkeypatch.setattr("zoo.models.registries.remote.fsspec.filesystem", missing)
    found = open_registry(address)
    writes = [lambda: found.place.create("x", b"")] if isinstance(found.place, WritableFileStore) else []
    for ask in (lambda: found.newest("model"), *writes):
        with pytest.raises(ZooError, match="cannot be reached: Install what reads") as told:
            ask()
        assert hint in str(told.value.hint)


@pytest.mark.parametrize(
    "address",
    [
        *("s3:/bucket/x", "https:/models.org", "file://models/zoo", "s3://", "hf:/org/name"),
        *("hf:org/name", "s3:bucket", "https:models.org", "file:/srv/models"),
    ],
)
def test_what_is_half_an_address_is_no_folder(address):
    with pytest.raises(ZooError, match="is no address of a registry"):
        open_registry(address)


@pytest.mark.parametrize("address", ["./hf:org/name", "/srv/models:2", "C:models"])
def test_a_folder_may_have_a_colon(address):
    assert open_registry(address).address == str(Path(address).absolute())


def test_a_user_that_is_not_known_is_a_folder():
    assert open_registry("~nobody-here/zoo").address == str(Path.cwd() / "~nobody-here/zoo")


@pytest.mark.parametrize("address", ["", " "])
def test_an_empty_address_is_not_the_current_folder(address):
    with pytest.raises(ZooError, match="the address of a registry is empty"):
        open_registry(address)


@pytest.mark.parametrize("address", ["hf://org", "hf://org/", "hf://datasets/org"])
def test_a_repository_of_the_hub_has_an_owner_and_a_name(address):
    with pytest.raises(ZooError, match="is no address of a repository") as told:
        open_registry(address)
    assert "hf://ORG/NAME" in str(told.value.hint)
