"""Data folders, and the disk space that files take."""

import os
from pathlib import Path

from tests.refusals import refused
from zoo.files import storage
from zoo.files.storage import folder_bytes, require_space


def test_home_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    absolute = {str(tmp_path / "elsewhere"): tmp_path / "elsewhere", "~/zoo": tmp_path / "zoo"}
    relative = {name: Path.cwd() / name for name in ("near", "~nobody-here/zoo")}
    for value, expected in (absolute | relative).items():
        monkeypatch.setenv("ZOO_HOME", value)
        assert storage.home() == expected
        folders = {storage.models(), storage.pulls(), storage.archives(), storage.prepared(), storage.compiled()}
        assert len(folders) == 5
        assert {folder.parent for folder in folders} == {expected}
        assert not expected.exists()
    monkeypatch.setenv("ZOO_HOME", "")
    empty = storage.home()
    monkeypatch.delenv("ZOO_HOME")
    assert storage.home() == empty
    assert (empty.name, empty.is_relative_to(tmp_path)) == ("zoo", True)


def test_space_is_required_on_the_disk_of_a_folder_that_does_not_exist_yet(tmp_path):
    folder = tmp_path / "not" / "yet"
    require_space(folder, 1, "the corpus")
    require_space(folder, -5, "the corpus")
    problem = "the corpus needs 1,000,000.0 TB in .*yet`, but only .* are free"
    assert "write to another disk" in refused(problem, require_space, folder, 10**18, "the corpus").hint
    assert not folder.parent.exists()


def test_folder_bytes_counts_each_file_once_and_not_links(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "two").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "one")
    os.link(tmp_path / "a" / "one", tmp_path / "hard link")
    assert folder_bytes(tmp_path) == 8
    assert folder_bytes(tmp_path / "a") == folder_bytes(tmp_path / "a" / "one", tmp_path / "hard link") == 5
    assert folder_bytes(tmp_path / "nothing") == 0
    lstat = os.lstat

    def removed_meanwhile(path, **options):
        if Path(path) == tmp_path / "two":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", removed_meanwhile)
    assert folder_bytes(tmp_path) == 5
