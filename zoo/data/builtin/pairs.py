"""The built-in corpus: sentence pairs with their trees, split into sets for ever."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from specs import ZooError, nearest
from zoo.data.builtin.draw import Draw
from zoo.data.builtin.sentence_sampler import SentenceSampler
from zoo.text.trees.tree import Tree, detokenised

VERSION = 1
"""Raised whenever a sentence changes: prepared data are known by it."""
LARGEST = {"train": 5_000_000, "dev": 50_000, "test": 50_000}
"""How many distinct pairs a set is sure to have."""
LONGEST = 22
"""Words of an English sentence."""
_MARKS = str.maketrans("", "", ".,?'")
PLAIN = 0.25
"""Share of pairs as people type: no capital at the start, no mark at the end."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An English sentence, its German translation, and its constituency tree, whose leaves are its words."""

    source: str
    target: str
    tree: Tree


def sentences(split: str, count: int, seed: int = 0) -> Iterator[Pair]:
    """`count` distinct pairs of the set train, dev or test, the same from the same seed everywhere.

    No sentence is in two sets, whatever the seeds. Raises ZooError for another set, and for more pairs than
    it is sure to have.
    """
    if split not in LARGEST:
        known = nearest(split, LARGEST)
        hint = f"did you mean `{known}`?" if known else f"its sets are {', '.join(LARGEST)}"
        raise ZooError(f"`{split}` is not a set of the built-in corpus", hint=hint)
    if not 0 <= count <= LARGEST[split]:
        raise ZooError(
            f"the built-in corpus cannot give {count:,} pairs for `{split}`",
            hint=f"ask for 0 to {LARGEST[split]:,} of them",
        )
    return islice(_distinct(split, seed), count)


def split_of(source: str) -> str:
    """The set that an English sentence belongs to: one in ten to dev, one to test."""
    return _split(_identity(source))


def _distinct(split: str, seed: int) -> Iterator[Pair]:
    draw = Draw(str(seed))
    sampler = SentenceSampler(draw)
    seen: set[bytes] = set()
    while True:
        sentence = sampler.sentence()
        plain = draw.chance(PLAIN)
        tree = sentence.english(plain)
        source = detokenised(tree.leaves())
        identity = _identity(source)
        if _split(identity) == split and identity not in seen and source.count(" ") < LONGEST:
            seen.add(identity)
            yield Pair(source, sentence.german(plain), tree)


def _identity(source: str) -> bytes:
    """What a sentence is known by: its words alone, not how it is written."""
    return blake2b(source.lower().translate(_MARKS).encode(), digest_size=8).digest()


def _split(identity: bytes) -> str:
    return {0: "dev", 1: "test"}.get(int.from_bytes(identity, "big") % 10, "train")
