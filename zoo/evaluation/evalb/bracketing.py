"""What is scored of a tree: its words with their tags, and which words each of its brackets spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import NamedTuple

from zoo.text.trees.tree import Tree

# A tag with its word, an opening bracket with its label, a closing bracket, or what has no place in a tree.
_TOKEN = re.compile(r"\(([^()\s]*)(?:\s+([^()\s]+)\s*\))?|\)|[^()\s]+", re.ASCII)


class Bracket(NamedTuple):
    """A constituent: its label, its first word, and the word after its last one, counted from 0."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bracketing:
    """The words of a sentence, a tag for each, and its constituents in the order in which they open."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]

    def kept(self, keep: Sequence[bool]) -> Bracketing:
        """What stays with the words for which `keep` is true; brackets over none of them go, too."""
        before = [0, *accumulate(keep)]
        spans = (Bracket(label, before[start], before[end]) for label, start, end in self.brackets)
        return Bracketing(
            words=tuple(compress(self.words, keep)),
            tags=tuple(compress(self.tags, keep)),
            brackets=tuple(bracket for bracket in spans if bracket.start < bracket.end),
        )


def of_tree(tree: Tree) -> Bracketing:
    """The bracketing of a tree."""
    made = _Making()
    for part, closes in tree.walk():
        if part.word:
            made.word(part.word, part.label)
        elif closes:
            made.close()
        else:
            made.open(part.label)
            if not part.children:
                made.close()
    return made.done()


def of_line(line: str) -> Bracketing | None:
    """The bracketing of a line of brackets, or None where they are unbalanced or a word stands alone.

    More than a tree is read, as EVALB reads it: several side by side, brackets without a label, and nothing at all.
    """
    made = _Making()
    for token in _TOKEN.finditer(line):
        label, word = token.groups()
        if word is not None:
            made.word(word, label)
        elif label is not None:
            made.open(label)
        elif token[0] == ")" and made.inside:
            made.close()
        else:
            return None
    return None if made.inside else made.done()


class _Making:
    """A bracketing from left to right."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._tags: list[str] = []
        self._brackets: list[Bracket] = []
        self._open: list[int] = []

    @property
    def inside(self) -> bool:
        """Whether a bracket is open."""
        return bool(self._open)

    def word(self, word: str, tag: str) -> None:
        self._words.append(word)
        self._tags.append(tag)

    def open(self, label: str) -> None:
        self._open.append(len(self._brackets))
        self._brackets.append(Bracket(label, len(self._words), len(self._words)))

    def close(self) -> None:
        place = self._open.pop()
        label, start, _ = self._brackets[place]
        self._brackets[place] = Bracket(label, start, len(self._words))

    def done(self) -> Bracketing:
        return Bracketing(tuple(self._words), tuple(self._tags), tuple(self._brackets))
