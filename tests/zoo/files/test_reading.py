"""Reading stops at a limit, and an error says why a file cannot be read."""

import errno
import os
from unittest import mock

import pytest

from tests.refusals import refused
from zoo.files.atomic import write_json
from zoo.files.reading import UnreadableError, file_exists, read_bytes, read_json


def test_files_and_links_are_read_up_to_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "file") == read_bytes(tmp_path / "link", 3) == b"abc"
    refused("it is 3 bytes, but a file of this kind is at most 2 bytes", read_bytes, tmp_path / "file", 2)


def test_missing_files_are_reported_as_missing(tmp_path):
    for name in ("none", "none/inner", "a\0b", "x" * 300):
        assert not file_exists(tmp_path / name)
        assert refused(r"is missing|too long", read_bytes, tmp_path / name).exit_code == 1


def test_only_regular_files_are_read(tmp_path):
    """A FIFO would block, and a device may have no end."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("folder", "fifo", "device"):
        assert not file_exists(tmp_path / name)
        refused("is a folder, pipe or device, not a file", read_bytes, tmp_path / name)


def test_a_file_without_permission_is_not_reported_as_missing_nor_a_failing_disk(tmp_path):
    path = tmp_path / "file"
    path.touch()
    denied = PermissionError(errno.EACCES, "Permission denied", str(path))
    with mock.patch.object(os, "open", side_effect=denied), mock.patch.object(os, "stat", side_effect=denied):
        assert file_exists(path)
        with pytest.raises(UnreadableError, match="you do not have permission to read") as raised:
            read_bytes(path)
    assert "chmod" in raised.value.hint
    failing = mock.patch.object(os, "fstat", side_effect=OSError(errno.EIO, "Input/output error"))
    with failing, pytest.raises(UnreadableError, match="cannot be read: Input/output error"):
        read_bytes(path)


def test_json_is_read_as_it_was_written_and_damage_is_reported(tmp_path):
    value = {"größe": [1, 2.5, None, "ß"], "inner": {}}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "größe" in (tmp_path / "file.json").read_text(encoding="utf-8")
    path = tmp_path / "file.json"
    for text in (b"", b"{", b"[1]", b'{"a": \xff}', b'{"a": 1}}', b'{"a": Infinity}', b'{"a":' + b"[" * 10**5):
        path.write_bytes(text)
        assert refused(r"file.json` is damaged", read_json, path).exit_code == 1
