"""Trees as sequences of brackets and words, and back."""

import random
from collections.abc import Callable
from typing import get_args

import pytest

from specs import UNK, ZooError
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tokenizer import InvalidTreeError, Linearisation, TreeTokenizer
from zoo.text.trees.tree import MAX_DEPTH, XX, Tree, leaf, node

SENTENCE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"
ALL = get_args(Linearisation)


def symbols(*trees: Tree | str, linearisation: Linearisation = "vinyals", size: int = 64) -> TreeTokenizer:
    return TreeTokenizer.learned(map(str, trees), linearisation, size)


def without_tags(tree: Tree) -> Tree:
    return leaf(XX, tree.word) if tree.word else node(tree.label, *map(without_tags, tree.children))


def test_a_tree_as_both_papers_write_it_and_by_initials():
    assert symbols(SENTENCE).decode(symbols(SENTENCE).encode(SENTENCE)) == "(S (NP XX XX )NP (VP XX )VP XX )S"
    code = symbols(SENTENCE, linearisation="tensor2tensor")
    assert code.decode(code.encode(SENTENCE)) == "S NP DT NN /NP VP VBZ /VP . /S"
    first = symbols(SENTENCE, linearisation="initials")
    assert first.decode(first.encode(SENTENCE)) == "(S (NP t d )NP (VP s )VP . )S"


def test_words_are_spelled_as_trees_write_them():
    words = ["the", "1990s", "²", "-LRB-", "-RRB-x", "-", "Ωmega", "The"]
    tree = str(node("TOP", *(leaf("X", word) for word in words)))
    known = symbols(tree, linearisation="initials")
    assert known.written(words) == tuple(known.encode(tree)[1:-1])
    assert sorted(known.tags) == ["-", "-LRB-", "-RRB-", "0", "T", "t", "Ω"]
    assert known.written(["a", "then"]) == (UNK, known.written(["the"])[0])
    assert symbols(tree).written(words) == symbols(tree, linearisation="tensor2tensor").written(words) == ()


@pytest.mark.parametrize("linearisation", ALL)
@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_trees_come_back(linearisation: Linearisation, count: int, tree: Callable[[int], Tree]):
    known = symbols(*map(tree, range(300)), linearisation=linearisation)
    for seed in range(count):
        given = tree(seed)
        back = known.tree(known.encode(str(given)), list(given.leaves()))
        assert back == (given if linearisation == "tensor2tensor" else without_tags(given))
        assert known.mended(known.encode(str(given)), list(given.leaves())) == back


@pytest.mark.parametrize("seed", range(200))
def test_whatever_was_written_is_mended_to_a_tree_over_the_words(seed: int, tree: Callable[[int], Tree]):
    chance = random.Random(seed)
    known = symbols(*map(tree, range(50)))
    ids = [chance.randrange(64) for _ in range(chance.randrange(40))]
    words = [f"w{number}" for number in range(chance.randrange(1, 9))]
    found = known.mended(ids, words)
    assert list(found.leaves()) == words
    assert found.label == "TOP"
    assert read_tree(str(found)) == found
    assert all(each.word or each.children for each, _ in found.walk())


@pytest.mark.parametrize(
    "text",
    ["", "(S XX )S", "(S XX XX )NP", "(S XX XX", "XX XX", "(S XX XX )S XX", "(S )S XX XX", "(S XX (NP )NP XX )S"],
)
def test_what_is_no_tree_over_the_words_is_refused(text: str):
    known = symbols(SENTENCE)
    ids = {known.decode([id]): id for id in (*known.opening, *known.closing, *known.words)}
    with pytest.raises(InvalidTreeError):
        known.tree([ids[name] for name in text.split()], ["a", "b"])


def test_what_was_never_seen_is_unknown():
    known = symbols(SENTENCE)
    assert known.encode("(TOP (WHNP (DT the) (NN dog)))").count(UNK) == 2
    assert UNK not in known.encode("(TOP (NP (FW the)))")
    assert UNK in symbols(SENTENCE, linearisation="tensor2tensor").encode("(TOP (NP (FW the)))")


def test_one_word_is_a_tree():
    known = symbols(SENTENCE)
    assert known.decode(known.encode("(TOP (NN dog))")) == "XX"
    assert known.tree(known.words, ["dog"]) == read_tree("(TOP (XX dog))")


def test_they_are_read_as_they_were_written_and_damage_is_found():
    known = symbols(SENTENCE, linearisation="tensor2tensor")
    again = TreeTokenizer.of(known.content)
    assert again.content == known.content
    assert again.encode(SENTENCE) == known.encode(SENTENCE)
    for damaged in (
        b"",
        b"[]",
        known.content[:-9],
        known.content.replace(b'"S"', b'"S S"'),
        known.content.replace(b'"S"', b'"S("'),
        known.content.replace(b'"S"', b'"\\ud800"'),
        known.content.replace(b"64", b"true"),
        known.content.replace(b"64", b"9"),
    ):
        with pytest.raises((ValueError, KeyError, TypeError)):
            TreeTokenizer.of(damaged)


def test_how_many_constituents_begin_at_a_word_is_learned_and_kept():
    known = symbols(SENTENCE, "(TOP (S (NP (NP (NN a)) (NN b))))")
    assert known.in_a_row == 4  # TOP is one that may begin, too
    assert TreeTokenizer.of(known.content).in_a_row == 4
    assert symbols("(TOP " + "(S " * 90 + "(NN a)" + ")" * 91).in_a_row is None
    older = known.content.replace(b' "in_a_row": 4,\n', b"")
    assert TreeTokenizer.of(older).in_a_row is None
    for wrong in (b"0", b"65", b"true", b'"4"'):
        with pytest.raises(ValueError, match="begin"):
            TreeTokenizer.of(known.content.replace(b'row": 4', b'row": ' + wrong))


def test_too_few_ids_are_told_with_how_many_there_must_be():
    with pytest.raises(ZooError, match="need 11") as error:
        symbols(SENTENCE, size=10)
    assert error.value.hint == "write `vocabulary.target_size=11` or more"


def test_however_deep_what_was_written_is_read_and_compared():
    known = symbols(SENTENCE)
    deep = known.mended([known.opening[0]] * 3000 + [known.words[0]], ["dog"])
    assert read_tree(str(deep)) == deep
    assert str(deep).count("(") == MAX_DEPTH
    assert repr(deep) == f"<{deep}>"
    assert hash(deep) == hash(read_tree(str(deep)))


def test_the_root_is_a_bracket_only_where_a_tree_shows_it():
    assert "TOP" not in symbols(SENTENCE, "(TOP (NN dog))", "(TOP (S (NN a)))").labels
    for shown in ("(TOP (S (NN a)) (S (NN b)))", "(TOP (TOP (NN a)))", "(TOP (S (TOP (NN a))))"):
        known = symbols(SENTENCE, shown)
        assert "TOP" in known.labels
        assert UNK not in known.encode(shown)
