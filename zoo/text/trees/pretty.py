"""A tree over several lines, as people read it."""

from __future__ import annotations

from zoo.text.trees.tree import Tree

WIDTH = 100
"""Columns that a line has room for."""
_INDENT = 2


def pretty(tree: Tree, width: int = WIDTH) -> str:
    """The tree in the Penn Treebank's indented form: a constituent on one line where that has room for it.

    Else its label stands alone, and what it consists of below it, indented. `read` gives the same tree again. A word
    with its part of speech is never broken, however long it is.
    """
    return "\n".join(_lines(tree, width, 0, 0))


def _lines(tree: Tree, width: int, depth: int, closing: int) -> list[str]:
    """`closing` brackets of outer constituents follow the tree on its last line."""
    indent, whole = " " * (_INDENT * depth), str(tree)
    if tree.word or len(indent) + len(whole) + closing <= width:
        return [indent + whole]
    *first, last = tree.children
    lines = [f"{indent}({tree.label}"]
    for child in first:
        lines += _lines(child, width, depth + 1, 0)
    lines += _lines(last, width, depth + 1, closing + 1)
    lines[-1] += ")"
    return lines
