"""A manifest leads nowhere but into its folder, and says enough or is damaged."""

import json

import pytest

from specs import ZooError
from zoo.files import manifest
from zoo.files.atomic import write_json

DIGEST = "0" * 64


@pytest.fixture
def folder(tmp_path):
    """Two files and their manifest."""
    place = tmp_path / "folder"
    (place / "inner").mkdir(parents=True)
    (place / "one").write_text("1")
    (place / "inner" / "two").write_text("22")
    manifest.write(place)
    return place


def test_what_was_written_holds(folder):
    listed = manifest.read(folder)
    assert {name: entry.bytes for name, entry in listed.entries.items()} == {"inner/two": 2, "one": 1}
    assert listed.content("one") == b"1"
    listed.hold("inner/two")
    assert manifest.check(folder)
    assert not manifest.check(folder, hashed_bytes=2)


@pytest.mark.parametrize(
    "name",
    ["/etc/hostname", "../one", "inner/../../one", "..", ".", "", "./one", "inner//two", "\ud800", "a\nb", "\x1b[1m"],
)
def test_a_name_that_leads_out_is_damage_and_is_not_opened(folder, name, monkeypatch):
    (folder / "manifest.json").write_text(json.dumps({name: {"bytes": 1, "sha256": DIGEST}}))
    monkeypatch.setattr(manifest, "opened", lambda path: pytest.fail(f"opened {path}"))
    with pytest.raises(ZooError, match=r"manifest.json` is damaged: .* names no file of its folder") as told:
        manifest.check(folder)
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    "entry",
    [
        *({}, [], None, 3, "x", {"bytes": 1}, {"sha256": DIGEST}, {"bytes": True, "sha256": DIGEST}),
        *({"bytes": 1.0, "sha256": DIGEST}, {"bytes": 1e400, "sha256": DIGEST}, {"bytes": 1, "sha256": 3}),
        *({"bytes": 1, "sha256": "0"}, {"bytes": "1", "sha256": DIGEST}),
    ],
)
def test_an_entry_that_does_not_say_enough_is_damage(folder, entry):
    (folder / "manifest.json").write_text(json.dumps({"one": entry}))
    with pytest.raises(ZooError, match=r"manifest.json` is damaged"):
        manifest.check(folder)


@pytest.mark.parametrize("listed", ["one", "inner/two", "inner"])
def test_a_link_out_of_the_folder_is_refused_unread(folder, listed, tmp_path, monkeypatch):
    """Whatever it leads to: it has the right content here. One that stays within is as good as a file."""
    whole = manifest.read(folder)
    (folder / listed).rename(tmp_path / "outside")
    (folder / listed).symlink_to(tmp_path / "outside")
    monkeypatch.setattr(manifest, "opened", lambda path: pytest.fail(f"opened {path}"))
    name = "one" if listed == "one" else "inner/two"
    for ask in (whole.content, whole.hold, whole.check_size):
        with pytest.raises(ZooError, match=f"folder/{name}` is damaged: it is a link out of its folder"):
            ask(name)
    monkeypatch.undo()
    (folder / listed).unlink()
    (tmp_path / "outside").rename(folder / "moved")
    (folder / listed).symlink_to(folder / "moved")
    assert manifest.check(folder, [name])


def test_another_size_is_told_even_where_it_looks_alike(folder):
    (folder / "one").write_bytes(b"1" * 1500)
    manifest.write(folder)
    (folder / "one").write_bytes(b"1" * 1501)
    with pytest.raises(ZooError, match="it has 1,501 bytes, not 1,500 bytes"):
        manifest.check(folder)


def test_a_manifest_is_current_until_another_stands_there(folder):
    listed = manifest.read(folder)
    assert listed.current
    write_json(folder / "manifest.json", json.loads((folder / "manifest.json").read_text()))
    assert not listed.current


def test_of_a_link_to_a_device_nothing_is_read(folder):
    (folder / "one").unlink()
    (folder / "one").symlink_to("/dev/zero")
    for look in (lambda: manifest.check(folder), lambda: manifest.read(folder).content("one")):
        with pytest.raises(ZooError, match="is a link out of its folder"):
            look()
