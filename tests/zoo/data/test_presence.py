"""Whether a corpus is here is seen without fetching or reading it."""

from __future__ import annotations

from pathlib import Path

import pytest

import specs
from zoo.data.corpus import corpus_name, missing_part

FILES = {"train": [{"source": "a.en", "target": "a.de"}], "dev": [{"held_out": 2}], "test": []}


def test_files_are_here_or_not() -> None:
    spec = specs.load("tiny", {"corpus": {"folder": "data", **FILES}})
    assert missing_part(spec) == "its corpus is not here: there is no `data/a.en`"
    Path("data").mkdir()
    for side in ("en", "de"):
        Path(f"data/a.{side}").touch()
    assert missing_part(spec) is None


def test_archives_are_not_fetched_to_see() -> None:
    said = missing_part(specs.load("base"))
    assert said == "its corpus is not here: training-parallel-europarl-v7.tgz has not been fetched"
    assert missing_part(specs.load("tiny")) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiny", "the built-in corpus (40,000)"),
        ("multi30k-ende", "multi30k"),
        ("base", "training-parallel-europarl-v7.tgz and 2 more"),
        ("parsing/wsj", "wsj"),
    ],
)
def test_a_corpus_is_called_by_what_it_is_made_of(name: str, words: str) -> None:
    assert corpus_name(specs.load(name).corpus) == words
    assert corpus_name(specs.load("tiny", {"corpus": FILES}).corpus) == "a.en"
