"""A tree over several lines is the same tree."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from zoo.text.trees.bracketed import format_tree, read_tree
from zoo.text.trees.drawing import draw_svg
from zoo.text.trees.tree import MAX_DEPTH, Tree

SHORT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"


def test_a_long_constituent_is_over_several_lines_and_a_short_one_on_one() -> None:
    assert format_tree(read_tree(SHORT)) == SHORT
    assert format_tree(read_tree(SHORT), width=40) == "\n".join(
        ["(TOP", "  (S", "    (NP (DT the) (NN dog))", "    (VP (VBZ sleeps))", "    (. .)))"]
    )


@pytest.mark.parametrize("seed", range(200))
def test_any_tree_reads_back_from_lines_that_are_no_longer_than_they_must(
    seed: int, tree: Callable[[int], Tree]
) -> None:
    given, width = tree(seed), random.Random(seed).randrange(80)
    lines = format_tree(given, width).split("\n")
    assert read_tree("\n".join(lines)) == given
    for line in lines:
        assert len(line) <= width or line.count("(") == 1, "it could have been broken"


def test_what_just_fits_stays_on_its_line() -> None:
    assert format_tree(read_tree(SHORT), len(SHORT)) == SHORT
    assert format_tree(read_tree(SHORT), len(SHORT) - 1).count("\n") > 0
    assert format_tree(read_tree("(TOP (S (A b)))"), 14) == "(TOP\n  (S (A b)))"
    assert format_tree(read_tree("(TOP (S (A b)))"), 11) == "(TOP\n  (S\n    (A b)))", (
        "the brackets at its end have to fit, too"
    )


def test_whatever_is_read_can_be_laid_out_and_drawn() -> None:
    deepest = read_tree("(S " * (MAX_DEPTH - 1) + "(NN dog)" + ")" * (MAX_DEPTH - 1))
    assert read_tree(format_tree(deepest)) == deepest
    assert draw_svg(deepest).count('class="label"') == MAX_DEPTH - 1
