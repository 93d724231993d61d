"""Files of trees, as treebanks have them: what a parser learns of a tree, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from specs import ZooError
from zoo.text.trees.tree import DEEPEST, Reader, Tree, modern, rooted, too_deep

_FUNCTION = re.compile(r"(?<=.)[-=].*")
_TRACE = "-NONE-"


def trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """The trees of a file, one a line or over several lines, each as `plain` has it.

    Raises ZooError, with the line, for what is no tree, for one without a word or too deep, and where there is none.
    """
    reader, began, count = Reader(), 1, 0
    for number, line in enumerate(lines, start=1):
        began = began if reader.inside else number
        try:
            for tree in reader.add(line):
                count += 1
                yield plain(tree)
        except ZooError as error:
            raise ZooError(error.problem, where=f"{name}:{number}", hint=error.hint) from None
    if reader.inside:
        hint = "the file may be cut short: count the brackets of the tree that begins there"
        raise ZooError("a bracket is not closed at the end of the file", where=f"{name}:{began}", hint=hint)
    if not count:
        raise ZooError(f"`{name}` has no tree in it", hint="name another file, or leave the part out")


def plain(tree: Tree) -> Tree:
    """Without traces, what they leave empty, and function tags (`NP-SBJ-1` is `NP`), and with ROOT over it.

    Raises ZooError where no word is left, and where it is too deep under its ROOT.
    """
    left = _plain(tree)
    if left is None:
        raise ZooError("the tree has no word", hint="leave it out")
    whole = rooted(left)
    if whole is not left and _deepest(whole) > DEEPEST:
        raise too_deep()
    return whole


def _deepest(tree: Tree) -> int:
    """Constituents inside one another, at most."""
    inside = deepest = 0
    for each, closes in tree.walk():
        inside += (not each.word) * (-1 if closes else 1)
        deepest = max(deepest, inside + bool(each.word))
    return deepest


def _plain(tree: Tree) -> Tree | None:
    made: list[list[Tree]] = [[]]
    for each, closes in tree.walk():
        if each.word:
            if each.label != _TRACE:
                made[-1].append(replace(each, word=modern(each.word)))
        elif not closes:
            made.append([])
        elif children := made.pop():
            made[-1].append(Tree(_category(each.label), tuple(children)))
    return made[0][0] if made[0] else None


def _category(label: str) -> str:
    """A label without its function tags and indices."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)
