"""What a folder holds, while others take some of it away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from zoo.files.storage import folder_bytes


def test_the_bytes_of_a_folder_are_those_of_its_files_and_not_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "two").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "one")
    assert folder_bytes(tmp_path) == 8
    assert folder_bytes(tmp_path / "nothing") == 0


def test_what_goes_away_meanwhile_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file between the list of names and the look at it."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"12345")
    lstat = os.lstat

    def gone(path: Any, **how: Any) -> os.stat_result:
        if Path(path) == tmp_path / "b":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return lstat(path, **how)

    monkeypatch.setattr(os, "lstat", gone)
    assert folder_bytes(tmp_path) == 10
