"""Dev or test of the built-in corpus, kept once it is made: to make it takes as long as to translate it."""

from __future__ import annotations

from contextlib import suppress

from specs import Grammar, ZooError
from zoo.data import builtin
from zoo.data.parallel import Pair, Split, own_pairs
from zoo.files import manifest, storage
from zoo.files.atomic import atomic_folder
from zoo.text.lines import read_lines

_SIDES = ("source.txt", "target.txt")


def kept_set(split: Split, part: Grammar, *, trees: bool = False) -> list[Pair]:
    """The pairs of dev or test, or words and `trees`, from beside the prepared corpora where they are there whole.

    A home that cannot be written to costs time and nothing else.
    """
    folder = storage.prepared() / f"{split}-{part.grammar}-{builtin.VERSION}{'-trees' if trees else ''}"
    with suppress(ZooError):
        manifest.check(folder, _SIDES)
        return list(zip(*(read_lines(folder / side) for side in _SIDES), strict=True))
    pairs = list(own_pairs(split, part.grammar, trees=trees))
    with suppress(ZooError, OSError), atomic_folder(folder) as partial:
        for side, lines in zip(_SIDES, zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (partial / side).write_text(text, encoding="utf-8", newline="\n")
        manifest.write(partial)
    return pairs
