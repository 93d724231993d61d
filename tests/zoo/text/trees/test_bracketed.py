"""Files of trees, as treebanks write them."""

from collections.abc import Callable

import pytest

from specs import ZooError
from zoo.text.trees.bracketed import read_tree, read_treebank, simplify
from zoo.text.trees.tree import MAX_DEPTH, Tree, escape_brackets, unescape_brackets

PRETTY = """
( (S
    (NP-SBJ-1 (NNP Ms.) (NNP Haag) )
    (VP (VBZ plays)
      (NP (NNP Elianti)))
    (. .)) )
"""


def test_one_a_line_or_over_several_lines():
    one = "(TOP (S (NP (NNP Ms.) (NNP Haag)) (VP (VBZ plays) (NP (NNP Elianti))) (. .)))"
    assert list(map(str, read_treebank(PRETTY.splitlines(), "wsj"))) == [one]
    assert list(read_treebank([*PRETTY.splitlines(), one, one + one], "wsj")) == [read_tree(one)] * 4


def test_traces_and_function_tags_go_and_what_they_leave_empty():
    given = (
        "(S (NP-SBJ=2 (-NONE- *T*-1)) (VP (VBD was) (NP (NN fun) (PP-LOC (NP (-NONE- *)))) (-RRB- -RRB-)) (PRP$ my))"
    )
    assert str(simplify(read_tree(given))) == "(TOP (S (VP (VBD was) (NP (NN fun)) (-RRB- -RRB-)) (PRP$ my)))"


@pytest.mark.parametrize("seed", range(50))
def test_a_plain_tree_is_itself(seed: int, tree: Callable[[int], Tree]):
    assert simplify(tree(seed)) == tree(seed)


def test_a_root_is_always_the_same():
    for root in ("", "ROOT", "TOP"):
        assert str(simplify(read_tree(f"({root} (S (NN dog)))"))) == "(TOP (S (NN dog)))"
    assert str(simplify(read_tree("(NN dog)"))) == "(TOP (NN dog))"
    assert str(simplify(read_tree("( (S (NN a)) (S (NN b)))"))) == "(TOP (S (NN a)) (S (NN b)))"


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        ("(S (NN dog)", "is not closed", 1),
        ("(S (NN dog)))", "never opened", 1),
        ("(S (NN dog))\n\n(S (NN dog)) dog", "outside of all brackets", 3),
        ("(S (NN dog))\n(S\n(NP))", "nothing in the brackets of `(NP)`", 3),
        ("(S (NN dog))\n()", "nothing in the brackets", 2),
        ("(S (-NONE- *))", "has no word", 1),
        ("(S the (NN dog))", "opens behind the word", 1),
        ("(S (NN dog) barks)", "without a bracket of its own", 1),
        ("(S" * 501, "more than 500 constituents", 1),
        ("\n \n", "has no tree in it", None),
    ],
)
def test_what_is_no_tree_is_told_with_its_line(text: str, told: str, line: int | None):
    with pytest.raises(ZooError) as error:
        list(read_treebank(text.split("\n"), "a.mrg"))
    assert told in error.value.problem
    assert error.value.where == (None if line is None else f"a.mrg:{line}")


def test_brackets_in_words_and_older_signs():
    assert escape_brackets("a(b)") == "a-LRB-b-RRB-"
    assert unescape_brackets(escape_brackets("a(b)")) == "a(b)"
    assert str(simplify(read_tree(r"(CD 1\/2)"))) == "(TOP (CD 1/2))"
    assert str(simplify(read_tree("(NN -LCB-)"))) == "(TOP (NN {))"


@pytest.mark.parametrize("root", ["", "(TOP "])
def test_what_is_read_is_no_deeper_than_may_be_read_again(root: str):
    """A ROOT that a treebank leaves out is counted, too."""

    def nested(brackets: int) -> str:
        inner = "(S " * (brackets - 1 - bool(root)) + "(NN dog)"
        return root + inner + ")" * (brackets - 1)

    whole = MAX_DEPTH if root else MAX_DEPTH - 1
    (tree,) = read_treebank([nested(whole)], "deep")
    assert read_tree(str(tree)) == tree
    with pytest.raises(ZooError, match="more than 500 constituents") as caught:
        list(read_treebank([nested(whole + 1)], "deep"))
    assert caught.value.where == "deep:1"
