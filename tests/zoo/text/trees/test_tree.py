"""Trees, their bracketed notation, treebank files, and sentences of leaves."""

import random
from collections.abc import Callable

import pytest

from tests.refusals import refused
from zoo.text.trees.tree import (
    MAX_DEPTH,
    Tree,
    detokenise,
    format_tree,
    leaf,
    node,
    read_tree,
    read_treebank,
    simplify,
    tokenize_words,
)

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"
SHORT = f"(TOP {TREE})"
INDENTED = """
( (S
    (NP-SBJ-1 (NNP Ms.) (NNP Haag) )
    (VP (VBZ plays)
      (NP (NNP Elianti)))
    (. .)) )
"""


def test_bracketed_notation():
    dog = node("NP", leaf("DT", "the"), leaf("NN", "dog"))
    tree = node("S", dog, node("VP", leaf("VBZ", "sleeps")), leaf(".", "."))
    assert str(tree) == TREE
    assert read_tree(TREE) == tree
    assert read_tree(TREE.replace(" ", "\n  ").replace(")", " ) ")) == tree
    assert list(tree.leaves()) == ["the", "dog", "sleeps", "."]


def test_strings_that_are_not_one_tree_are_rejected():
    for text in ("", "dog", "(NP)", "(NP dog", "(NP (NN dog)", "(NP dog) (NP cat)", "(NP dog cat)", "(S ((NN dog)))"):
        refused("is not a single bracketed tree", read_tree, text)


def test_treebank_trees_may_span_several_lines():
    tree = "(TOP (S (NP (NNP Ms.) (NNP Haag)) (VP (VBZ plays) (NP (NNP Elianti))) (. .)))"
    split = tree.replace("(VBZ plays)", "(VBZ\n plays\n)").split("\n")
    lines = [*INDENTED.splitlines(), tree, tree + tree, *split]
    assert list(map(str, read_treebank(lines, "wsj"))) == [tree] * 5


@pytest.mark.parametrize(("text", "simple"), [
    # Traces, function tags, and constituents that are empty without them.
    ("(S (NP-SBJ=2 (-NONE- *T*-1)) (VP (VBD was) (NP (NN fun) (PP-LOC (NP (-NONE- *)))) (-RRB- x)) (PRP$ my))",
     "(TOP (S (VP (VBD was) (NP (NN fun)) (-RRB- x)) (PRP$ my)))"),
    *((f"({root} (S (NN dog)))", "(TOP (S (NN dog)))") for root in ("", "ROOT", "TOP")),
    ("(NN dog)", "(TOP (NN dog))"),
    ("( (S (NN a)) (S (NN b)))", "(TOP (S (NN a)) (S (NN b)))"),
    (r"(CD 1\/2)", "(TOP (CD 1/2))"),
    ("(NN -LCB-)", "(TOP (NN {))"),
])  # fmt: skip
def test_trees_are_simplified(text: str, simple: str):
    assert str(simplify(read_tree(text))) == simple
    assert str(simplify(read_tree(simple))) == simple


@pytest.mark.parametrize(("text", "width", "formatted"), [
    (SHORT, len(SHORT), SHORT),
    (SHORT, 40, "(TOP\n  (S\n    (NP (DT the) (NN dog))\n    (VP (VBZ sleeps))\n    (. .)))"),
    ("(TOP (S (A b)))", 14, "(TOP\n  (S (A b)))"),
    ("(TOP (S (A b)))", 11, "(TOP\n  (S\n    (A b)))"),
])  # fmt: skip
def test_long_constituents_are_formatted_on_several_lines(text: str, width: int, formatted: str):
    assert format_tree(read_tree(text), width) == formatted


def test_detokenise():
    words = ["The", "dog", ",", "that", "can", "not", "sleep", ",", "runs", "at", "two", "o'clock", "."]
    assert detokenise(words) == "The dog, that cannot sleep, runs at two o'clock."
    assert detokenise(["does", "he", "sleep", "?"]) == "does he sleep?"
    assert detokenise([]) == ""


@pytest.mark.parametrize(("text", "problem", "line"), [
    ("(S (NN dog)", "is not closed", 1),
    ("(S (NN dog)))", "has no opening bracket", 1),
    ("(S (NN dog))\n\n(S (NN dog)) dog", "has no brackets around it", 3),
    ("(S (NN dog))\n(S\n(NP))", "the constituent `(NP)` contains no words", 2),
    ("(S (NN dog))\n()", "contains no words", 2),
    ("(S (-NONE- *))", "contains no words", 1),
    ("(S the (NN dog))", "has no brackets around it", 1),
    ("(S (NN dog) barks)", "has no brackets around it", 1),
    ("\n \n", "contains no tree", None),
])  # fmt: skip
def test_invalid_treebanks_are_rejected_with_the_line(text: str, problem: str, line: int | None):
    error = refused(None, list, read_treebank(text.split("\n"), "a.mrg"))
    assert problem in error.problem
    assert error.where == (None if line is None else f"a.mrg:{line}")


@pytest.mark.parametrize("root", ["", "(TOP "])
def test_the_maximum_depth_includes_a_root_that_the_treebank_omits(root: str):
    def nested(brackets: int) -> str:
        inner = "(S " * (brackets - 1 - bool(root)) + "(NN dog)"
        return root + inner + ")" * (brackets - 1)

    deepest = MAX_DEPTH if root else MAX_DEPTH - 1
    (tree,) = read_treebank([nested(deepest)], "deep")
    assert read_tree(str(tree)) == tree
    error = refused("more than 500 nested constituents", list, read_treebank([nested(deepest + 1)], "deep"))
    assert error.where == "deep:1"


def test_formatted_trees_are_read_back_and_fit_the_width(tree: Callable[[int], Tree]):
    for seed in range(60):
        original, width = tree(seed), random.Random(seed).randrange(80)
        lines = format_tree(original, width).split("\n")
        assert read_tree("\n".join(lines)) == original
        assert all(len(line) <= width or line.count("(") == 1 for line in lines)


def test_the_deepest_trees_can_be_formatted():
    deepest = read_tree("(S " * (MAX_DEPTH - 1) + "(NN dog)" + ")" * (MAX_DEPTH - 1))
    assert read_tree(format_tree(deepest)) == deepest


@pytest.mark.parametrize("code", ["en", "en-GB", "en_US", "eng_Latn"])
def test_words_of_all_kinds_of_english_are_separated(code: str) -> None:
    assert tokenize_words("I can't.", code) == "I ca n't ."
