"""A pulled model is complete, is what was published, and is downloaded once."""

import json
import shutil

import pytest

from tests.refusals import refused
from tests.zoo.models.registries.test_kills import start
from zoo.files import manifest, storage
from zoo.files.atomic import link_or_copy
from zoo.models import find, local_store
from zoo.models import pull as pull_module
from zoo.models.local_store import Origin, StoredModel
from zoo.models.pull import pull
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import Reference
from zoo.report import Report


@pytest.fixture
def publish(tmp_path, bundle, summary, monkeypatch):
    """Function that publishes bundles with these seeds as revisions of a model, in the configured registry."""
    monkeypatch.setenv("ZOO_REGISTRIES", str(tmp_path / "registry"))

    def publish(*seeds, name="model", size=30_000):
        registry = open_registry(str(tmp_path / "registry"))
        for seed in seeds:
            registry.publish(name, bundle(seed, size), summary, Report())
        registry.write_index(Report())
        return registry

    return publish


def seed_of(folder):
    manifest.check(folder)
    return int((folder / "spec.yaml").read_text().removeprefix("seed: "))


def pull_by(text, report=None):
    model = pull(Reference.parse(text), report or Report())
    return model and model.folder


def store_bundle(folder):
    storage.models().mkdir(parents=True)
    return folder.rename(storage.models() / "model")


def test_the_newest_revision_is_pulled_under_its_name_and_used_until_it_is_pulled_again(publish, home):
    publish(1)
    assert seed_of(find.published_model("model")) == 1
    registry = publish(2)
    assert seed_of(find.published_model("model")) == 1
    folder = pull_by("model")
    assert find.published_model("model") == folder == home / "models" / "model"
    assert seed_of(folder) == 2
    assert local_store.names() == ["model"]
    newest = {"name": "model", "revision": 2, "digest": registry.newest("model").digest}
    assert StoredModel.at(folder).origin.model_dump() == {"registry": registry.address, **newest}
    assert list(storage.pulls().glob("[!.]*")) == []


def test_pinned_revisions_are_kept_beside_the_current_one(publish, home):
    registry = publish(1, 2, 3)
    assert seed_of(find.published_model("model@1")) == 1
    assert local_store.names() == []
    assert seed_of(find.published_model("model")) == 3
    digest = registry.revision("model", 2).digest
    assert seed_of(find.published_model("model@2")) == 2
    assert (home / "models" / f"model@{digest[:16]}").is_dir()
    for text, seed in (("model@1", 1), ("model@2", 2), ("model", 3), ("model@3", 3)):
        assert seed_of(find.local_model(text)) == seed
    assert pull_by("model@3") == home / "models" / "model"
    assert len(list((home / "models").iterdir())) == 3


def test_a_missing_model_is_an_error_that_lists_what_registries_have(publish):
    registry = publish(1)
    assert pull_by("another") is pull_by("model@2") is None
    error = refused("there is no published model `model@2` in any of these places: ", find.published_model, "model@2")
    assert f"`{registry.address}` (which has revision 1 of `model`)" in error.problem
    publish(2)
    refused("which has revisions 1 to 2 of `model`", find.published_model, "model@3")
    for look_up in (find.model, find.published_model, lambda name: find.pull_model(name, Report())):
        assert "did you mean `model`?" in refused("modle", look_up, "modle").hint


def blob(registry, name="weights.safetensors"):
    """Return the path of the newest revision's file."""
    return registry.store.folder / "blobs/sha256" / registry.newest("model").files[name].sha256


def start_download(registry, content):
    """Write the beginning of the weights, as an interrupted download leaves it. Return its folder."""
    folder = storage.pulls() / f"model@{registry.newest('model').digest}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors.partial").write_bytes(content)
    return folder


def test_a_broken_download_is_resumed(publish, web, monkeypatch):
    registry = publish(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    weights = blob(registry)
    for offset in (0, 1, 29_999):
        web.asked.clear()
        start_download(registry, weights.read_bytes()[:offset])
        assert seed_of(pull_by("model")) == 1
        ranges = [wanted for path, wanted in web.asked if weights.name in path]
        assert ranges == [f"bytes={offset}-" if offset else None]
        shutil.rmtree(storage.models())


def test_a_partial_download_with_wrong_content_is_started_again(publish, report):
    (start_download(publish(1), b"x" * 100) / "vocabulary.model").write_bytes(b"y")
    assert seed_of(pull_by("model", report)) == 1
    assert ["weights.safetensors" in warning for warning in report.warnings] == [True]


def change_file(file, change):
    content = file.read_bytes()
    changed = {"flipped": bytes([content[0] ^ 1]) + content[1:], "cut": content[:-1], "longer": content + b"x"}
    file.unlink()
    if change != "removed":
        file.write_bytes(changed[change])


@pytest.mark.parametrize("change", ["flipped", "cut", "longer", "removed"])
@pytest.mark.parametrize("kind", ["folder", "web"])
def test_a_changed_blob_is_refused_and_nothing_is_stored(publish, web, monkeypatch, home, change, kind):
    registry = publish(1)
    if kind == "web":
        monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    change_file(blob(registry), change)
    error = refused(None, pull_by, "model")
    assert error.exit_code == 1
    assert "pull another" in str(error.hint) or (kind, change) == ("web", "longer")
    assert ("is missing" in error.problem) is (change == "removed")
    assert not (home / "models").exists()


def change_revision(registry, change):
    file = registry.store.folder / "models/model/1.json"
    revision = json.loads(file.read_text())
    change(revision["files"])
    file.write_text(json.dumps(revision))


def test_a_revision_with_other_files_than_its_manifest_is_refused(publish, home):
    change_revision(publish(1), lambda files: files.update({"extra.txt": files["spec.yaml"]}))
    refused("the files in its manifest are not the files of the revision", pull_by, "model")
    assert not (home / "models").exists()


def test_a_model_that_was_published_here_is_not_replaced(publish, bundle):
    publish(1, 2)
    store_bundle(bundle(9))
    assert "zoo remove model" in refused("was published on this machine", pull_by, "model").hint
    assert seed_of(find.published_model("model@2")) == 2
    assert seed_of(find.published_model("model")) == 9


def test_a_model_that_is_published_here_during_a_pull_is_not_lost(publish, home, bundle, monkeypatch):
    publish(1)
    download = pull_module._Pull.download

    def publish_meanwhile(one, path, file):
        download(one, path, file)
        if path.name == manifest.NAME:
            shutil.copytree(bundle(7, 100), home / "models" / "model", dirs_exist_ok=True)

    monkeypatch.setattr(pull_module._Pull, "download", publish_meanwhile)
    refused("was published on this machine", pull_by, "model")
    assert seed_of(home / "models" / "model") == 7


def test_a_bundle_in_the_store_that_a_registry_has_gets_its_number(publish, bundle):
    registry = publish(1)
    folder = store_bundle(bundle(1, 30_001))
    registry.publish("model", folder, registry.newest("model").summary, Report())
    assert StoredModel.at(folder).origin is None
    assert find.pull_model("model", Report()) == [folder]
    assert StoredModel.at(folder).origin.revision == 2


@pytest.mark.parametrize("change", ["flipped", "cut", "removed"])
@pytest.mark.parametrize("name", ["weights.safetensors", manifest.NAME])
def test_a_damaged_model_in_the_store_is_downloaded_again(publish, report, change, name):
    registry = publish(1)
    change_file(pull_by("model") / name, change)
    folder = pull_by("model", report)
    assert seed_of(folder) == 1
    assert StoredModel.at(folder).digest == registry.newest("model").digest
    assert len(report.warnings) == (name != manifest.NAME)
    assert pull_by("model", report) == folder
    complete = f"`model@1` of `{registry.address}` is already in the local model store and is complete"
    assert report.said == [f"pulling `model@1` from `{registry.address}`", complete]


@pytest.mark.parametrize("damaged", [False, True])
def test_space_is_required_and_files_are_downloaded_for_the_missing_bytes_only(publish, web, monkeypatch, damaged):
    """Files of other revisions are used again, unless they are damaged."""
    registry, required = publish(1, 2), []
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    files, old = registry.newest("model").files, pull_by("model@1")
    if damaged:  # while it is linked

        def link(source, target):
            link_or_copy(source, target) if source.parent != old else target.write_bytes(b"the SAME in all")

        monkeypatch.setattr(pull_module, "link_or_copy", link)
    start_download(registry, blob(registry).read_bytes()[:1000])
    web.asked.clear()
    monkeypatch.setattr(pull_module, "require_space", lambda folder, needed, purpose: required.append(needed))
    assert seed_of(pull_by("model")) == 2
    reused = 0 if damaged else files["vocabulary.model"].bytes
    assert required == [sum(file.bytes for file in files.values()) - reused - 1000]
    assert len([path for path, _ in web.asked if "blobs" in path]) == 3 + damaged


def test_registries_are_searched_in_order_with_warnings(publish, tmp_path, bundle, summary, web, monkeypatch, report):
    publish(1)
    second = open_registry(str(tmp_path / "second"))
    for name in ("model", "other"):
        second.publish(name, bundle(5, 10 + len(name)), summary, report)
    monkeypatch.setenv("ZOO_REGISTRIES", f"{tmp_path}/nothing {tmp_path}/registry {tmp_path}/second")
    assert seed_of(pull_by("model")) == 1
    assert seed_of(pull_by("other")) == 5
    monkeypatch.setenv("ZOO_REGISTRIES", f"http://127.0.0.1:1/x {tmp_path}/registry")
    assert seed_of(pull_by("model", report)) == 1
    assert len(report.warnings) == 1
    refused("could not be downloaded", pull_by, "another", report)


def test_offline_only_the_store_is_used(publish, web, monkeypatch, report):
    publish(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    refused(f"`{web.address}` was not searched because ZOO_OFFLINE is set", find.published_model, "model")
    assert web.asked == []
    monkeypatch.delenv("ZOO_OFFLINE")
    find.published_model("model")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    web.asked.clear()
    assert seed_of(find.published_model("model")) == seed_of(find.published_model("model@1")) == 1
    assert find.pull_model("model", report) == [find.local_model("model")]
    assert report.said[-1] == "`model` is already in the local model store, so nothing was pulled"
    assert report.warnings == [f"`{web.address}` was not searched because ZOO_OFFLINE is set"]
    assert web.asked == []


def test_a_full_disk_and_a_data_folder_that_is_a_file_are_errors(publish, home):
    registry = publish(1)
    change_revision(registry, lambda files: files["weights.safetensors"].update(bytes=10**14))
    refused(r"`model@1` needs 100\.0 TB in", pull_by, "model")
    change_revision(registry, lambda files: files["weights.safetensors"].update(bytes=1))
    shutil.rmtree(home)
    home.write_text("a file")
    assert "ZOO_HOME" in refused("pulls` cannot be written", pull_by, "model").hint


@pytest.mark.integration
def test_concurrent_processes_share_one_download(publish, web, monkeypatch):
    registry = publish(1, size=3_000_000)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    processes = [start("pull", "model") for _ in range(2)]
    assert {process.communicate()[0] for process in processes} == {f"started\n{storage.models() / 'model'}\n"}
    fetched = [path for path, _ in web.asked if "blobs" in path]
    assert len(fetched) == len(set(fetched)) == len(registry.newest("model").files)


def test_a_number_of_two_different_models_is_ambiguous(publish, tmp_path, bundle, summary):
    publish(1, 2)
    first = pull_by("model@2")
    other = open_registry(str(tmp_path / "other"))
    for seed in (5, 6):
        other.publish("model", bundle(seed, 100), summary, Report())
    second = StoredModel.current("model").pinned(other.newest("model").digest).folder
    shutil.copytree(bundle(6, 100), second)
    Origin.of(other.newest("model"), other.address).write(second)
    error = refused("both are in the local model store", local_store.find, Reference.parse("model@2"))
    assert f"`{first}`" in error.hint
