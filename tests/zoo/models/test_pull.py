"""From a registry to the shelf: whole, as it was published, and once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specs import ZooError
from zoo.files import manifest, storage
from zoo.models import find, local_store
from zoo.models import pull as pull_module
from zoo.models.local_store import bundle_digest, read_origin
from zoo.models.origin import of as origin_of
from zoo.models.pull import pull
from zoo.models.registries import publishing
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import Reference, parse_reference
from zoo.report import Report


@pytest.fixture
def published(tmp_path, bundle, summary, monkeypatch):
    """Publishes bundles of these seeds as revisions of a model, in a registry that is asked."""
    monkeypatch.setenv("ZOO_REGISTRIES", str(tmp_path / "registry"))

    def publish(*seeds, name="model", size=30_000):
        made = open_registry(str(tmp_path / "registry"))
        for seed in seeds:
            publishing.publish(made, name, bundle(seed, size), summary, Report())
        publishing.write_index(made, str)
        return made

    return publish


def seed_of(folder):
    manifest.check(folder)
    return int((folder / "spec.yaml").read_text().removeprefix("seed: "))


def pulled(text, report=None):
    return pull(parse_reference(text), report or Report())


def test_it_is_the_newest_and_stands_under_its_name(published, home):
    made = published(1, 2)
    folder = pulled("model")
    assert folder == home / "shelf" / "model"
    assert seed_of(folder) == 2
    assert local_store.names() == ["model"]
    assert read_origin(folder).model_dump() == {
        "registry": made.address,
        "name": "model",
        "revision": 2,
        "digest": made.newest("model").digest,
    }
    assert list(storage.pulls().glob("[!.]*")) == [], "nothing is left of the way"


def test_what_is_here_stays_until_it_is_pulled(published):
    published(1)
    assert seed_of(find.published_model("model")) == 1
    published(2)
    assert seed_of(find.published_model("model")) == 1
    assert seed_of(pulled("model")) == 2
    assert seed_of(find.published_model("model")) == 2


def test_a_pinned_one_stands_beside_it(published, home):
    made = published(1, 2, 3)
    assert seed_of(find.published_model("model@1")) == 1
    assert local_store.names() == [], "the name alone is not what was pinned"
    assert seed_of(find.published_model("model")) == 3
    two = made.revision("model", 2).digest
    assert seed_of(find.published_model(f"model@sha256:{two}")) == 2
    assert (home / "shelf" / f"model@{two[:16]}").is_dir()
    for text, seed in (("model@1", 1), ("model@2", 2), ("model", 3), ("model@3", 3), (f"model@sha256:{two}", 2)):
        assert seed_of(find.local_model(text)) == seed
    assert pulled("model@3") == home / "shelf" / "model", "it is here already"
    assert len(list((home / "shelf").iterdir())) == 3


def test_what_no_registry_has_is_none(published):
    made = published(1)
    assert pulled("another") is pulled("model@2") is pulled(f"model@sha256:{'0' * 64}") is None
    with pytest.raises(ZooError, match="there is no published model `model@2`: looked for") as told:
        find.published_model("model@2")
    assert f"in `{made.address}`, which has revision 1 of `model`" in told.value.problem
    published(2)
    for pin in ("3", f"sha256:{'0' * 64}"):
        with pytest.raises(ZooError, match=f"in `{made.address}`, which has revisions 1 to 2 of `model`"):
            find.published_model(f"model@{pin}")
    for look in (find.model, find.published_model, lambda name: find.pull_model(name, Report())):
        with pytest.raises(ZooError) as told:
            look("modle")
        assert "did you mean `model`?" in str(told.value.hint)


def test_a_web_server_is_pulled_from_in_parts(published, web, monkeypatch):
    published(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    web.breaks = [10_000, 1, 5_000]
    assert seed_of(pulled("model")) == 1
    assert [wanted for path, wanted in web.asked if "blobs" in path and wanted] != []


@pytest.mark.parametrize("break_at", [0, 1, 29_999])
def test_a_pull_goes_on_from_what_has_arrived(published, web, monkeypatch, break_at):
    made = published(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    monkeypatch.setattr("zoo.files.transfer._TRIES", 1)
    file = made.newest("model").files["weights.safetensors"]
    whole = (made.place.folder / "blobs/sha256" / file.sha256).read_bytes()
    (folder,) = [storage.pulls() / f"model@{made.newest('model').digest}"]
    folder.mkdir(parents=True)
    (folder / "weights.safetensors.partial").write_bytes(whole[:break_at])
    assert seed_of(pulled("model")) == 1
    ranges = [wanted for path, wanted in web.asked if file.sha256 in path]
    assert ranges == [f"bytes={break_at}-" if break_at else None]


def test_what_had_arrived_wrongly_is_fetched_anew(published, report):
    made = published(1)
    folder = storage.pulls() / f"model@{made.newest('model').digest}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors.partial").write_bytes(b"x" * 100)
    (folder / "vocabulary.model").write_bytes(b"y")
    assert seed_of(pulled("model", report)) == 1
    assert len(report.warnings) == 1
    assert "weights.safetensors" in report.warnings[0]


@pytest.mark.parametrize("change", ["flipped", "cut", "longer", "gone"])
@pytest.mark.parametrize("kind", ["folder", "web"])
def test_a_changed_blob_is_refused_and_nothing_appears(published, web, monkeypatch, home, change, kind):
    made = published(1)
    if kind == "web":
        monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    file = made.place.folder / "blobs/sha256" / made.newest("model").files["weights.safetensors"].sha256
    content = file.read_bytes()
    changed = {"flipped": bytes([content[0] ^ 1]) + content[1:], "cut": content[:-1], "longer": content + b"x"}
    file.write_bytes(changed.get(change, b""))
    if change == "gone":
        file.unlink()
    with pytest.raises(ZooError) as told:
        pulled("model")
    assert told.value.exit_code == 1
    assert "pull another" in str(told.value.hint) or (kind, change) == ("web", "longer")
    assert ("is missing" in told.value.problem) is (change == "gone")
    assert not (home / "shelf").exists()


def test_a_manifest_that_lists_other_files_is_refused(published, home):
    made = published(1)
    file = made.place.folder / "models/model/1.json"
    said = json.loads(file.read_text())
    said["files"]["extra.txt"] = said["files"]["spec.yaml"]
    file.write_text(json.dumps(said))
    with pytest.raises(ZooError, match="its manifest lists other files"):
        pulled("model")
    assert not (home / "shelf").exists()


def test_a_model_that_was_made_here_is_not_replaced(published, bundle, home, report):
    published(1, 2)
    bundle(9).rename(home.joinpath("shelf").mkdir(parents=True) or home / "shelf" / "model")
    with pytest.raises(ZooError, match="was published here") as told:
        pulled("model")
    assert "zoo remove model" in str(told.value.hint)
    assert seed_of(find.published_model("model")) == 9
    assert seed_of(find.published_model("model@2")) == 2
    assert seed_of(find.published_model("model")) == 9


def test_what_was_published_from_here_is_recognised(published, bundle, home):
    made = published(1)
    bundle(1, 30_001).rename(home.joinpath("shelf").mkdir(parents=True) or home / "shelf" / "model")
    publishing.publish(made, "model", home / "shelf" / "model", made.newest("model").summary, Report())
    assert read_origin(home / "shelf" / "model") is None
    assert pulled("model") == home / "shelf" / "model"
    assert read_origin(home / "shelf" / "model").revision == 2


@pytest.mark.parametrize("change", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("name", ["weights.safetensors", "spec.yaml", manifest.NAME])
def test_what_is_damaged_here_is_fetched_anew(published, report, change, name):
    made = published(1)
    file = pulled("model") / name
    content = file.read_bytes()
    file.write_bytes({"flipped": content[:-2] + b"~" + content[-1:]}.get(change, content[:-1]))
    if change == "gone":
        file.unlink()
    folder = pulled("model", report)
    assert seed_of(folder) == 1
    assert bundle_digest(folder) == made.newest("model").digest
    assert len(report.warnings) == (name != manifest.NAME)
    assert pulled("model", report) == folder
    assert [line.partition(" ")[0] for line in report.said] == ["`model@1`", "`model@1`"]
    assert report.said[0] == f"`model@1` from `{made.address}`"
    assert report.said[1] == f"`model@1` of `{made.address}` is here already, and whole"


def test_a_home_that_is_read_only_is_told(published, home):
    published(1)
    home.write_text("no folder")
    with pytest.raises(ZooError, match="pulls` cannot be written") as told:
        pulled("model")
    assert "ZOO_HOME" in str(told.value.hint)


def test_files_that_are_here_are_not_fetched(published, web, monkeypatch):
    published(1, 2)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    pulled("model@1")
    web.asked.clear()
    pulled("model")
    fetched = [path for path, _ in web.asked if "blobs" in path]
    assert len(fetched) == 3, "the vocabulary is the one of revision 1"


def test_a_damaged_file_that_is_here_is_not_taken(published):
    published(1, 2)
    (pulled("model@1") / "vocabulary.model").write_bytes(b"the SAME in all")
    assert seed_of(pulled("model")) == 2


def test_an_old_name_leads_to_the_new_one_with_a_warning(published, report, monkeypatch, home):
    publishing.create_alias(published(1), "old", "model")
    assert find.published_model("old", report) == home / "shelf" / "model"
    assert report.warnings == ["`old` is called `model` now: write that name"]
    monkeypatch.delenv("ZOO_REGISTRIES")
    assert find.published_model("old", report) == home / "shelf" / "model", "known without the registry, too"
    assert len(report.warnings) == 2
    assert local_store.names() == ["model"]


def test_names_that_lead_to_one_another_end(published, report):
    made = published(1)
    publishing.create_alias(made, "one", "two")
    publishing.create_alias(made, "two", "one")
    with pytest.raises(ZooError, match="without end"):
        pulled("one", report)


def test_revisions_of_an_old_name_can_still_be_pinned(published):
    made = published(1, name="old")
    published(2, name="new")
    publishing.create_alias(made, "old", "new")
    assert seed_of(pulled("old@1")) == 1
    assert seed_of(pulled("old")) == 2


def test_the_first_registry_that_has_it_is_taken(published, tmp_path, bundle, summary, monkeypatch, report):
    published(1)
    second = open_registry(str(tmp_path / "second"))
    for name in ("model", "other"):
        publishing.publish(second, name, bundle(5, 10 + len(name)), summary, report)
    monkeypatch.setenv("ZOO_REGISTRIES", f"{tmp_path}/nothing {tmp_path}/registry {tmp_path}/second")
    assert seed_of(pulled("model")) == 1
    assert seed_of(pulled("other")) == 5


def test_a_registry_that_fails_is_warned_of_and_the_next_is_asked(published, tmp_path, web, monkeypatch, report):
    published(1)
    monkeypatch.setattr("zoo.files.transfer._TRIES", 1)
    monkeypatch.setenv("ZOO_REGISTRIES", f"http://127.0.0.1:1/x {tmp_path}/registry")
    assert seed_of(pulled("model", report)) == 1
    assert len(report.warnings) == 1
    with pytest.raises(ZooError, match="could not be fetched"):
        pulled("another", report)


def test_offline_nothing_outside_is_asked(published, web, monkeypatch):
    published(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match=f"and not in `{web.address}`: ZOO_OFFLINE forbids it"):
        find.published_model("model")
    assert web.asked == []
    monkeypatch.delenv("ZOO_OFFLINE")
    find.published_model("model")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    web.asked.clear()
    assert seed_of(find.published_model("model")) == seed_of(find.published_model("model@1")) == 1
    assert web.asked == []


def test_a_disk_that_is_full_is_told_before_anything_is_fetched(published, monkeypatch, home):
    made = published(1)
    file = made.place.folder / "models/model/1.json"
    said = json.loads(file.read_text())
    said["files"]["weights.safetensors"]["bytes"] = 10**14
    file.write_text(json.dumps(said))
    with pytest.raises(ZooError, match=r"`model@1` needs 100\.0 TB in"):
        pulled("model")


@pytest.mark.parametrize("damaged", [False, True])
def test_room_is_asked_for_what_has_to_be_fetched(published, monkeypatch, damaged):
    """A file with the content of one that is here takes none, unless that one is damaged; nor what has arrived."""
    files = published(1, 2).newest("model").files
    old = pulled("model@1")
    if damaged:
        (old / "vocabulary.model").write_bytes(b"the SAME in all")
    folder = storage.pulls() / f"model@{open_registry(os.environ['ZOO_REGISTRIES']).newest('model').digest}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors.partial").write_bytes(b"x" * 1000)
    asked = []
    monkeypatch.setattr(pull_module, "require_space", lambda folder, needed, what: asked.append(needed))
    assert seed_of(pulled("model")) == 2
    here = 0 if damaged else files["vocabulary.model"].bytes
    assert asked == [sum(file.bytes for file in files.values()) - here - 1000]


PULLS = "from zoo.models.find import published; from zoo.report import PlainReport; print(published('model', PlainReport()))"


def test_processes_that_ask_at_once_share_one_download(published, web, monkeypatch):
    made = published(1, size=3_000_000)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    several = [
        subprocess.Popen([sys.executable, "-c", PULLS], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert {process.communicate()[0].strip() for process in several} == {str(storage.models() / "model")}
    fetched = [path for path, _ in web.asked if "blobs" in path]
    assert len(fetched) == len(set(fetched)) == len(made.newest("model").files)


def test_a_digest_is_of_all_of_a_bundle(published, home):
    made = published(1)
    folder = pulled("model")
    assert bundle_digest(folder) == made.newest("model").digest
    assert local_store.find_revision(Reference("model", digest=bundle_digest(folder))) == folder


def test_what_is_published_here_while_a_pull_goes_on_is_not_lost(published, home, bundle, monkeypatch):
    published(1)

    def meanwhile(found, path, file, report, arrive=pull_module._arrive):
        arrive(found, path, file, report)
        if path.name == manifest.NAME:
            shutil.copytree(bundle(7, 100), home / "shelf" / "model", dirs_exist_ok=True)

    monkeypatch.setattr(pull_module, "_arrive", meanwhile)
    with pytest.raises(ZooError, match="was published here"):
        pulled("model")
    assert seed_of(home / "shelf" / "model") == 7


def test_a_number_that_two_registries_gave_to_others_is_refused(published, home, tmp_path, bundle, summary):
    published(1, 2)
    first = pulled("model@2")
    other = open_registry(str(tmp_path / "other"))
    for seed in (5, 6):
        publishing.publish(other, "model", bundle(seed, 100), summary, Report())
    bundle_digest = other.newest("model").digest
    second = local_store.pinned_path("model", bundle_digest)
    shutil.copytree(bundle(6, 100), second)
    origin_of(other.newest("model"), other.address).write(second)
    assert local_store.find_revision(parse_reference(f"model@sha256:{bundle_digest}")) == second != first
    with pytest.raises(ZooError, match="both are here"):
        local_store.find_revision(parse_reference("model@2"))
