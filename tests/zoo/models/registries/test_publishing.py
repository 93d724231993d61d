"""A publication is complete or does not appear, and no revision is lost."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.refusals import refused
from zoo.files import manifest
from zoo.files.manifest import sha256
from zoo.models.registries.file_stores import FolderStore
from zoo.models.registries.registry import INDEX, Registry, open_registry
from zoo.report import Report


def indexed(registry):
    models = json.loads(registry.store.read(INDEX, 10_000))["models"]
    return [f"{entry['name']}@{entry['revision']}" for entry in models]


def test_a_published_bundle_is_found_and_downloads_are_resumed(registry, bundle, summary, tmp_path, report):
    folder = bundle(1)
    revision = registry.publish("model", folder, summary, report)
    ((_, total, _, *sent),) = report.progresses
    assert total == sum(sent) == revision.bytes
    assert (revision.name, revision.revision, revision.summary) == ("model", 1, summary)
    assert revision.digest == sha256(folder / manifest.NAME)
    assert registry.newest("model") == revision
    for name, file in revision.files.items():
        for offset in (0, 5):
            partial = tmp_path / f"{name}.{offset}.partial"
            partial.write_bytes(b"x" * offset)
            registry.store.fetch(f"blobs/sha256/{file.sha256}", partial, file.bytes, Report())
            assert partial.read_bytes() == b"x" * offset + (folder / name).read_bytes()[offset:]


def test_existing_blobs_are_not_uploaded_again(tmp_path, bundle, summary):
    registry = open_registry(str(tmp_path / "registry"))
    inodes = []
    for seed in (1, 2):
        registry.publish("model", bundle(seed), summary, Report())
        blobs = (registry.store.folder / "blobs/sha256").iterdir()
        inodes.append({(file.name, file.stat().st_ino) for file in blobs})
    assert inodes[0] < inodes[1]
    assert len(inodes[1]) == len(inodes[0]) + 3, "the vocabulary is the same"


def test_the_newest_bundle_is_not_published_twice_and_the_index_is_written_again(registry, bundle, summary):
    for seed, number in ((1, 1), (1, 1), (2, 2), (1, 3)):
        assert registry.publish("model", bundle(seed, 100), summary, Report()).revision == number
        registry.write_index(Report())
    registry.publish("another", bundle(2, 100), summary, Report())
    registry.write_index(Report())
    assert indexed(registry) == ["another@1", "model@3"]


def test_concurrent_publishers_lose_nothing(registry, bundle, summary):
    folders, start = [bundle(seed, 100) for seed in range(4)], threading.Barrier(2)

    def publish(mine):
        own = open_registry(registry.address)
        start.wait()
        return [own.publish("model", folder, summary, Report()) for folder in mine]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(publish, (folders[::2], folders[1::2]))
    digests = {revision.revision: revision.digest for revision in (*first, *second)}
    assert sorted(digests) == [1, 2, 3, 4]
    assert registry.newest("model").revision == 4
    assert {number: registry.revision("model", number).digest for number in digests} == digests
    assert len(set(digests.values())) == 4


def test_a_model_that_is_published_while_the_index_is_written_is_in_it(tmp_path, bundle, summary):
    class Overtaken(FolderStore):
        def write(self, path, content, *, replace):
            if path == INDEX and others:
                registry.publish("other", others.pop(), summary, Report())
            return super().write(path, content, replace=replace)

    registry, others = open_registry(str(tmp_path / "registry")), [bundle(2)]
    registry.publish("model", bundle(1), summary, Report())
    Registry(Overtaken(registry.store.folder)).write_index(Report())
    assert b'"other"' in registry.store.read(INDEX, 10_000)


def test_a_damaged_index_is_written_again_and_a_damaged_revision_keeps_its_entry(filled, bundle, summary, report):
    registry = filled(2)
    for text in (b"{", b'{"format": 2}', b"[]"):
        registry.store.write(INDEX, text, replace=True)
        registry.write_index(Report())
        assert [entry.revision for entry in registry.entries(pytest.fail)] == [2]
    (registry.store.folder / "models" / "model" / "3.json").write_text("{")
    registry.publish("another", bundle(7), summary, Report())
    registry.write_index(report)
    assert indexed(registry) == ["another@1", "model@2"]
    assert ["3.json` is damaged" in warning for warning in report.warnings] == [True]


def test_a_store_that_overwrites_files_is_refused(tmp_path, bundle, summary):
    class Overwriting(FolderStore):
        def write(self, path, content, *, replace):
            return super().write(path, content, replace=True)

    registry = Registry(Overwriting(tmp_path / "registry"))
    refused("two processes could overwrite each other", registry.publish, "model", bundle(1), summary, Report())
    assert not (tmp_path / "registry" / "models").exists()


@pytest.mark.integration
def test_a_missing_bucket_is_an_error(bucket, bundle, summary):
    registry = open_registry("s3://no-such-bucket/x")
    assert "bucket" in refused("cannot be written to", registry.publish, "model", bundle(1), summary, Report()).hint
