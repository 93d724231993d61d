"""Constituency trees in the Penn Treebank's notation, and how their leaves become a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from specs import ZooError

_TOKEN = re.compile(r"[()]|[^()\s]+")
_BEFORE_PUNCTUATION = re.compile(r" (?=[.,?])")


@dataclass(frozen=True, slots=True)
class Tree:
    """A label over constituents or, as a part of speech, over a word; `node` and `leaf` make the one and the other.

    `str(tree)` is the bracketed string, `(NP (DT the) (NN dog))`.
    """

    label: str
    children: tuple[Tree, ...]
    word: str = ""

    def __str__(self) -> str:
        return f"({self.label} {self.word or ' '.join(map(str, self.children))})"

    def leaves(self) -> Iterator[str]:
        """The words from left to right."""
        if self.word:
            yield self.word
        for child in self.children:
            yield from child.leaves()

    def capitalised(self) -> Tree:
        """The same tree with a capital letter at its start."""
        if self.word:
            return replace(self, word=capitalised(self.word))
        return replace(self, children=(self.children[0].capitalised(), *self.children[1:]))


def node(label: str, *children: Tree) -> Tree:
    """A constituent, of one child or more."""
    return Tree(label, children)


def leaf(label: str, word: str) -> Tree:
    """A word with its part of speech."""
    return Tree(label, (), word)


def read(text: str) -> Tree:
    """The tree of a bracketed string. Raises ZooError where it is not exactly one tree."""
    tokens = _TOKEN.findall(text)
    tree, end = _read(tokens, 0) if tokens else (None, 0)
    if tree is None or end != len(tokens):
        raise _broken(tokens)
    return tree


def _read(tokens: list[str], start: int) -> tuple[Tree, int]:
    """The tree that opens at `start`, and where it ends."""
    opening, label, after = [*tokens[start : start + 3], "", "", ""][:3]
    if opening != "(" or label in ("(", ")", "") or after in (")", ""):
        raise _broken(tokens)
    at = start + 2
    if after != "(":
        if tokens[at + 1 : at + 2] != [")"]:
            raise _broken(tokens)
        return leaf(label, after), at + 2
    children = []
    while tokens[at : at + 1] == ["("]:
        child, at = _read(tokens, at)
        children.append(child)
    if tokens[at : at + 1] != [")"]:
        raise _broken(tokens)
    return node(label, *children), at + 1


def _broken(tokens: list[str]) -> ZooError:
    return ZooError(f"`{' '.join(tokens)}` is not one bracketed tree", hint="write a tree as `(NP (DT the) (NN dog))`")


def capitalised(word: str) -> str:
    """The word with a capital letter first, its others as they are."""
    return word[0].upper() + word[1:]


def detokenised(words: Iterable[str]) -> str:
    """Words and punctuation marks as a sentence: spaces between them, none before `.`, `,` and `?`.

    One word is two in the Penn Treebank: `can` `not` becomes `cannot`.
    """
    return _BEFORE_PUNCTUATION.sub("", " ".join(words)).replace("can not ", "cannot ")
