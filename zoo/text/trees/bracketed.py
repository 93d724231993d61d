"""Bracketed notation of the Penn Treebank: read trees and treebank files, and format trees for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from specs import ZooError
from specs.notation import quote
from zoo.text.trees.tree import MAX_DEPTH, Tree, leaf, node, with_root

LINE_WIDTH = 100
"""Columns of a line in indented notation."""
_INDENT = 2
_TOKEN = re.compile(r"[()]|[^()\s]+")
_HINT = "write a tree as `(NP (DT the) (NN dog))`"
_FUNCTION_TAG = re.compile(r"(?<=.)[-=].*")
_TRACE = "-NONE-"
# Older treebanks escape these signs, although the notation of trees does not use them.
_OLD_ESCAPES = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]", "\\/": "/", "\\*": "*"}


class TreeReader:
    """Incremental parser of bracketed trees. `add` takes a line and yields the trees that end in it."""

    def __init__(self) -> None:
        self._open: list[tuple[str, list[Tree]]] = []
        self._word = ""  # of a leaf whose bracket is still open
        self._expects_label = False  # whether the last token was an opening bracket

    @property
    def inside(self) -> bool:
        """Whether a tree has begun and not ended."""
        return bool(self._open)

    def add(self, line: str) -> Iterator[Tree]:
        """Parse a line and yield the trees that it completes.

        Raises:
            ZooError: The brackets, labels and words do not form a tree.
        """
        for token in _TOKEN.findall(line):
            if token == "(":
                self._open_bracket()
            elif token == ")":
                if (tree := self._close_bracket()) is not None:
                    yield tree
            elif not self._open:
                raise ZooError(f"{quote(token)} is outside of all brackets", hint=_HINT)
            elif self._expects_label:
                self._expects_label = False
                self._open[-1] = (token, self._open[-1][1])
            elif self._word or self._open[-1][1] or not self._open[-1][0]:
                raise ZooError(f"{quote(token)} is a word without brackets of its own", hint=_HINT)
            else:
                self._word = token

    def _open_bracket(self) -> None:
        if self._word:
            raise ZooError(f"a bracket opens after the word {quote(self._word)}", hint=_HINT)
        if len(self._open) == MAX_DEPTH:
            raise _too_deep()
        self._open.append(("", []))
        self._expects_label = True

    def _close_bracket(self) -> Tree | None:
        """Return the tree if this bracket completes it."""
        if not self._open:
            raise ZooError("a closing bracket has no opening bracket", hint=_HINT)
        label, children = self._open.pop()
        self._expects_label = False
        if self._word:
            tree, self._word = leaf(label, self._word), ""
        elif children:
            tree = node(label, *children)
        else:
            raise ZooError(f"the brackets of `({label})` are empty", hint=_HINT)
        if not self._open:
            return tree
        if not label:
            raise ZooError("a bracket inside a tree has no label", hint=_HINT)
        self._open[-1][1].append(tree)
        return None


def read_tree(text: str) -> Tree:
    """Parse a string that contains exactly one bracketed tree.

    Raises:
        ZooError: The string is not exactly one tree.
    """
    reader = TreeReader()
    try:
        trees = list(reader.add(text))
    except ZooError as error:
        raise ZooError(f"{quote(text)} is not one bracketed tree: {error.problem}", hint=_HINT) from None
    if reader.inside or len(trees) != 1:
        reason = "a bracket is not closed" if reader.inside else f"it contains {len(trees)} trees"
        raise ZooError(f"{quote(text)} is not one bracketed tree: {reason}", hint=_HINT)
    return trees[0]


def read_treebank(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees of a file, each simplified by `simplify`. A tree may span several lines.

    Args:
        lines: Lines of the file.
        name: Name of the file in error messages.

    Raises:
        ZooError: A line is not part of a valid tree, a tree has no word or is too deep, or the file has no tree.
    """
    reader, first_line, count = TreeReader(), 1, 0
    for number, line in enumerate(lines, start=1):
        first_line = first_line if reader.inside else number
        try:
            for tree in reader.add(line):
                count += 1
                yield simplify(tree)
        except ZooError as error:
            raise ZooError(error.problem, where=f"{name}:{number}", hint=error.hint) from None
    if reader.inside:
        hint = "the file may be cut short: count the brackets of the tree that begins on this line"
        raise ZooError("a bracket is not closed at the end of the file", where=f"{name}:{first_line}", hint=hint)
    if not count:
        raise ZooError(f"`{name}` contains no tree", hint="name another file, or remove this part of the corpus")


def simplify(tree: Tree) -> Tree:
    r"""Reduce a tree to what a parser learns.

    Removes traces, constituents that are empty without them, and function tags (`NP-SBJ-1` becomes `NP`). Replaces
    old escapes in words (`1\/2` becomes `1/2`) and adds ROOT at the top.

    Raises:
        ZooError: No word is left, or the tree below ROOT is too deep.
    """
    stack: list[list[Tree]] = [[]]
    for visited, closes in tree.walk():
        if visited.word:
            if visited.label != _TRACE:
                stack[-1].append(replace(visited, word=_without_old_escapes(visited.word)))
        elif not closes:
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(_category(visited.label), tuple(children)))
    if not stack[0]:
        raise ZooError("the tree has no word", hint="leave it out")
    simplified = stack[0][0]
    rooted = with_root(simplified)
    if rooted is not simplified and _depth(rooted) > MAX_DEPTH:
        raise _too_deep()
    return rooted


def format_tree(tree: Tree, width: int = LINE_WIDTH) -> str:
    """Return the Penn Treebank's indented notation of a tree. `read_tree` gives the same tree again.

    A constituent is on one line if it fits. Otherwise its label has a line of its own, with the children indented
    below. A leaf is never broken, however long it is.
    """
    return "\n".join(_indented_lines(tree, width, 0, 0))


def _indented_lines(tree: Tree, width: int, depth: int, closing: int) -> list[str]:
    """Format a subtree whose last line must leave room for `closing` brackets of outer constituents."""
    indent, flat = " " * (_INDENT * depth), str(tree)
    if tree.word or len(indent) + len(flat) + closing <= width:
        return [indent + flat]
    *first, last = tree.children
    lines = [f"{indent}({tree.label}"]
    for child in first:
        lines += _indented_lines(child, width, depth + 1, 0)
    lines += _indented_lines(last, width, depth + 1, closing + 1)
    lines[-1] += ")"
    return lines


def _depth(tree: Tree) -> int:
    """Return the largest number of nested constituents, counting leaves."""
    depth = max_depth = 0
    for visited, closes in tree.walk():
        depth += (not visited.word) * (-1 if closes else 1)
        max_depth = max(max_depth, depth + bool(visited.word))
    return max_depth


def _category(label: str) -> str:
    """Return a label without its function tags and indices."""
    return label if label.startswith("-") else _FUNCTION_TAG.sub("", label)


def _without_old_escapes(word: str) -> str:
    for escape, sign in _OLD_ESCAPES.items():
        word = word.replace(escape, sign)
    return word


def _too_deep() -> ZooError:
    return ZooError(f"the tree has more than {MAX_DEPTH:,} nested constituents")
