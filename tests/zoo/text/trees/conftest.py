"""Random trees."""

import random
from collections.abc import Callable

import pytest

from zoo.text.trees.tree import Tree, leaf, node, with_root

LABELS, TAGS = ("S", "NP", "VP", "PP", "ADVP", "TOP", "X"), ("NN", "DT", ",", "-LRB-", "XX", "NP")
WORDS = ("the", "dog", "-LRB-", "1/2", "Hund", "¿", "a)b".replace(")", "-RRB-"))


def drawn(chance: random.Random, depth: int = 0) -> Tree:
    """A tree of some words; unary chains, labels that are tags, and roots within the tree among them."""
    if depth > 6 or chance.random() < 0.4:
        return leaf(chance.choice(TAGS), chance.choice(WORDS))
    return node(chance.choice(LABELS), *(drawn(chance, depth + 1) for _ in range(chance.choice((1, 1, 2, 2, 3)))))


@pytest.fixture(scope="session")
def tree() -> Callable[[int], Tree]:
    """The tree of a seed, a root over it."""
    return lambda seed: with_root(drawn(random.Random(seed)))
