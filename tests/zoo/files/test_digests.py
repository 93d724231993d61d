"""A digest is computed once for a file, and anew whenever the file could be another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoo.files import digests, hashes, storage


class Counted:
    """What a file's content is said to be, and how often it was asked."""

    def __init__(self, file: Path) -> None:
        self.file, self.times = file, 0

    def __call__(self) -> str:
        self.times += 1
        return self.file.read_bytes().hex()


RIGHT = b"content".hex()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    path = tmp_path / "large"
    path.write_bytes(b"content")
    return path


def test_a_file_that_stays_as_it_was_is_hashed_once(file: Path) -> None:
    compute = Counted(file)
    assert [hashes.has_digest(file, RIGHT, compute) for _ in range(3)] == [True] * 3
    assert compute.times == 1


def _written_again(file: Path) -> None:
    file.write_bytes(b"c0ntent")


def _written_again_with_its_old_times(file: Path) -> None:
    state = file.stat()
    file.write_bytes(b"c0ntent")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def _replaced_by_one_of_the_same_times(file: Path) -> None:
    state, other = file.stat(), file.with_name("other")
    other.write_bytes(b"c0ntent")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(file)


def _longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"!")


@pytest.mark.parametrize(
    "change", [_written_again, _written_again_with_its_old_times, _replaced_by_one_of_the_same_times, _longer]
)
def test_whatever_happens_to_a_file_it_is_hashed_anew(file: Path, change: object) -> None:
    compute = Counted(file)
    assert hashes.has_digest(file, RIGHT, compute)
    change(file)  # type: ignore[operator]
    assert not hashes.has_digest(file, RIGHT, compute)
    assert compute.times == 2


def test_a_file_that_was_written_just_now_is_not_remembered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", 60.0)
    compute = Counted(file)
    assert hashes.has_digest(file, RIGHT, compute)
    assert hashes.has_digest(file, RIGHT, compute)
    assert compute.times == 2
    assert not storage.verified().exists()


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b'{"file": 3}', b"\xff"])
def test_a_damaged_memory_is_made_anew(file: Path, damage: bytes) -> None:
    compute = Counted(file)
    hashes.has_digest(file, RIGHT, compute)
    (entry,) = storage.verified().iterdir()
    entry.write_bytes(damage)
    assert [hashes.has_digest(file, RIGHT, compute) for _ in range(2)] == [True, True]
    assert compute.times == 2


def test_a_wrong_memory_condemns_no_file(file: Path) -> None:
    compute = Counted(file)
    hashes.has_digest(file, RIGHT, compute)
    (entry,) = storage.verified().iterdir()
    entry.write_text(entry.read_text().replace(RIGHT, "wrong"))
    assert hashes.has_digest(file, RIGHT, compute)
    assert RIGHT in entry.read_text()


def test_a_home_that_cannot_be_written_to_does_no_harm(file: Path, home: Path) -> None:
    home.write_text("a file stands in the way")
    compute = Counted(file)
    assert [hashes.has_digest(file, RIGHT, compute) for _ in range(2)] == [True, True]
    assert compute.times == 2
