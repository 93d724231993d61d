"""Constituency trees as bracketed strings, and their leaves as sentences."""

import pytest

from specs import ZooError
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tree import capitalise, detokenise, leaf, node

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"


def test_a_tree_is_what_its_string_says():
    tree = node(
        "S", node("NP", leaf("DT", "the"), leaf("NN", "dog")), node("VP", leaf("VBZ", "sleeps")), leaf(".", ".")
    )
    assert str(tree) == TREE
    assert read_tree(TREE) == tree
    assert read_tree(TREE.replace(" ", "\n  ").replace(")", " ) ")) == tree
    assert list(tree.leaves()) == ["the", "dog", "sleeps", "."]


def test_a_capital_at_the_start():
    assert list(read_tree(TREE).capitalised().leaves()) == ["The", "dog", "sleeps", "."]
    assert capitalise("älter") == "Älter"


@pytest.mark.parametrize(
    "text",
    ["", "dog", "(NP)", "(NP dog", "(NP (NN dog)", "(NP dog) (NP cat)", "(NP dog cat)", "(S ((NN dog)))", ")("],
)
def test_what_is_not_one_tree_is_refused(text):
    with pytest.raises(ZooError, match="is not one bracketed tree"):
        read_tree(text)


def test_words_become_a_sentence():
    words = ["The", "dog", ",", "that", "can", "not", "sleep", ",", "runs", "at", "two", "o'clock", "."]
    assert detokenise(words) == "The dog, that cannot sleep, runs at two o'clock."
    assert detokenise(["does", "he", "sleep", "?"]) == "does he sleep?"
    assert detokenise([]) == ""
