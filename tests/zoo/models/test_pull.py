"""A pulled model is complete, is what was published, and is downloaded once."""

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
from zoo.models.local_store import bundle_digest, read_origin, write_origin
from zoo.models.pull import pull
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import parse_reference
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
    return pull(parse_reference(text), report or Report())


def store_bundle(folder):
    storage.models().mkdir(parents=True)
    return folder.rename(storage.models() / "model")


def test_the_newest_revision_is_pulled_under_its_name(publish, home):
    registry = publish(1, 2)
    folder = pull_by("model")
    assert folder == home / "models" / "model"
    assert seed_of(folder) == 2
    assert local_store.names() == ["model"]
    assert read_origin(folder).model_dump() == {
        "registry": registry.address,
        "name": "model",
        "revision": 2,
        "digest": registry.newest("model").digest,
    }
    assert list(storage.pulls().glob("[!.]*")) == []


def test_a_model_in_the_store_is_used_until_it_is_pulled_again(publish):
    publish(1)
    assert seed_of(find.published_model("model")) == 1
    publish(2)
    assert seed_of(find.published_model("model")) == 1
    assert seed_of(pull_by("model")) == 2
    assert seed_of(find.published_model("model")) == 2


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
    with pytest.raises(ZooError, match="there is no published model `model@2`: searched") as raised:
        find.published_model("model@2")
    assert f"`{registry.address}` (which has revision 1 of `model`)" in raised.value.problem
    publish(2)
    with pytest.raises(ZooError, match="which has revisions 1 to 2 of `model`"):
        find.published_model("model@3")
    for look_up in (find.model, find.published_model, lambda name: find.pull_model(name, Report())):
        with pytest.raises(ZooError) as raised:
            look_up("modle")
        assert "did you mean `model`?" in str(raised.value.hint)


def test_a_broken_download_is_resumed(publish, web, monkeypatch):
    registry = publish(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    web.breaks = [10_000, 1, 5_000]
    assert seed_of(pull_by("model")) == 1
    assert [wanted for path, wanted in web.asked if "blobs" in path and wanted] != []
    file = registry.newest("model").files["weights.safetensors"]
    content = (registry.store.folder / "blobs/sha256" / file.sha256).read_bytes()
    downloads = storage.pulls() / f"model@{registry.newest('model').digest}"
    for offset in (0, 1, 29_999):
        shutil.rmtree(storage.models())
        web.asked.clear()
        downloads.mkdir(parents=True)
        (downloads / "weights.safetensors.partial").write_bytes(content[:offset])
        assert seed_of(pull_by("model")) == 1
        ranges = [wanted for path, wanted in web.asked if file.sha256 in path]
        assert ranges == [f"bytes={offset}-" if offset else None]


def test_a_partial_download_with_wrong_content_is_started_again(publish, report):
    registry = publish(1)
    downloads = storage.pulls() / f"model@{registry.newest('model').digest}"
    downloads.mkdir(parents=True)
    (downloads / "weights.safetensors.partial").write_bytes(b"x" * 100)
    (downloads / "vocabulary.model").write_bytes(b"y")
    assert seed_of(pull_by("model", report)) == 1
    assert len(report.warnings) == 1
    assert "weights.safetensors" in report.warnings[0]


def change_file(file, change):
    if change == "removed":
        file.unlink()
    else:
        file.write_bytes(CHANGES[change](file.read_bytes()))


CHANGES = {"flipped": lambda c: bytes([c[0] ^ 1]) + c[1:], "cut": lambda c: c[:-1], "longer": lambda c: c + b"x"}


@pytest.mark.parametrize("change", [*CHANGES, "removed"])
@pytest.mark.parametrize("kind", ["folder", "web"])
def test_a_changed_blob_is_refused_and_nothing_is_stored(publish, web, monkeypatch, home, change, kind):
    registry = publish(1)
    if kind == "web":
        monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    file = registry.store.folder / "blobs/sha256" / registry.newest("model").files["weights.safetensors"].sha256
    change_file(file, change)
    with pytest.raises(ZooError) as raised:
        pull_by("model")
    assert raised.value.exit_code == 1
    assert "pull another" in str(raised.value.hint) or (kind, change) == ("web", "longer")
    assert ("is missing" in raised.value.problem) is (change == "removed")
    assert not (home / "models").exists()


def test_a_revision_with_other_files_than_its_manifest_is_refused(publish, home):
    file = publish(1).store.folder / "models/model/1.json"
    revision = json.loads(file.read_text())
    revision["files"]["extra.txt"] = revision["files"]["spec.yaml"]
    file.write_text(json.dumps(revision))
    with pytest.raises(ZooError, match="the manifest and the revision list different files"):
        pull_by("model")
    assert not (home / "models").exists()


def test_a_model_that_was_published_here_is_not_replaced(publish, bundle):
    publish(1, 2)
    store_bundle(bundle(9))
    with pytest.raises(ZooError, match="was published on this machine") as raised:
        pull_by("model")
    assert "zoo remove model" in str(raised.value.hint)
    assert seed_of(find.published_model("model@2")) == 2
    assert seed_of(find.published_model("model")) == 9


def test_a_model_that_is_published_here_during_a_pull_is_not_lost(publish, home, bundle, monkeypatch):
    publish(1)
    download = pull_module._download_file

    def publish_meanwhile(found, path, file, report):
        download(found, path, file, report)
        if path.name == manifest.NAME:
            shutil.copytree(bundle(7, 100), home / "models" / "model", dirs_exist_ok=True)

    monkeypatch.setattr(pull_module, "_download_file", publish_meanwhile)
    with pytest.raises(ZooError, match="was published on this machine"):
        pull_by("model")
    assert seed_of(home / "models" / "model") == 7


def test_a_bundle_in_the_store_that_a_registry_has_gets_its_number(publish, bundle):
    registry = publish(1)
    folder = store_bundle(bundle(1, 30_001))
    registry.publish("model", folder, registry.newest("model").summary, Report())
    assert read_origin(folder) is None
    assert pull_by("model") == folder
    assert read_origin(folder).revision == 2


@pytest.mark.parametrize("change", ["flipped", "cut", "removed"])
@pytest.mark.parametrize("name", ["weights.safetensors", manifest.NAME])
def test_a_damaged_model_in_the_store_is_downloaded_again(publish, report, change, name):
    registry = publish(1)
    change_file(pull_by("model") / name, change)
    folder = pull_by("model", report)
    assert seed_of(folder) == 1
    assert bundle_digest(folder) == registry.newest("model").digest
    assert len(report.warnings) == (name != manifest.NAME)
    assert pull_by("model", report) == folder
    assert report.said == [
        f"pulling `model@1` from `{registry.address}`",
        f"`model@1` of `{registry.address}` was already pulled and is complete",
    ]


def test_files_of_other_revisions_are_reused_unless_they_are_damaged(publish, web, monkeypatch):
    publish(1, 2)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    old = pull_by("model@1")
    for damaged in (False, True):
        if damaged:
            shutil.rmtree(storage.models() / "model")
            (old / "vocabulary.model").write_bytes(b"the SAME in all")
        web.asked.clear()
        assert seed_of(pull_by("model")) == 2
        assert len([path for path, _ in web.asked if "blobs" in path]) == 3 + damaged


def test_registries_are_searched_in_order_and_unreachable_ones_are_warned_of(
    publish, tmp_path, bundle, summary, web, monkeypatch, report
):
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
    with pytest.raises(ZooError, match="could not be downloaded"):
        pull_by("another", report)


def test_offline_only_the_store_is_used(publish, web, monkeypatch):
    publish(1)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(ZooError, match=f"`{web.address}` was not searched because of ZOO_OFFLINE"):
        find.published_model("model")
    assert web.asked == []
    monkeypatch.delenv("ZOO_OFFLINE")
    find.published_model("model")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    web.asked.clear()
    assert seed_of(find.published_model("model")) == seed_of(find.published_model("model@1")) == 1
    assert web.asked == []


def test_a_full_disk_and_a_data_folder_that_is_a_file_are_errors(publish, home):
    file = publish(1).store.folder / "models/model/1.json"
    content = file.read_text()
    revision = json.loads(content)
    revision["files"]["weights.safetensors"]["bytes"] = 10**14
    file.write_text(json.dumps(revision))
    with pytest.raises(ZooError, match=r"`model@1` needs 100\.0 TB in"):
        pull_by("model")
    file.write_text(content)
    shutil.rmtree(home)
    home.write_text("a file")
    with pytest.raises(ZooError, match="pulls` cannot be written") as raised:
        pull_by("model")
    assert "ZOO_HOME" in str(raised.value.hint)


@pytest.mark.parametrize("damaged", [False, True])
def test_space_is_required_for_the_missing_bytes_only(publish, monkeypatch, damaged):
    registry = publish(1, 2)
    files, old = registry.newest("model").files, pull_by("model@1")
    if damaged:
        (old / "vocabulary.model").write_bytes(b"the SAME in all")
    downloads = storage.pulls() / f"model@{registry.newest('model').digest}"
    downloads.mkdir(parents=True)
    (downloads / "weights.safetensors.partial").write_bytes(b"x" * 1000)
    required = []
    monkeypatch.setattr(pull_module, "require_space", lambda folder, needed, purpose: required.append(needed))
    assert seed_of(pull_by("model")) == 2
    reused = 0 if damaged else files["vocabulary.model"].bytes
    assert required == [sum(file.bytes for file in files.values()) - reused - 1000]


PULL = "from zoo.models.find import published_model; from zoo.report import PlainReport; "
PULL += "print(published_model('model', PlainReport()))"


@pytest.mark.integration
def test_concurrent_processes_share_one_download(publish, web, monkeypatch):
    registry = publish(1, size=3_000_000)
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    processes = [
        subprocess.Popen([sys.executable, "-c", PULL], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert {process.communicate()[0].strip() for process in processes} == {str(storage.models() / "model")}
    fetched = [path for path, _ in web.asked if "blobs" in path]
    assert len(fetched) == len(set(fetched)) == len(registry.newest("model").files)


def test_a_number_of_two_different_models_is_ambiguous(publish, tmp_path, bundle, summary):
    publish(1, 2)
    first = pull_by("model@2")
    other = open_registry(str(tmp_path / "other"))
    for seed in (5, 6):
        other.publish("model", bundle(seed, 100), summary, Report())
    second = local_store.pinned_path("model", other.newest("model").digest)
    shutil.copytree(bundle(6, 100), second)
    write_origin(second, other.newest("model"), other.address)
    with pytest.raises(ZooError, match="both are in the local model store") as raised:
        local_store.find_revision(parse_reference("model@2"))
    assert f"`{first}`" in str(raised.value.hint)
