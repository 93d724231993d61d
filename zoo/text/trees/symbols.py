"""What a parser writes: a tree as a sequence of brackets and words, and back (paper, section 6.3)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, Self, get_args

from specs import EOS, UNK, ZooError
from zoo.text.trees.tree import DEEPEST, ESCAPED, ROOT, Tree, leaf, node, read, rooted

Linearisation = Literal["vinyals", "tensor2tensor", "initials"]
XX = "XX"
"""What stands for a word whose part of speech is not written."""
_FIRST = EOS + 1
_BRACKET = re.compile(r"\(\s*([^()\s]*)\s*(?=([()]|[^()\s]+))")
_BEGINNING = re.compile(r"(?:\(\s*[^()\s]*\s*)+")
_NAME = re.compile(r"[^()\s\ud800-\udfff]+")
IN_A_ROW = 64
"""Constituents that begin at one word, as far as they are counted: treebanks have ten."""


_ROUND = re.compile("[()]")


class NoTree(ValueError):
    """Tokens that are not one tree over the words."""


class Symbols:
    """The target side of a parser's vocabulary: an opening and a closing bracket a label, and the words.

    Of `vinyals` every word is `XX`, and `(NP XX XX )NP` is a noun phrase of two (Vinyals et al. 2015); of
    `initials` it is its first character, `(NP t d )NP`, which tells a decoder which word it has come to; of
    `tensor2tensor`, the authors' code, its part of speech: `NP DT NN /NP`. The ROOT of one constituent is not written.
    Ids are those of `specs`, then the opening brackets, then the closing ones, then the words.
    """

    def __init__(
        self,
        labels: Sequence[str],
        tags: Sequence[str],
        linearisation: Linearisation,
        size: int | None = None,
        in_a_row: int | None = None,
    ) -> None:
        """In this order; `size` is the number of ids, as many as are needed if not given. Raises ZooError for fewer.

        `in_a_row` is how many constituents begin at one word, at most, where that is known.
        """
        self.labels, self.tags, self.linearisation, self.in_a_row = tuple(labels), tuple(tags), linearisation, in_a_row
        first = [_FIRST, _FIRST + len(labels), _FIRST + 2 * len(labels), _FIRST + 2 * len(labels) + len(tags)]
        self.opening, self.closing, self.words = (range(*ends) for ends in pairwise(first))
        self.size = first[-1] if size is None else size
        if self.size < first[-1]:
            raise ZooError(
                f"`vocabulary.target_size` is {self.size:,}, and these trees have {len(labels):,} labels and "
                f"{len(tags):,} kinds of words, which need {first[-1]:,}",
                hint=f"write `vocabulary.target_size={first[-1]}` or more",
            )
        self._open, self._close = (
            dict(zip(labels, self.opening, strict=True)),
            dict(zip(labels, self.closing, strict=True)),
        )
        self._tag = dict(zip(tags, self.words, strict=True))
        opens, closes = ("{}", "/{}") if linearisation == "tensor2tensor" else ("({}", "){}")
        names = [*map(opens.format, labels), *map(closes.format, labels), *tags]
        self._names = dict(enumerate(names, start=_FIRST))

    @classmethod
    def learned(cls, lines: Iterable[str], linearisation: Linearisation, size: int) -> Self:
        """Those that are written of bracketed trees, a tree a line with ROOT over it, in alphabetical order."""
        labels, tags, in_a_row = Counter[str](), Counter[str](), 1
        for line in lines:
            in_a_row = max([in_a_row, *(run.count("(") - 1 for run in _BEGINNING.findall(line))])
            for label, after in _BRACKET.findall(line):
                if after == "(":
                    labels[label] += 1
                else:
                    tags[_written(linearisation, label, after)] += 1
            labels[ROOT] -= _begins_hidden(line)
        if not labels:
            raise ZooError("there is no tree to learn brackets from")
        return cls(sorted(+labels), sorted(tags), linearisation, size, in_a_row if in_a_row <= IN_A_ROW else None)

    @classmethod
    def of(cls, content: bytes) -> Self:
        """From what `content` gives. Raises ValueError where it is damaged."""
        given: dict[str, Any] = json.loads(content)
        labels, tags, size = given["labels"], given["tags"], given["size"]
        whole = all(isinstance(each, str) and _NAME.fullmatch(each) for each in (*labels, *tags))
        kinds = isinstance(labels, list) and isinstance(tags, list) and type(size) is int
        if not kinds or not whole or len({*labels}) < len(labels) or len({*tags}) < len(tags) or not labels or not tags:
            raise ValueError("its labels are none")
        if size < _FIRST + 2 * len(labels) + len(tags):
            raise ValueError("its size is less than what it holds")
        if given["linearisation"] not in get_args(Linearisation):
            raise ValueError("its linearisation is none")
        in_a_row = given.get("in_a_row")
        if in_a_row is not None and not (type(in_a_row) is int and 1 <= in_a_row <= IN_A_ROW):
            raise ValueError("its constituents cannot begin so")
        return cls(labels, tags, given["linearisation"], size, in_a_row)

    @property
    def content(self) -> bytes:
        """What `of` reads: JSON."""
        names = ("linearisation", "size", "in_a_row", "labels", "tags")
        told = {name: value for name in names if (value := getattr(self, name)) is not None}
        return (json.dumps(told, ensure_ascii=False, indent=1) + "\n").encode()

    def encode(self, text: str) -> list[int]:
        """The ids of a bracketed tree; UNK for a label, a part of speech or an initial that is none of these.

        Raises ZooError where the text is not one tree.
        """
        return list(self._ids(rooted(read(text))))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` of many trees."""
        return list(map(self.encode, texts))

    def sample(self, ids: list[int], alpha: float) -> list[int]:
        """These: there is one way to write a tree."""
        return ids

    def _ids(self, tree: Tree) -> Iterator[int]:
        hidden = tree if _is_hidden(tree) else None
        for each, closes in tree.walk():
            if each.word:
                yield self._tag.get(_written(self.linearisation, each.label, each.word), UNK)
            elif each is not hidden:
                yield (self._close if closes else self._open).get(each.label, UNK)

    def written(self, words: Iterable[str]) -> tuple[int, ...]:
        """What each word is written as, UNK for an initial that is none of these; nothing where a word does not say."""
        if self.linearisation != "initials":
            return ()
        return tuple(self._tag.get(initial(word), UNK) for word in words)

    def decode(self, ids: Iterable[int]) -> str:
        """The sequence as it is written, without words: `(S (NP XX )NP )S`."""
        return " ".join(self._names.get(id, "⁇") for id in ids if id >= _FIRST or id == UNK)

    def named(self, ids: Iterable[int]) -> list[str]:
        """Each by itself, a word of its own: `▁(S`."""
        return [f"▁{self._names.get(id, '⁇')}" for id in ids]

    def tree(self, ids: Iterable[int], words: Sequence[str]) -> Tree:
        """The tree over these words. Raises NoTree where the ids are none."""
        done: list[list[Tree]] = [[]]
        labels: list[int] = []
        left = iter(words)
        for id in ids:
            if not labels and done[0]:
                raise NoTree("something follows the tree")
            if id in self.opening:
                labels.append(id)
                done.append([])
            elif id in self.closing:
                if not labels or id - labels[-1] != len(self.labels) or not done[-1]:
                    raise NoTree("a bracket closes another one, or nothing")
                children = done.pop()
                done[-1].append(node(self.labels[labels.pop() - _FIRST], *children))
            elif (word := next(left, None)) is None or id not in self.words:
                raise NoTree("there is no word for it")
            else:
                done[-1].append(leaf(self._part_of_speech(id), word))
        if labels or len(done[0]) != 1 or next(left, None) is not None:
            raise NoTree("a bracket is open, or a word is left")
        return _under_root(done[0])

    def mended(self, ids: Iterable[int], words: Sequence[str]) -> Tree:
        """The tree over these words, of at least one, that is meant by ids which may be none.

        A bracket that closes an outer constituent closes those inside it, too; one that closes nothing is left out, as
        is what is empty. Words that are left at the end stand in the constituent that is open there.
        """
        done: list[list[Tree]] = [[]]
        labels: list[int] = []
        left = list(reversed(words))

        def close() -> int:
            children, opened = done.pop(), labels.pop()
            if children:
                done[-1].append(node(self.labels[opened - _FIRST], *children))
            return opened

        for id in ids:
            if id in self.opening and len(labels) < DEEPEST - 2:
                labels.append(id)
                done.append([])
            elif id in self.words and left:
                done[-1].append(leaf(self._part_of_speech(id), left.pop()))
            elif id in self.closing and (its := id - len(self.labels)) in labels:
                while close() != its:
                    pass
        done[-1] += (leaf(XX, word) for word in reversed(left))
        while labels:
            close()
        return _under_root(done[0])

    def _part_of_speech(self, id: int) -> str:
        return self._names[id] if self.linearisation == "tensor2tensor" else XX


def initial(word: str) -> str:
    """The first character of a word as a tree has it; 0 for all digits, a round bracket as it is escaped."""
    first = next((sign for sign in ESCAPED if word.startswith(sign)), word[0])
    return "0" if first.isdigit() else first


def _written(linearisation: Linearisation, tag: str, word: str) -> str:
    """What stands for a word in a sequence."""
    return {"vinyals": XX, "tensor2tensor": tag, "initials": initial(word)}[linearisation]


def _begins_hidden(line: str) -> bool:
    """Whether the root of the tree that is written so is hidden: as `_is_hidden`, without reading it."""
    depth = children = 0
    for bracket in _ROUND.findall(line):
        children += depth == 1 and bracket == "("
        depth += 1 if bracket == "(" else -1
    return children == 1 and line.startswith(f"({ROOT} ") and not line.startswith(f"({ROOT} ({ROOT} ")


def _is_hidden(tree: Tree) -> bool:
    """Whether a tree's root is not written: what is under it says where it begins and ends."""
    return len(tree.children) == 1 and tree.children[0].label != ROOT


def _under_root(found: Sequence[Tree]) -> Tree:
    alone = len(found) == 1 and found[0].label == ROOT and not found[0].word
    return found[0] if alone else node(ROOT, *found)
