"""A manifest names files inside its folder only, and detects every change."""

import json
from functools import partial

import pytest

from tests.refusals import refused
from zoo.files import manifest

DIGEST = "0" * 64


@pytest.fixture
def folder(tmp_path):
    """Two files and their manifest."""
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "inner" / "two").write_text("22")
    manifest.write(folder)
    return folder


def forbid_opening(monkeypatch):
    for name in ("open_file", "read_bytes"):
        monkeypatch.setattr(manifest, name, lambda path, *_: pytest.fail(f"opened {path}"))


def test_unchanged_files_pass(folder):
    listed = manifest.read(folder)
    assert {name: entry.bytes for name, entry in listed.entries.items()} == {"inner/two": 2, "one": 1}
    assert listed.read_file("one") == b"1"
    listed.check_file("inner/two")
    assert manifest.check(folder)
    assert not manifest.check(folder, hashed_bytes=2)


def test_changed_files_fail(folder):
    listed = manifest.read(folder)
    (folder / "one").write_text("2")
    for check in (listed.read_file, listed.check_file):
        refused("one` is damaged: its SHA-256", check, "one")
    (folder / "one").write_bytes(b"1" * 1500)
    manifest.write(folder)
    (folder / "one").write_bytes(b"1" * 1501)
    refused("it is 1,501 bytes instead of 1,500 bytes", manifest.check, folder, hashed_bytes=2)
    refused("no entry for", listed.read_file, "three")


def test_a_name_that_leads_out_of_the_folder_is_damage(folder, monkeypatch):
    forbid_opening(monkeypatch)
    leading_out = ["/etc/hostname", "../one", "inner/../../one", "..", "."]
    for name in [*leading_out, "", "./one", "inner//two", "\ud800", "a\nb", "\x1b[1m"]:
        (folder / "manifest.json").write_text(json.dumps({name: {"bytes": 1, "sha256": DIGEST}}))
        error = refused(r"manifest.json` is damaged: .* is not a valid file name", manifest.check, folder)
        assert error.summary.isprintable()


def test_an_incomplete_entry_is_damage(folder):
    sizes = [{"bytes": size, "sha256": DIGEST} for size in (True, 1.0, 1e400, "1", -5)]
    digests = [{"bytes": 1, "sha256": digest} for digest in (3, "0")]
    entries = [{}, [], None, 3, "x", {"bytes": 1}, {"sha256": DIGEST}, *sizes, *digests]
    for content in [{"one": entry} for entry in entries] + [{}]:
        (folder / "manifest.json").write_text(json.dumps(content))
        refused(r"manifest.json` is damaged", manifest.check, folder)


@pytest.mark.parametrize("linked", ["one", "inner/two", "inner"])
def test_a_link_out_of_the_folder_is_not_opened(folder, linked, tmp_path, monkeypatch):
    """Its target has the right content here. A link to another file in the folder is accepted."""
    listed = manifest.read(folder)
    (folder / linked).rename(tmp_path / "outside")
    (folder / linked).symlink_to(tmp_path / "outside")
    forbid_opening(monkeypatch)
    name = "one" if linked == "one" else "inner/two"
    for check in (listed.read_file, listed.check_file, partial(listed.check_file, hashed=False)):
        refused(f"folder/{name}` is damaged: it is a link to a file outside its folder", check, name)
    monkeypatch.undo()
    (folder / linked).unlink()
    (tmp_path / "outside").rename(folder / "moved")
    (folder / linked).symlink_to(folder / "moved")
    assert manifest.check(folder, [name])
