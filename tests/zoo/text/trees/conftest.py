"""Random trees."""

import random
from collections.abc import Callable

import pytest

from zoo.text.trees.tree import Tree, leaf, node, with_root

LABELS, TAGS = ("S", "NP", "VP", "PP", "ADVP", "TOP", "X"), ("NN", "DT", ",", "-LRB-", "XX", "NP")
WORDS = ("the", "dog", "-LRB-", "1/2", "Hund", "¿", "ab-RRB-")


def sample(choices: random.Random, depth: int = 0) -> Tree:
    """Return a random tree, possibly with unary chains, labels that are also tags, and ROOT inside the tree."""
    if depth > 6 or choices.random() < 0.4:
        return leaf(choices.choice(TAGS), choices.choice(WORDS))
    count = choices.choice((1, 1, 2, 2, 3))
    return node(choices.choice(LABELS), *(sample(choices, depth + 1) for _ in range(count)))


@pytest.fixture(scope="session")
def tree() -> Callable[[int], Tree]:
    """Return a function that returns the tree of a seed."""
    return lambda seed: with_root(sample(random.Random(seed)))
