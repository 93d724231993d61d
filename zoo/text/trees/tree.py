"""Constituency trees, and the conversion of their words to a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

ROOT = "TOP"
"""Label of the constituent that covers a whole sentence."""
MAX_DEPTH = 500
"""Maximum number of nested constituents in a tree from a file, so that code for drawing can use recursion."""
XX = "XX"
"""Tag of a word whose part of speech is not specified."""
_SPACE_BEFORE_PUNCTUATION = re.compile(r" (?=[.,?])")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
ESCAPED = tuple(_ESCAPES.values())
"""Escapes that replace round brackets in the words of a tree."""


class Visit(NamedTuple):
    """Step of a traversal: the start of a constituent, a word, or the end of a constituent (`closes` is True)."""

    tree: Tree
    closes: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """Constituent (a label with children) or leaf (a part of speech with a word).

    Create constituents with `node`, and leaves with `leaf`.

    `str(tree)` is the bracketed notation, such as `(NP (DT the) (NN dog))`. Two trees are equal if their notation is
    the same. Methods do not use recursion, so trees may have any depth.
    """

    label: str
    children: tuple[Tree, ...]
    word: str = ""

    def walk(self) -> Iterator[Visit]:
        """Yield the steps of a depth-first traversal from left to right."""
        stack = [Visit(self, False)]
        while stack:
            visit = stack.pop()
            yield visit
            if visit.tree.children and not visit.closes:
                stack.append(Visit(visit.tree, True))
                stack.extend(Visit(child, False) for child in reversed(visit.tree.children))

    def __str__(self) -> str:
        parts: list[str] = []
        for tree, closes in self.walk():
            if closes:
                parts[-1] += ")"
            else:
                parts.append(f"({tree.label} {tree.word})" if tree.word else f"({tree.label}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def leaves(self) -> Iterator[str]:
        """Yield the words from left to right."""
        return (tree.word for tree, _ in self.walk() if tree.word)

    def capitalise(self) -> Tree:
        """Return the tree with its first word capitalised."""
        if self.word:
            return replace(self, word=capitalise(self.word))
        return replace(self, children=(self.children[0].capitalise(), *self.children[1:]))


def node(label: str, *children: Tree) -> Tree:
    """Return a constituent with at least one child."""
    return Tree(label, children)


def leaf(label: str, word: str) -> Tree:
    """Return a leaf: a word with its part of speech as the label."""
    return Tree(label, (), word)


def with_root(tree: Tree) -> Tree:
    """Return the tree with the label ROOT at its root, where treebanks may have no label or the label `ROOT`."""
    if tree.label in ("", "ROOT") and tree.children:
        return replace(tree, label=ROOT)
    return tree if tree.label == ROOT and tree.children else node(ROOT, tree)


def escape_brackets(word: str) -> str:
    """Return a word in treebank notation, in which round brackets are escaped: `(` becomes `-LRB-`."""
    for sign, escape in _ESCAPES.items():
        word = word.replace(sign, escape)
    return word


def unescape_brackets(word: str) -> str:
    """Return the form of a tree's word in the sentence: `-LRB-` becomes `(`."""
    for sign, escape in _ESCAPES.items():
        word = word.replace(escape, sign)
    return word


_WORD = re.compile(r" ([^()]+)\)")


def words(bracketed: str) -> list[str]:
    """Return the words of a tree in bracketed notation, from left to right, with escaped brackets."""
    return _WORD.findall(bracketed)


def capitalise(text: str) -> str:
    """Return the text with its first letter in upper case and all others unchanged."""
    return text[0].upper() + text[1:]


def detokenise(words: Iterable[str]) -> str:
    """Return the sentence that consists of these words and punctuation marks.

    There is no space before `.`, `,` and `?`. The words `can not`, which the Penn Treebank separates, become `cannot`.
    """
    return _SPACE_BEFORE_PUNCTUATION.sub("", " ".join(words)).replace("can not ", "cannot ")


def tokenize_words(text: str, language: str) -> str:
    """Return a sentence with spaces between its words, as in the Penn Treebank.

    `She can't.` becomes `She ca n't .`

    Args:
        text: The sentence.
        language: Language code. Only English sentences are changed.
    """
    return " ".join(_tokenizer().tokenize(text)) if language.partition("-")[0] == "en" else text


@lru_cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes 0.15 s to import, and only parsing needs it

    return NLTKWordTokenizer()
