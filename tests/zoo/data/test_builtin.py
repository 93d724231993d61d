"""The files of the built-in corpus."""

import hashlib

import pytest

from tests.refusals import refused
from zoo.data.builtin import MAX_PAIRS, sentences

DIGESTS = {
    "train": "5733d0b5a4d7432de67c25d3a98bca57a2f1096cdaf0c7be8dfeb3aedf568fd0",
    "dev": "3e887ae865621f9a11fa7cb1ade3f6f83a12e3ec0c8f2ae87f35565b571e1638",
    "test": "8525af1d54ce9640baec8430c19059684a78b77d1f13a0bc242141ccdf1656b4",
}
"""SHA-256 of all pairs of each set. They never change, because results of published models depend on them."""


@pytest.mark.parametrize("split", MAX_PAIRS)
def test_pairs_never_change(split: str) -> None:
    lines = [f"{pair.source}\t{pair.target}\t{pair.tree}\n" for pair in sentences(split, MAX_PAIRS[split])]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (len(lines), digest) == (MAX_PAIRS[split], DIGESTS[split])


def test_too_many_pairs_are_rejected_immediately():
    error = refused(r"has 2,000 pairs for `dev`, but 2,001 are requested", sentences, "dev", 2_001)
    assert error.hint == "request at most 2,000 pairs"
