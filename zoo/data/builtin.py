"""Built-in corpus: English-German sentence pairs with English constituency trees, read from the folder `builtin_pairs`.

A grammar generated the pairs once. The folder has two compressed files for each of train, dev and test. One file has
the trees, whose words are the English sentences. The other file has the German sentences.
"""

import bz2
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from specs import ZooError
from zoo.text.trees.tree import ROOT, detokenise, words

VERSION = 1
"""Version of the pairs, which never change. Fingerprints of prepared corpora contain it."""
MAX_PAIRS = {"train": 40_000, "dev": 2_000, "test": 2_000}
"""Number of pairs in each set."""
FOLDER = Path(__file__).with_name("builtin_pairs")


class Pair(NamedTuple):
    """English sentence, its German translation, and its constituency tree in bracketed notation."""

    source: str
    target: str
    tree: str


def sentences(split: str, count: int) -> Iterator[Pair]:
    """Yield the first sentence pairs of the built-in train, dev or test set. All pairs of the three sets are distinct.

    Args:
        split: The set: `train`, `dev` or `test`.
        count: Number of pairs.

    Raises:
        ZooError: The set has fewer than `count` pairs.
    """
    if count > MAX_PAIRS[split]:
        problem = f"the built-in corpus has {MAX_PAIRS[split]:,} pairs for `{split}`, but {count:,} are requested"
        raise ZooError(problem, hint=f"request at most {MAX_PAIRS[split]:,} pairs")
    return islice(_pairs(split), count)


def examples(
    split: str, count: int, streams: Mapping[str, str], languages: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """Yield the first examples of the built-in train, dev or test set, with the streams of a task.

    Args:
        split: The set: `train`, `dev` or `test`.
        count: Number of examples.
        streams: Modality of each stream. If one stream contains trees, text streams contain the words in the trees.
        languages: Language of each stream: `en` or `de`.
    """
    for english, german, tree in sentences(split, count):
        if "trees" in streams.values():
            text, trees = " ".join(words(tree)), f"({ROOT} {tree})"
            yield {name: trees if modality == "trees" else text for name, modality in streams.items()}
        else:
            yield {name: german if languages[name] == "de" else english for name in streams}


def _pairs(split: str) -> Iterator[Pair]:
    trees_file, targets_file = (FOLDER / f"{split}.{column}.bz2" for column in ("trees", "de"))
    with (
        bz2.open(trees_file, "rt", encoding="utf-8") as trees,
        bz2.open(targets_file, "rt", encoding="utf-8") as targets,
    ):
        for tree, target in zip(trees, targets, strict=True):
            yield Pair(detokenise(words(tree)), target.rstrip("\n"), tree.rstrip("\n"))
