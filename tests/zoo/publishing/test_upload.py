"""`zoo publish --to`, `zoo.describe`, `zoo remove`: real models between shelf and registry."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo
from specs import ZooError
from zoo.files import manifest
from zoo.models import find, local_store
from zoo.models.local_store import read_origin
from zoo.models.registries.registry import open_registry
from zoo.publishing import inventory, upload
from zoo.publishing.publish import publish
from zoo.publishing.removal import plan_model_removal
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.training.run import Run

NAME = "transformer-tiny-ende"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty registry that is asked."""
    monkeypatch.setenv("ZOO_REGISTRIES", str(tmp_path / "registry"))
    return str(tmp_path / "registry")


@pytest.fixture
def published(trained: Callable[..., Run], place: str) -> Path:
    """A real model on the shelf, and in the registry as its first revision."""
    folder = publish(trained().folder)
    assert upload.upload(folder, place).pin == f"{NAME}@1"
    return folder


def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another user's home, empty."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    return tmp_path / "another"


@pytest.mark.parametrize("damage", ["no proof", "other weights", "no scores", "no manifest"])
def test_what_does_not_prove_itself_is_published_nowhere(trained: Callable[..., Run], place: str, damage: str) -> None:
    folder = publish(trained().folder)
    if damage == "other weights":
        content = bytearray((folder / "weights.safetensors").read_bytes())
        content[-1] ^= 1
        (folder / "weights.safetensors").write_bytes(content)
        manifest.write(folder)
    else:
        gone = {"no proof": "proof.safetensors", "no scores": "scores.json", "no manifest": "manifest.json"}[damage]
        (folder / gone).unlink()
        if damage != "no manifest":
            manifest.write(folder)
    with pytest.raises(ZooError):
        upload.upload(folder, place)
    assert not (Path(place) / "models").exists()
    assert not (Path(place) / "blobs").exists()


def test_where_it_is_published_is_known_on_the_shelf(published: Path, place: str, trained: Callable[..., Run]) -> None:
    known = read_origin(published)
    assert known is not None
    assert (known.registry, known.revision) == (place, 1)
    assert find.local_model(f"{NAME}@1") == find.local_model(f"{NAME}@sha256:{known.digest}") == published
    assert upload.upload(NAME, place).revision == 1, "the same is no new revision"
    verify(NAME)
    publish(trained("runs/second", training={"seed": 2}).folder, replace=True)
    assert read_origin(published) is None
    assert upload.upload(NAME, place).revision == 2


def test_what_is_published_elsewhere_keeps_its_number(
    published: Path, place: str, trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(trained("runs/second", training={"seed": 2}).folder, replace=True)
    upload.upload(NAME, place)
    elsewhere(tmp_path, monkeypatch)
    pinned = find.published_model(f"{NAME}@2")
    assert upload.upload(f"{NAME}@2", str(tmp_path / "other")).revision == 1
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert find.local_model(f"{NAME}@2") == pinned


def test_an_old_name_leads_to_it(published: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload.upload(NAME, place, formerly="tiny-of-before")
    elsewhere(tmp_path, monkeypatch)
    for look in (zoo.describe, find.published_model, zoo.load):
        with pytest.warns(UserWarning, match=f"`tiny-of-before` is called `{NAME}` now") as warned:
            assert look("tiny-of-before")
        assert [each.filename for each in warned] == [__file__], "the caller's line is shown"
    for old in (NAME, "../x"):
        with pytest.raises(ZooError, match=r"cannot be the name|would lead to itself"):
            upload.upload(NAME, place, formerly=old)


def test_the_page_of_a_registry_has_its_models(published: Path, place: str) -> None:
    made = upload.upload(NAME, place)
    page = (Path(place) / "index.html").read_text(encoding="utf-8")
    assert NAME in page
    assert made.digest[:12] in page


def test_a_description_is_the_same_before_it_is_pulled_and_after(
    published: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = zoo.describe(NAME)
    elsewhere(tmp_path, monkeypatch)
    there = zoo.describe(NAME)
    assert local_store.names() == []
    assert (here.folder, there.folder) == (published, None)
    for found in (here, there):
        assert (found.name, found.revision, found.registry) == (NAME, 1, place)
        assert found.digest == open_registry(place).newest(NAME).digest  # type: ignore[union-attr]
        assert found.spec == here.spec
        assert found.scores["dev"]["bleu"] == 12.345
        assert found.files["weights.safetensors"] == (published / "weights.safetensors").stat().st_size
        assert found.parameters == sum(each.numel() for each in weights_of(published).values())
    assert here.files == there.files
    with pytest.raises(ZooError, match="there is no published model `another`: looked for"):
        zoo.describe("another")


def weights_of(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "weights.safetensors")


@pytest.mark.parametrize("file", ["spec.yaml", "scores.json"])
def test_a_description_of_what_is_damaged_is_refused(
    published: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    sha = open_registry(place).newest(NAME).files[file].sha256  # type: ignore[union-attr]
    (Path(place) / "blobs/sha256" / sha).write_text("name: other")
    elsewhere(tmp_path, monkeypatch)
    with pytest.raises(ZooError, match=f"what it has of `{NAME}@1`'s `{file}` is no such file"):
        zoo.describe(NAME)


def test_the_list_has_shelf_and_registries(
    published: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = inventory.published_models(None, Report())
    assert [(each.name, each.where, each.revision, each.dev) for each in found] == [
        *((NAME, where, 1, 12.345) for where in (inventory.SHELF, place))
    ]
    assert found[0].parameters == found[1].parameters
    assert found[0].digest == found[1].digest
    assert inventory.published_models("*enfr*", Report()) == ()
    elsewhere(tmp_path, monkeypatch)
    find.published_model(f"{NAME}@1")
    assert [each.where for each in inventory.published_models(NAME, Report())] == [inventory.SHELF, place]
    assert inventory.inventory(None, Report()).models == (), "the name alone is not what was pinned"


def test_a_registry_that_cannot_be_reached_hides_nothing(
    published: Path, place: str, monkeypatch: pytest.MonkeyPatch, web: Any
) -> None:
    class Warned(Report):
        def warn(self, text: str) -> None:
            told.append(text)

    told: list[str] = []
    monkeypatch.setenv("ZOO_REGISTRIES", f"http://127.0.0.1:1 {place}")
    assert [each.where for each in inventory.published_models(None, Warned())] == [inventory.SHELF, place]
    assert len(told) == 1
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert len(inventory.published_models(None, Warned())) == 2
    assert told[1:] == ["`http://127.0.0.1:1` is not asked: ZOO_OFFLINE forbids it"]


def test_a_removed_model_is_gone_and_can_be_pulled_again(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan_model_removal([NAME])
    assert [each.path for each in found.removable] == [published]
    assert found.bytes > (published / "weights.safetensors").stat().st_size
    assert found.remove() == []
    assert local_store.names() == []
    assert not published.exists()
    with pytest.raises(ZooError, match=f"there is no published model `{NAME}`"):
        plan_model_removal([NAME])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find.published_model(NAME) == published


def test_what_is_put_there_after_the_question_stays(published: Path, trained: Callable[..., Run]) -> None:
    found = plan_model_removal([NAME])
    publish(trained("runs/second", training={"seed": 2}).folder, replace=True)
    (kept,) = found.remove()
    assert (kept.path, kept.reason) == (published, "another one has been put there")
    verify(NAME)


def test_what_may_not_be_removed_is_told(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("zoo.files.files.remove", lambda path: None)
        (kept,) = plan_model_removal([NAME]).remove()
    assert kept.reason == "not all of it may be removed by this user"
    assert (kept.path / "weights.safetensors").exists()


def test_a_pinned_revision_is_removed_alone(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = elsewhere(tmp_path, monkeypatch)
    find.published_model(f"{NAME}@1")
    find.published_model(NAME)
    (one,) = plan_model_removal([f"{NAME}@1"]).removable
    assert one.path.name.startswith(f"{NAME}@"), "what its name alone means stays"
    both = plan_model_removal([NAME, f"{NAME}@1"]).removable
    assert len(both) == 2
    assert plan_model_removal([NAME]).remove() == []
    assert list((home / "shelf").iterdir()) == []


def test_a_name_that_leads_to_another_is_not_published_under(published: Path, place: str) -> None:
    from_registry = open_registry(place)
    upload.publishing.forward(from_registry, NAME, "another")
    with pytest.raises(ZooError, match=f"`{NAME}` leads to `another`") as told:
        upload.upload(NAME, place, formerly="another")
    assert from_registry.revision(NAME, 2) is None
    assert f"removes its `models/{NAME}/forward.json`" in str(told.value.hint)
    (Path(place) / "models" / NAME / "forward.json").unlink()
    assert upload.upload(NAME, place).revision == 1


def test_what_becomes_of_an_old_name_is_told(
    published: Path, place: str, trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Said(Report):
        def info(self, text: str) -> None:
            told.append(text)

    told: list[str] = []
    new = publish(trained("runs/second").folder, name="new")
    upload.upload(new, place, formerly=NAME, report=Said())
    assert told == [f"`{NAME}` (its 1 revision can still be pinned) leads to `new` now"]
    page = (Path(place) / "index.html").read_text(encoding="utf-8")
    assert 'id="new"' in page
    assert f'id="{NAME}"' not in page
    home = elsewhere(tmp_path, monkeypatch)
    assert [each.name for each in inventory.published_models(None, Report())] == ["new"]
    find.pull_model(NAME, Report())
    assert sorted(each.name for each in (home / "shelf").iterdir()) == sorted(["new", NAME])
    assert plan_model_removal([NAME]).remove() == []
    assert [each.name for each in (home / "shelf").iterdir()] == ["new"]
    with pytest.raises(ZooError, match="there is no published model"):
        plan_model_removal([NAME])


def test_a_shelf_that_takes_no_note_is_warned_of(trained: Callable[..., Run], place: str) -> None:
    class Warned(Report):
        def warn(self, text: str) -> None:
            told.append(text)

    told: list[str] = []
    folder = publish(trained().folder)
    (folder / "revision.json").mkdir()
    assert upload.upload(folder, place, formerly="old", report=Warned()).pin == f"{NAME}@1"
    assert len(told) == 1
    assert f"this shelf does not say that it is `{NAME}@1`" in told[0]
    assert open_registry(place).forward("old") == NAME
    assert NAME in (Path(place) / "index.html").read_text(encoding="utf-8")


def test_a_file_that_no_registry_can_hold_is_told_before_anything_is_sent(published: Path, place: str) -> None:
    (published / "LICENSE").write_text("free")
    manifest.write(published)
    before = sorted(Path(place).rglob("*"))
    with pytest.raises(ZooError, match="has a file `LICENSE`"):
        upload.upload(NAME, place)
    assert sorted(Path(place).rglob("*")) == before


def test_a_description_is_held_to_the_manifest(published: Path) -> None:
    (published / "scores.json").write_text('{"test": {"bleu": 99}}')
    with pytest.raises(ZooError, match=r"scores\.json` is damaged"):
        zoo.describe(NAME)
