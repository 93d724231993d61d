"""Sets of the built-in corpus that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from specs import Grammar, ZooError
from zoo.data import builtin
from zoo.data.corpus import cached_builtin_pairs


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The sets that were made."""
    sets, sentences = [], builtin.sentences

    def counted(split: str, count: int) -> object:
        sets.append((split, count))
        return sentences(split, count)

    monkeypatch.setattr(builtin, "sentences", counted)
    return sets


def test_a_set_is_made_once(made: list[tuple[str, int]]) -> None:
    first = cached_builtin_pairs("test", Grammar(grammar=20))
    assert first == [(pair.source, pair.target) for pair in builtin.sentences("test", 20)]
    made.clear()
    assert cached_builtin_pairs("test", Grammar(grammar=20)) == first
    assert made == []
    assert cached_builtin_pairs("dev", Grammar(grammar=20)) != first
    assert cached_builtin_pairs("test", Grammar(grammar=5)) == first[:5]
    assert made == [("dev", 20), ("test", 5)]


def test_one_that_was_changed_is_made_anew(made: list[tuple[str, int]], home: Path) -> None:
    first = cached_builtin_pairs("test", Grammar(grammar=3))
    (file,) = home.rglob("target.txt")
    file.write_text(file.read_text().replace("e", "a"))
    assert cached_builtin_pairs("test", Grammar(grammar=3)) == first
    assert cached_builtin_pairs("test", Grammar(grammar=3)) == first
    assert len(made) == 2


def test_a_home_that_cannot_be_written_to_is_no_error(home: Path) -> None:
    home.write_text("a file")
    assert len(cached_builtin_pairs("dev", Grammar(grammar=2))) == 2


def test_more_than_there_are_is_refused_as_ever() -> None:
    with pytest.raises(ZooError, match="cannot give"):
        cached_builtin_pairs("dev", Grammar(grammar=10**6))
