"""Publishing is whole or not at all, and nobody's revision is lost."""

import threading

import pytest

from specs import ZooError
from zoo.files import manifest
from zoo.files.hashes import sha256
from zoo.models.registries import publishing
from zoo.models.registries.file_stores import FolderStore
from zoo.models.registries.registry import INDEX, PAGE, Registry, open_registry
from zoo.models.registries.revision import Reference
from zoo.report import Progress, Report


def blobs(place):
    return {file.name for file in (place.folder / "blobs" / "sha256").iterdir()}


def test_what_is_published_is_what_is_found(place, bundle, summary, tmp_path):
    made = publishing.publish(place, "model", bundle(1), summary, Report())
    assert (made.name, made.revision, made.summary) == ("model", 1, summary)
    assert made.digest == sha256(bundle_of(tmp_path) / manifest.NAME)
    assert place.newest("model") == place.find(Reference("model", digest=made.digest)) == made
    for name, file in made.files.items():
        partial = tmp_path / f"{name}.partial"
        place.fetch(file.sha256, partial, file.bytes, Report())
        assert partial.read_bytes() == (bundle_of(tmp_path) / name).read_bytes()


def bundle_of(tmp_path):
    return tmp_path / "bundle-1-30000"


def test_what_has_arrived_is_gone_on_from(place, bundle, summary, tmp_path):
    made = publishing.publish(place, "model", bundle(1), summary, Report())
    whole, file = (bundle_of(tmp_path) / "weights.safetensors").read_bytes(), made.files["weights.safetensors"]
    partial = tmp_path / "weights.partial"
    partial.write_bytes(b"x" * 100)
    place.fetch(file.sha256, partial, file.bytes, Report())
    assert partial.read_bytes() == b"x" * 100 + whole[100:]


def test_what_is_there_is_not_sent_again(tmp_path, bundle, summary):
    place = open_registry(str(tmp_path / "registry"))
    publishing.publish(place, "model", bundle(1), summary, Report())
    before = {file.name: file.stat().st_ino for file in (place.place.folder / "blobs/sha256").iterdir()}
    publishing.publish(place, "model", bundle(2), summary, Report())
    after = {file.name: file.stat().st_ino for file in (place.place.folder / "blobs/sha256").iterdir()}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 3, "the vocabulary is the same"


def test_the_same_bundle_is_the_same_revision(place, bundle, summary):
    one, two = bundle(1), bundle(2)
    assert publishing.publish(place, "model", one, summary, Report()).revision == 1
    assert publishing.publish(place, "model", one, summary, Report()).revision == 1
    assert publishing.publish(place, "model", two, summary, Report()).revision == 2
    assert publishing.publish(place, "model", one, summary, Report()).revision == 3, "it is not the newest"


def test_two_at_once_lose_nothing(place, bundle, summary):
    several, start = [bundle(seed, 100) for seed in range(6)], threading.Barrier(2)
    made = []

    def publish(mine):
        own = open_registry(place.address)
        start.wait()
        for folder in mine:
            made.append(publishing.publish(own, "model", folder, summary, Report()))

    threads = [threading.Thread(target=publish, args=(several[first::2],)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.revision for each in made) == [1, 2, 3, 4, 5, 6]
    assert place.newest("model").revision == 6
    assert {place.revision("model", each.revision).digest for each in made} == {each.digest for each in made}
    assert len({each.digest for each in made}) == 6


def test_an_old_name_leads_to_the_new_one(place, bundle, summary):
    publishing.publish(place, "new", bundle(1), summary, Report())
    publishing.create_alias(place, "old", "new")
    assert place.forward("old") == "new"
    assert place.forward("new") is None
    assert [each.name for each in place.entries()] == ["new"]
    publishing.publish(place, "before", bundle(2), summary, Report())
    assert [each.name for each in place.entries()] == ["before", "new"]
    publishing.create_alias(place, "before", "new")
    assert [each.name for each in place.entries()] == ["new"], "who asks for it gets the other"
    assert place.revision("before", 1) is not None


def test_the_index_is_made_again_and_its_page_from_it(place, bundle, summary):
    publishing.publish(place, "model", bundle(1), summary, Report())
    publishing.write_index(place, lambda entries: " ".join(f"{each.name}@{each.revision}" for each in entries))
    publishing.publish(place, "another", bundle(2), summary, Report())
    publishing.write_index(place, lambda entries: " ".join(f"{each.name}@{each.revision}" for each in entries))
    assert place.place.read(PAGE, 100) == b"another@1 model@1"
    assert b'"another"' in place.place.read(INDEX, 10_000)


def test_who_publishes_while_the_index_is_written_is_in_it(tmp_path, bundle, summary):
    class Overtaken(FolderStore):
        """Somebody else publishes before it is written."""

        def replace(self, path, content):
            if path == INDEX and others:
                publishing.publish(plain, "other", others.pop(), summary, Report())
            super().replace(path, content)

    plain, others = open_registry(str(tmp_path / "registry")), [bundle(2)]
    publishing.publish(plain, "model", bundle(1), summary, Report())
    publishing.write_index(Registry(Overtaken(plain.place.folder)), str)
    assert b'"other"' in plain.place.read(INDEX, 10_000)


def test_a_place_that_writes_over_what_is_there_is_refused(tmp_path, bundle, summary):
    class Heedless(FolderStore):
        def create(self, path, content):
            self.replace(path, content)
            return True

    with pytest.raises(ZooError, match="what is there is written over"):
        publishing.publish(Registry(Heedless(tmp_path / "registry")), "model", bundle(1), summary, Report())
    assert not (tmp_path / "registry" / "models").exists()


@pytest.mark.parametrize("address", ["http://localhost/x", "memory://x"])
def test_what_is_only_read_is_refused(address, bundle, summary):
    with pytest.raises(ZooError, match="cannot be published to: it is only read"):
        publishing.publish(open_registry(address), "model", bundle(1), summary, Report())


def test_progress_counts_what_is_sent(place, bundle, summary):
    class Counting(Report, Progress):
        def progress(self, label, total, unit):
            self.total, self.sent = total, 0
            return self

        def advance(self, n=1, **figures):
            self.sent += n

    report = Counting()
    made = publishing.publish(place, "model", bundle(1), summary, report)
    assert report.total == report.sent == made.bytes


def test_a_bucket_that_is_not_there_is_told(bucket, bundle, summary):
    with pytest.raises(ZooError, match="cannot be written to") as told:
        publishing.publish(open_registry("s3://no-such-bucket/x"), "model", bundle(1), summary, Report())
    assert "bucket" in str(told.value.hint)


def test_the_index_is_made_again_from_what_is_there_though_it_be_damaged(filled):
    place = filled(2)
    for text in (b"{", b'{"format": 2}', b"[]"):
        place.place.replace(INDEX, text)
        publishing.write_index(place, str)
        (entry,) = place.entries()
        assert entry.revision == 2


def test_a_damaged_revision_stays_in_the_index_as_it_was(filled, bundle, summary):
    class Warned(Report):
        def warn(self, text):
            told.append(text)

    told, place = [], filled(2)
    (place.place.folder / "models" / "model" / "3.json").write_text("{")
    publishing.publish(place, "another", bundle(7), summary, Report())
    publishing.write_index(
        place, lambda entries: " ".join(f"{each.name}@{each.revision}" for each in entries), Warned()
    )
    assert place.place.read(PAGE, 100) == b"another@1 model@2"
    assert len(told) == 1
    assert "3.json` is damaged" in told[0]


def test_nothing_goes_to_the_network_where_that_is_left_alone(monkeypatch):
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match="ZOO_OFFLINE leaves the network alone"):
        publishing.require_writable(open_registry("s3://bucket/models"))
