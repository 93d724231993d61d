"""Constituency trees in the Penn Treebank's notation, and how their leaves become a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from specs import ZooError
from specs.notation import quote

ROOT = "TOP"
"""The label over a whole sentence."""
DEEPEST = 500
"""Constituents inside one another, as far as trees are read: what draws them may call itself."""
_TOKEN = re.compile(r"[()]|[^()\s]+")
_BEFORE_PUNCTUATION = re.compile(r" (?=[.,?])")
_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}
_SIGNS = {written: sign for sign, written in _BRACKETS.items()}
ESCAPED = tuple(_SIGNS)
"""What a tree writes for the round brackets of a sentence."""
_OLD = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]", "\\/": "/", "\\*": "*"}
"""What older treebanks write for signs that trees have no other use for."""
_HINT = "write a tree as `(NP (DT the) (NN dog))`"


class Visit(NamedTuple):
    """A place on the way through a tree: a constituent as it opens, a word, or a constituent as it closes."""

    tree: Tree
    closes: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A label over constituents or, as a part of speech, over a word; `node` and `leaf` make the one and the other.

    `str(tree)` is the bracketed string, `(NP (DT the) (NN dog))`; trees are equal that are written alike. However deep
    one is, nothing here calls itself.
    """

    label: str
    children: tuple[Tree, ...]
    word: str = ""

    def walk(self) -> Iterator[Visit]:
        """Depth first, from left to right."""
        ahead = [Visit(self, False)]
        while ahead:
            visit = ahead.pop()
            yield visit
            if visit.tree.children and not visit.closes:
                ahead.append(Visit(visit.tree, True))
                ahead.extend(Visit(child, False) for child in reversed(visit.tree.children))

    def __str__(self) -> str:
        written: list[str] = []
        for tree, closes in self.walk():
            if closes:
                written[-1] += ")"
            else:
                written.append(f"({tree.label} {tree.word})" if tree.word else f"({tree.label}")
        return " ".join(written)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def leaves(self) -> Iterator[str]:
        """The words from left to right."""
        return (tree.word for tree, _ in self.walk() if tree.word)

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


def rooted(tree: Tree) -> Tree:
    """With ROOT over it, which a treebank may write as nothing, or as `ROOT`."""
    if tree.label in ("", "ROOT") and tree.children:
        return replace(tree, label=ROOT)
    return tree if tree.label == ROOT and tree.children else node(ROOT, tree)


def too_deep() -> ZooError:
    """A tree is not read that has more than DEEPEST."""
    return ZooError(f"the tree has more than {DEEPEST:,} constituents inside one another")


class Reader:
    """Trees from text, token by token: `add` takes a line, and gives the trees that end in it."""

    def __init__(self) -> None:
        self._open: list[tuple[str, list[Tree]]] = []
        self._label: str | None = None  # of a bracket that has just opened, where it is known
        self._word = ""  # of a leaf that is not closed yet
        self._fresh = False  # whether a bracket has just opened

    @property
    def inside(self) -> bool:
        """Whether a tree has begun and not ended."""
        return bool(self._open)

    def add(self, line: str) -> Iterator[Tree]:
        """Raises ZooError where brackets, labels and words are in no order that is a tree's."""
        for token in _TOKEN.findall(line):
            if token == "(":
                self._opened()
            elif token == ")":
                if (done := self._closed()) is not None:
                    yield done
            elif not self._open:
                raise ZooError(f"{quote(token)} stands outside of all brackets", hint=_HINT)
            elif self._fresh:
                self._label, self._fresh = token, False
                self._open[-1] = (token, self._open[-1][1])
            elif self._word or self._open[-1][1] or not self._open[-1][0]:
                raise ZooError(f"{quote(token)} is a word without a bracket of its own", hint=_HINT)
            else:
                self._word = token

    def _opened(self) -> None:
        if self._word:
            raise ZooError(f"a bracket opens behind the word {quote(self._word)}", hint=_HINT)
        if len(self._open) == DEEPEST:
            raise too_deep()
        self._open.append(("", []))
        self._fresh = True

    def _closed(self) -> Tree | None:
        """The whole tree, if this ends it."""
        if not self._open:
            raise ZooError("a bracket closes that was never opened", hint=_HINT)
        label, children = self._open.pop()
        self._fresh = False
        if self._word:
            done, self._word = leaf(label, self._word), ""
        elif children:
            done = node(label, *children)
        else:
            raise ZooError(f"there is nothing in the brackets of `({label})`", hint=_HINT)
        if self._open:
            if not label:
                raise ZooError("there is a bracket without a label within a tree", hint=_HINT)
            self._open[-1][1].append(done)
            return None
        return done


def read(text: str) -> Tree:
    """The tree of a bracketed string. Raises ZooError where it is not exactly one tree."""
    reader = Reader()
    try:
        trees = list(reader.add(text))
    except ZooError as error:
        raise ZooError(f"{quote(text)} is not one bracketed tree: {error.problem}", hint=_HINT) from None
    if reader.inside or len(trees) != 1:
        why = "a bracket is not closed" if reader.inside else f"there are {len(trees)} of them"
        raise ZooError(f"{quote(text)} is not one bracketed tree: {why}", hint=_HINT)
    return trees[0]


def escaped(word: str) -> str:
    """A word of a sentence as a treebank writes it, whose brackets are those of trees: `(` becomes `-LRB-`."""
    for sign, written in _BRACKETS.items():
        word = word.replace(sign, written)
    return word


def unescaped(word: str) -> str:
    """A word of a tree as a sentence has it: `-LRB-` becomes `(`."""
    for written, sign in _SIGNS.items():
        word = word.replace(written, sign)
    return word


def modern(word: str) -> str:
    r"""A word as it is written, but for the signs that older treebanks write otherwise: `1\/2` becomes `1/2`."""
    for old, sign in _OLD.items():
        word = word.replace(old, sign)
    return word


def capitalised(word: str) -> str:
    """The word with a capital letter first, its others as they are."""
    return word[0].upper() + word[1:]


def detokenised(words: Iterable[str]) -> str:
    """Words and punctuation marks as a sentence: spaces between them, none before `.`, `,` and `?`.

    One word is two in the Penn Treebank: `can` `not` becomes `cannot`.
    """
    return _BEFORE_PUNCTUATION.sub("", " ".join(words)).replace("can not ", "cannot ")
