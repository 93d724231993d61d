"""A digest is computed once for a file, and anew whenever the file could be another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoo.storage import digests, places


class Counted:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return f"digest {self.times}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    path = tmp_path / "large"
    path.write_bytes(b"content")
    return path


def test_a_file_that_stays_as_it_was_is_hashed_once(file: Path) -> None:
    compute = Counted()
    assert [digests.digest(file, compute) for _ in range(3)] == ["digest 1"] * 3
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
    compute = Counted()
    digests.digest(file, compute)
    change(file)  # type: ignore[operator]
    assert digests.digest(file, compute) == "digest 2"


def test_a_file_that_was_written_just_now_is_not_remembered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", 60.0)
    compute = Counted()
    digests.digest(file, compute)
    assert digests.digest(file, compute) == "digest 2"
    assert not places.verified().exists()


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b'{"file": 3}', b"\xff"])
def test_a_damaged_memory_is_made_anew(file: Path, damage: bytes) -> None:
    compute = Counted()
    digests.digest(file, compute)
    (entry,) = places.verified().iterdir()
    entry.write_bytes(damage)
    assert digests.digest(file, compute) == "digest 2"
    assert digests.digest(file, compute) == "digest 2"


def test_a_home_that_cannot_be_written_to_does_no_harm(file: Path, home: Path) -> None:
    home.write_text("a file stands in the way")
    compute = Counted()
    assert digests.digest(file, compute) == "digest 1"
    assert digests.digest(file, compute) == "digest 2"
