"""A file is hashed once, and again whenever it could have changed."""

import os
from pathlib import Path

import pytest

from zoo.files import manifest, storage
from zoo.files.manifest import has_digest

DIGEST = b"content".hex()


class Computation:
    """Stand-in for a hash that counts its calls."""

    def __init__(self, file: Path) -> None:
        self.file, self.calls = file, 0

    def __call__(self) -> str:
        self.calls += 1
        return self.file.read_bytes().hex()


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_MIN_AGE", -1.0)
    path = tmp_path / "large"
    path.write_bytes(b"content")
    return path


def test_an_unchanged_file_is_hashed_once(file):
    compute = Computation(file)
    assert [has_digest(file, DIGEST, compute) for _ in range(3)] == [True] * 3
    assert compute.calls == 1


def rewrite(file):
    file.write_bytes(b"c0ntent")


def rewrite_with_old_times(file):
    state = file.stat()
    file.write_bytes(b"c0ntent")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def replace_with_old_times(file):
    state, other = file.stat(), file.with_name("other")
    other.write_bytes(b"c0ntent")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(file)


def lengthen(file):
    file.write_bytes(file.read_bytes() + b"!")


@pytest.mark.parametrize("change", [rewrite, rewrite_with_old_times, replace_with_old_times, lengthen])
def test_a_changed_file_is_hashed_again(file, change):
    compute = Computation(file)
    assert has_digest(file, DIGEST, compute)
    change(file)
    assert not has_digest(file, DIGEST, compute)
    assert compute.calls == 2


def test_the_digest_of_a_file_that_was_just_written_is_not_cached(file, monkeypatch):
    monkeypatch.setattr(manifest, "_MIN_AGE", 60.0)
    compute = Computation(file)
    assert has_digest(file, DIGEST, compute)
    assert has_digest(file, DIGEST, compute)
    assert compute.calls == 2
    assert not storage.verified().exists()


def test_a_damaged_or_wrong_cache_entry_is_replaced(file):
    compute = Computation(file)
    has_digest(file, DIGEST, compute)
    (entry,) = storage.verified().iterdir()
    intact = entry.read_bytes()
    damages = [b"", b"{}", b"[]", b'{"file": 3}', b"\xff", intact.replace(DIGEST.encode(), b"wrong")]
    for calls, damage in enumerate(damages, 2):
        entry.write_bytes(damage)
        assert [has_digest(file, DIGEST, compute) for _ in range(2)] == [True, True]
        assert compute.calls == calls
        assert entry.read_bytes() == intact


def test_a_data_folder_that_cannot_be_written_only_disables_the_cache(file, home):
    home.write_text("this file prevents a folder")
    compute = Computation(file)
    assert [has_digest(file, DIGEST, compute) for _ in range(2)] == [True, True]
    assert compute.calls == 2
