"""The files of the built-in corpus, and the grammar that generates them."""

import hashlib

import pytest

from specs import ZooError
from tests.grammar.corpus import generate
from zoo.data.builtin import MAX_PAIRS, VERSION, sentences

DIGEST = {1: "ecd9638bf87210a4065f60709190a78db3d69754efcdc0c8998414cfddbdbd04"}
"""SHA-256 of the first 1,000 training pairs of each version. If it changes, increase VERSION."""


def test_pairs_never_change():
    lines = (f"{pair.source}\t{pair.target}\t{pair.tree}\n" for pair in sentences("train", 1000))
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == DIGEST[VERSION]


@pytest.mark.parametrize(
    "counts",
    [
        {"train": 1000, "dev": 100, "test": 100},
        pytest.param(MAX_PAIRS, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
    ids=["sample", "all"],
)
def test_the_files_contain_the_pairs_that_the_grammar_generates(counts):
    assert {split: list(sentences(split, count)) for split, count in counts.items()} == generate(counts)


@pytest.mark.parametrize("split", MAX_PAIRS)
def test_each_set_has_its_number_of_pairs(split):
    assert sum(1 for _ in sentences(split, MAX_PAIRS[split])) == MAX_PAIRS[split]
    assert list(sentences(split, 0)) == []


def test_too_many_pairs_are_rejected_immediately():
    with pytest.raises(ZooError, match=r"has 2,000 pairs for `dev`, but 2,001 are requested") as caught:
        sentences("dev", 2_001)
    assert caught.value.hint == "request at most 2,000 pairs"
