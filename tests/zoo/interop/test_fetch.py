"""A name of the catalogue is enough: its model is downloaded once, verified, imported and stored."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import Mock

import pytest

import zoo
from tests.public_models import FOLDER, WORDS, add_card, checkpoint, pack
from tests.refusals import refused
from zoo.files import download, storage
from zoo.interop import fetch as fetch_module
from zoo.interop.huggingface.hub import HubModel
from zoo.models import find, local_store
from zoo.models.folder import ModelFolder
from zoo.models.local_store import StoredModel
from zoo.publishing.publish import publish
from zoo.publishing.removal import plan_model_removal
from zoo.report import Report

DICTIONARY = "".join(f"{word} 1\n" for word in WORDS)
WRONG = [{"source": "a b", "target": "something completely different"}]


@pytest.fixture
def archive(web):
    """Serve an archive, and add the card `wmt99` for it."""
    file = web.folder / "blobs" / f"{FOLDER}.tar.bz2"
    pack(file, {"model.pt": checkpoint(1)})
    web.url = f"{web.address}/blobs/{file.name}"
    add_card("wmt99", web.url, licence="MIT", bytes=file.stat().st_size, aliases=["newest"])
    return file


def remove(name="wmt99"):
    fetch_module.remove_path(StoredModel.current(name).folder)


def test_a_model_is_downloaded_once_and_stored_under_its_name(archive, web, report):
    folder = find.model("wmt99", report)
    assert folder == StoredModel.current("wmt99").folder
    facts = ModelFolder(folder).imported
    assert (facts["catalogue"], facts["source"]) == ("wmt99", web.url)
    assert facts["sha256"] == download.recorded_sha256(web.url)
    assert (ModelFolder(folder).spec.licence, ModelFolder(folder).spec.description) == ("MIT", "A small model.")
    assert any("licence: MIT" in text for text in report.said)
    assert any("was recorded" in text for text in report.warnings)
    assert not download.path_of(web.url).exists(), "the archive takes no space beside the model"
    assert not list(storage.pulls().glob("[!.]*"))
    requests = len(web.asked)
    assert find.model("wmt99", report) == find.model("newest", report) == folder
    assert find.pull_model("wmt99", report) == [folder]
    assert len(web.asked) == requests


def test_zoo_load_needs_a_name_only(archive, capsys):
    with pytest.warns(UserWarning, match="could not be verified"):
        translator = zoo.load("wmt99", backend="eager")
    assert translator.translate("a b cc")
    assert "licence: MIT" in capsys.readouterr().err


def test_a_replaced_archive_is_refused(archive, web, report):
    find.model("wmt99", report)
    remove()
    pack(archive, {"model.pt": checkpoint(2)})
    refused(r"had .* at its first download", find.model, "wmt99", report)
    assert local_store.names() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"sha256": "0" * 64}, f"but {'0' * 64} is specified"), ({"files": ["other.pt"]}, r"lists `other\.pt`")],
)
def test_an_archive_needs_the_sha256_and_the_files_of_its_card(archive, web, report, fields, message):
    add_card("wmt99", web.url, **fields)
    refused(message, find.model, "wmt99", report)


def test_a_page_in_place_of_an_archive_is_not_kept(archive, web, report):
    content = archive.read_bytes()
    archive.write_bytes(b"<html>log in first</html>")
    raised = refused("or it is damaged", find.model, "wmt99", report)
    assert raised.hint == f"run `zoo pull wmt99` to download it again from {web.url}"
    archive.write_bytes(content)
    assert find.model("wmt99", report) == StoredModel.current("wmt99").folder


def test_a_download_that_changed_on_the_disk_keeps_its_sha256(archive, web, report):
    fetched = download.fetch(web.url, None, report)
    fetched.path.write_bytes(b"x" * archive.stat().st_size)
    refused("or it is damaged", find.model, "wmt99", report)
    assert download.recorded_sha256(web.url) == fetched.sha256
    assert not fetched.path.exists()


def test_a_full_disk_loses_nothing(archive, web, report, monkeypatch):
    full = OSError(28, "No space left on device", str(storage.models()))
    with monkeypatch.context() as patched:
        patched.setattr(fetch_module, "stage_import", Mock(side_effect=full))
        refused(r"No space left|full", find.model, "wmt99", report)
    find.model("wmt99", report)
    assert len(web.asked) == 1, "the archive is kept for the next attempt"


def test_the_error_says_where_to_put_a_file_that_cannot_be_downloaded(archive, web, report, monkeypatch):
    path, content, url = download.path_of(web.url), archive.read_bytes(), "http://127.0.0.1:9/a.tar.bz2"
    archive.unlink()
    refused(rf"404.*\s+hint: .*save the file as `{path}` and run `zoo pull wmt99`", find.model, "wmt99", report)
    add_card("elsewhere", url)
    message = rf"could not be downloaded.*\s+hint: .*{download.path_of(url)}.*`zoo pull elsewhere`"
    refused(message, find.model, "elsewhere", report)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    requests = len(web.asked)
    raised = refused(f"`{web.url}` has not been downloaded", find.model, "wmt99", report)
    assert f"save the file as `{path}`; then run `zoo pull wmt99` again" in raised.hint
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert find.model("wmt99", report) == StoredModel.current("wmt99").folder
    assert len(web.asked) == requests


def test_documented_translations_are_checked_before_the_model_is_stored(archive, web, report):
    texts = ["a b cc", "dd e f"]
    translations = zoo.load(find.model("wmt99", report), backend="eager").translate(texts)
    remove()
    check = [{"source": text, "target": target} for text, target in zip(texts, translations, strict=True)]
    add_card("wmt99", web.url, check=check)
    find.model("wmt99", report)
    assert "all 2 documented translations are reproduced" in report.said
    remove()
    add_card("wmt99", web.url, check=WRONG)
    refused("does not translate as documented", find.model, "wmt99", report)
    assert local_store.names() == []


def test_an_ensemble_is_several_models(web, report):
    """If they do not translate as documented, none of them is stored, and a stored member of the user is kept."""
    file, files = web.folder / "blobs/ensemble.tar.bz2", ["model1.pt", "model2.pt"]
    pack(file, {name: checkpoint(number) for number, name in enumerate(files, 1)})
    add = partial(add_card, "winner", f"{web.address}/blobs/{file.name}", files=files)
    add(check=WRONG)
    refused("does not translate as documented", find.models, "winner", report)
    assert local_store.names() == []
    add()
    folders = find.models("winner", report)
    assert [folder.name for folder in folders] == ["winner.1", "winner.2"]
    assert zoo.load("winner", backend="eager").translate("a b")
    assert find.model("winner.2", report) == folders[1]
    assert len(web.asked) == 1
    for find_one in (find.model, find.published_model):
        refused("is an ensemble of 2 models, but this operation needs a single model", find_one, "winner", report)
    add(check=WRONG)
    remove("winner.2")
    for kept in folders:
        folders[0].rename(kept)
        refused("does not translate as documented", find.models, "winner", report)
        assert local_store.names() == [kept.name]


def test_a_model_can_be_single_files_for_each_language_pair(web, report):
    folder = web.folder / "ende"
    folder.mkdir(parents=True)
    (folder / "model.pt.gz").write_bytes(gzip.compress(checkpoint(1)))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(DICTIONARY)
    fields = {"files": ["model.pt.gz", "dict.{source}.txt", "dict.{target}.txt"], "languages": {"pairs": "en-de de-en"}}
    add_card("small-{source}-{target}", f"{web.address}/{{source}}{{target}}/", **fields)
    stored = find.model("small-en-de", report)
    assert ModelFolder(stored).spec.corpus.source == "en"
    assert not list(storage.archives().glob("[!.]*.txt"))


def test_a_model_of_ones_own_comes_first(archive, web, report, trained):
    folder = publish(trained().folder, name="wmt99")
    assert find.model("wmt99", report) == folder
    assert not web.asked
    refused("is your own model", find.pull_model, "wmt99", report)


def test_two_calls_at_the_same_time_download_a_model_once(archive, web):
    with ThreadPoolExecutor(2) as threads:  # a lock belongs to an open file, so threads exclude each other, too
        found = list(threads.map(lambda name: find.model(name, Report()), ["wmt99", "newest"]))
    assert found == 2 * [StoredModel.current("wmt99").folder]
    assert len(web.asked) == 1


def test_removing_models_similar_names_and_specs_download_nothing(archive, web, report):
    raised = refused("the public model `wmt99` is not on this machine", plan_model_removal, ["wmt99"])
    assert raised.hint == "run `zoo pull wmt99` to download it"
    refused(r"wmt98.*\s+hint: .*did you mean `wmt99`\?", find.model, "wmt98", report)
    refused(r"there is no trained model for `tiny`.*\s+hint: .*--model", find.of_spec, "tiny", report)
    assert not web.asked


@pytest.fixture
def hub(monkeypatch, web, tmp_path):
    """Replace `huggingface_hub`, which is not what these tests are about, with a folder."""
    folder = tmp_path / "snapshot"
    folder.mkdir()
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(DICTIONARY)
    (folder / "model.pt").write_bytes(checkpoint(1))
    monkeypatch.setattr(HubModel, "download", lambda *_: folder)
    return folder


def test_the_files_of_a_repository_are_held(hub, report):
    add_card("marian-{source}-{target}", "hf:org/{source}-{target}")
    find.model("marian-en-de", report)
    remove("marian-en-de")
    (hub / "README.md").write_text("new words")
    find.model("marian-en-de", report)
    remove("marian-en-de")
    (hub / "model.pt").write_bytes(checkpoint(2))
    refused(r"had .* at its first download", find.model, "marian-en-de", report)


def test_offline_a_repository_can_be_put_by_hand(hub, report, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("ZOO_HOME", str(hub.parent / "home"))
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    add_card("marian", "hf:org/en-de")
    raised = refused("ZOO_OFFLINE is set", find.model, "marian", report)
    by_hand = storage.archives() / "org--en-de"
    assert f"`{by_hand}` and run `zoo pull marian` again" in raised.hint
    by_hand.parent.mkdir(parents=True, exist_ok=True)
    hub.rename(by_hand)
    assert find.model("marian", report).name == "marian"
