"""What stands in the way of reading a file is told apart, and nothing is read without end."""

import errno
import os

import pytest

from specs import ZooError
from zoo.files.reading import file_exists, read_bytes


def test_what_is_there_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "file") == read_bytes(tmp_path / "link") == b"abc"
    assert read_bytes(tmp_path / "file", 3) == b"abc"
    with pytest.raises(ZooError, match="it has 3 bytes, and 2 bytes at most"):
        read_bytes(tmp_path / "file", 2)


@pytest.mark.parametrize("name", ["none", "none/inner", "a\0b", "x" * 300])
def test_what_is_not_there_is_missing(tmp_path, name):
    assert not file_exists(tmp_path / name)
    with pytest.raises(ZooError, match=r"is missing|too long") as told:
        read_bytes(tmp_path / name)
    assert told.value.exit_code == 1


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_what_is_no_regular_file_is_not_read(tmp_path, kind):
    """A FIFO would wait for ever, and a device may have no end."""
    path = tmp_path / kind
    {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/zero")}[kind]()
    assert not file_exists(path)
    with pytest.raises(ZooError, match="is not a regular file"):
        read_bytes(path)


def test_a_file_that_may_not_be_read_is_not_called_missing(tmp_path, monkeypatch):
    def refuse(path, *arguments, **named):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        patch.setattr(os, "stat", refuse)
        assert file_exists(tmp_path / "file"), "whoever opens it hears why not"
        with pytest.raises(ZooError, match="may not be read by this user") as told:
            read_bytes(tmp_path / "file")
    assert "chmod" in told.value.hint


def test_a_disk_that_fails_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        with pytest.raises(ZooError, match="cannot be read: Input/output error"):
            read_bytes(tmp_path / "file")
