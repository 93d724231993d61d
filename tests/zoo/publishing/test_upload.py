"""Models are published to registries, described, listed, pulled and removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.refusals import refused
from tests.zoo.publishing.conftest import NAME
from zoo.files import manifest, storage
from zoo.models import find, local_store
from zoo.models.local_store import StoredModel
from zoo.models.registries.file_stores import MARKER, FolderStore
from zoo.publishing import inventory, publish
from zoo.publishing.removal import plan_model_removal
from zoo.report import Report


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of an empty registry that is configured."""
    monkeypatch.setenv("ZOO_REGISTRIES", str(tmp_path / "registry"))
    return str(tmp_path / "registry")


@pytest.fixture
def published(bundle: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bundle in the local model store that is also the first revision in the registry. Bundles are not verified."""
    monkeypatch.setattr(publish, "verify", lambda *_, **__: None)
    assert publish.upload(bundle, address).pin == f"{NAME}@1"
    return bundle


def switch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use another data folder, which is empty. Return its local model store."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    return storage.models()


def test_a_bundle_that_fails_its_verification_or_has_an_invalid_file_name_is_not_published(
    bundle: Path, address: str
) -> None:
    for name in ("proof.safetensors", "scores.json"):
        content = (bundle / name).read_bytes()
        (bundle / name).unlink()
        manifest.write(bundle)
        refused(name, publish.upload, bundle, address)
        (bundle / name).write_bytes(content)
    (bundle / "LICENSE").write_text("free")
    manifest.write(bundle)
    refused("contains the file `LICENSE`", publish.upload, bundle, address)
    assert not [name for name in ("models", "blobs") if (Path(address) / name).exists()]


def test_the_store_records_the_revision_and_a_pulled_model_keeps_it_when_it_is_published_elsewhere(
    published: Path, address: str, stored: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = StoredModel.at(published).origin
    assert (origin.registry, origin.revision) == (address, 1)
    assert find.local_model(f"{NAME}@1") == published
    assert publish.upload(NAME, address).revision == 1, "the same bundle is no new revision"
    assert NAME in (Path(address) / "index.json").read_text(encoding="utf-8")
    shutil.rmtree(published)
    stored(NAME, training={"seed": 2})
    assert StoredModel.at(published).origin is None
    assert publish.upload(NAME, address).revision == 2
    switch_home(tmp_path, monkeypatch)
    pinned = find.published_model(f"{NAME}@2")
    assert publish.upload(f"{NAME}@2", str(tmp_path / "other")).revision == 1
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert find.local_model(f"{NAME}@2") == pinned


def test_a_store_that_cannot_record_the_revision_is_warned_of(bundle: Path, address: str, report: Any) -> None:
    (bundle / "revision.json").mkdir()
    for checks in (2, 1):  # the first upload creates the registry, and then checks that it cannot be created again
        with mock.patch.object(FolderStore, "write", autospec=True, side_effect=FolderStore.write) as write:
            assert publish.upload(bundle, address, report=report).pin == f"{NAME}@1"
        assert [call.args[1] for call in write.mock_calls].count(MARKER) == checks
    assert report.said.count(f"creating a new registry in the folder `{address}`") == 1
    assert len(report.warnings) == 2
    assert f"the upload of `{NAME}@1` is not recorded in the local model store" in report.warnings[0]
    assert NAME in (Path(address) / "index.json").read_text(encoding="utf-8")


def test_published_models_are_listed_with_their_location(
    published: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Any
) -> None:
    models = inventory.published_models(None, Report())
    assert [model.location for model in models] == [inventory.LOCAL, address]
    assert {(model.name, model.revision, model.dev) for model in models} == {(NAME, 1, 12.345)}
    assert len({(model.parameters, model.digest) for model in models}) == 1
    assert inventory.published_models("*enfr*", Report()) == ()
    monkeypatch.delenv("ZOO_OFFLINE")
    monkeypatch.setattr("zoo.files.transfer.time.sleep", lambda seconds: None)
    monkeypatch.setenv("ZOO_REGISTRIES", f"http://127.0.0.1:1 {address}")
    assert len(inventory.published_models(None, report)) == 2
    assert len(report.warnings) == 1
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert len(inventory.published_models(None, report)) == 2
    assert report.warnings[1:] == ["`http://127.0.0.1:1` was not searched because ZOO_OFFLINE is set"]
    switch_home(tmp_path, monkeypatch)
    find.published_model(f"{NAME}@1")
    assert [model.location for model in inventory.published_models(NAME, Report())] == [inventory.LOCAL, address]
    assert inventory.inventory(None, Report()).models == (), "only a pinned revision is in the store"


def test_a_removed_model_can_be_pulled_again(published: Path) -> None:
    plan = plan_model_removal([NAME])
    assert [item.path for item in plan.removable] == [published]
    assert plan.bytes > (published / "weights.safetensors").stat().st_size
    assert (plan.remove(), local_store.names(), published.exists()) == ([], [], False)
    refused(f"there is no published model `{NAME}`", plan_model_removal, [NAME])
    assert find.published_model(NAME) == published


def test_a_model_is_kept_if_it_was_replaced_or_cannot_be_removed(bundle: Path, stored: Callable[..., Path]) -> None:
    plan = plan_model_removal([NAME])
    bundle.rename(bundle.with_name("older"))  # keeps its inode in use
    stored()
    (kept,) = plan.remove()
    assert (kept.path, kept.reason) == (bundle, "another model was published there in the meantime")
    with mock.patch("zoo.files.atomic.remove_path"):
        (kept,) = plan_model_removal([NAME]).remove()
    assert kept.reason == "you do not have permission to remove all of its files"
    assert (kept.path / "weights.safetensors").exists()


def test_a_pinned_revision_is_removed_alone(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = switch_home(tmp_path, monkeypatch)
    find.published_model(f"{NAME}@1")
    find.published_model(NAME)
    (item,) = plan_model_removal([f"{NAME}@1"]).removable
    assert item.path.name.startswith(f"{NAME}@")
    assert len(plan_model_removal([NAME, f"{NAME}@1"]).removable) == 2
    assert plan_model_removal([NAME]).remove() == []
    assert list(store.iterdir()) == []
