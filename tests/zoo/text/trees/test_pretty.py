"""A tree over several lines is the same tree."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from zoo.text.trees.drawing import drawing
from zoo.text.trees.pretty import pretty
from zoo.text.trees.tree import DEEPEST, Tree, read

SHORT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"


def test_a_long_constituent_is_over_several_lines_and_a_short_one_on_one() -> None:
    assert pretty(read(SHORT)) == SHORT
    assert pretty(read(SHORT), width=40) == "\n".join(
        ["(TOP", "  (S", "    (NP (DT the) (NN dog))", "    (VP (VBZ sleeps))", "    (. .)))"]
    )


@pytest.mark.parametrize("seed", range(200))
def test_any_tree_reads_back_from_lines_that_are_no_longer_than_they_must(
    seed: int, tree: Callable[[int], Tree]
) -> None:
    given, width = tree(seed), random.Random(seed).randrange(80)
    lines = pretty(given, width).split("\n")
    assert read("\n".join(lines)) == given
    for line in lines:
        assert len(line) <= width or line.count("(") == 1, "it could have been broken"


def test_what_just_fits_stays_on_its_line() -> None:
    assert pretty(read(SHORT), len(SHORT)) == SHORT
    assert pretty(read(SHORT), len(SHORT) - 1).count("\n") > 0
    assert pretty(read("(TOP (S (A b)))"), 14) == "(TOP\n  (S (A b)))"
    assert pretty(read("(TOP (S (A b)))"), 11) == "(TOP\n  (S\n    (A b)))", "the brackets at its end have to fit, too"


def test_whatever_is_read_can_be_laid_out_and_drawn() -> None:
    deepest = read("(S " * (DEEPEST - 1) + "(NN dog)" + ")" * (DEEPEST - 1))
    assert read(pretty(deepest)) == deepest
    assert drawing(deepest).count('class="label"') == DEEPEST - 1
