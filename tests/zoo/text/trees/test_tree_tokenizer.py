"""Trees as sequences of tokens, and back."""

import random
from collections.abc import Callable
from typing import get_args

import pytest

import specs
from specs import UNK
from tests.refusals import refused
from zoo.text.trees.tokenizer import Linearisation, TreeTokenizer
from zoo.text.trees.tree import MAX_DEPTH, XX, Tree, leaf, node, read_tree

SENTENCE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"
ALL = get_args(Linearisation)


def tokenizer_of(*trees: Tree | str, linearisation: Linearisation = "vinyals", size: int = 64) -> TreeTokenizer:
    parsing = specs.load("parsing/tiny", {"task.linearisation": linearisation, "vocabulary.target_size": size})
    return TreeTokenizer.learn(map(str, trees), parsing.vocabulary, "target", (), parsing.task.encoding)


def without_tags(tree: Tree) -> Tree:
    return leaf(XX, tree.word) if tree.word else node(tree.label, *map(without_tags, tree.children))


def test_linearisations():
    assert tokenizer_of(SENTENCE).decode(tokenizer_of(SENTENCE).encode(SENTENCE)) == "(S (NP XX XX )NP (VP XX )VP XX )S"
    code = tokenizer_of(SENTENCE, linearisation="tensor2tensor")
    assert code.decode(code.encode(SENTENCE)) == "S NP DT NN /NP VP VBZ /VP . /S"
    first = tokenizer_of(SENTENCE, linearisation="initials")
    assert first.decode(first.encode(SENTENCE)) == "(S (NP t d )NP (VP s )VP . )S"


def test_word_ids_follow_the_initials_of_a_tree():
    words = ["the", "1990s", "²", "-LRB-", "-RRB-x", "-", "Ωmega", "The"]
    tree = str(node("TOP", *(leaf("X", word) for word in words)))
    known = tokenizer_of(tree, linearisation="initials")
    assert known.word_ids(words) == tuple(known.encode(tree)[1:-1])
    assert sorted(known.tags) == ["-", "-LRB-", "-RRB-", "0", "T", "t", "Ω"]
    assert known.word_ids(["a", "then"]) == (UNK, known.word_ids(["the"])[0])
    for free in (tokenizer_of(tree), tokenizer_of(tree, linearisation="tensor2tensor")):
        assert free.word_ids(words) == (UNK,) * len(words)


@pytest.mark.parametrize("linearisation", ALL)
@pytest.mark.parametrize("count", [100, pytest.param(100_000, marks=pytest.mark.slow)])
def test_encoded_trees_are_restored(linearisation: Linearisation, count: int, tree: Callable[[int], Tree]):
    known = tokenizer_of(*map(tree, range(300)), linearisation=linearisation)
    for seed in range(count):
        original = tree(seed)
        restored = known.to_tree(known.encode(str(original)), list(original.leaves()))
        assert restored == (original if linearisation == "tensor2tensor" else without_tags(original))


def test_any_tokens_can_be_repaired_to_a_tree_over_the_words(tree: Callable[[int], Tree]):
    known = tokenizer_of(*map(tree, range(50)))
    for seed in range(100):
        choices = random.Random(seed)
        ids = [choices.randrange(64) for _ in range(choices.randrange(40))]
        words = [f"w{number}" for number in range(choices.randrange(1, 9))]
        repaired = known.to_tree(ids, words)
        assert list(repaired.leaves()) == words
        assert repaired.label == "TOP"
        assert read_tree(str(repaired)) == repaired
        assert all(visited.word or visited.children for visited, _ in repaired.walk())


def test_unseen_labels_are_unknown():
    known = tokenizer_of(SENTENCE)
    assert known.encode("(TOP (WHNP (DT the) (NN dog)))").count(UNK) == 2
    assert UNK not in known.encode("(TOP (NP (FW the)))")
    assert UNK in tokenizer_of(SENTENCE, linearisation="tensor2tensor").encode("(TOP (NP (FW the)))")


def test_content_is_restored_and_damage_is_detected():
    known = tokenizer_of(SENTENCE, linearisation="tensor2tensor")
    again = TreeTokenizer.from_content(known.content, "brackets")
    assert again.content == known.content
    assert again.encode(SENTENCE) == known.encode(SENTENCE)
    labels = [known.content.replace(b'"S"', label) for label in (b'"S S"', b'"S("', b'"\\ud800"')]
    sizes = [known.content.replace(b"64", size) for size in (b"true", b"9")]
    for damaged in (b"", b"[]", known.content[:-9], *labels, *sizes):
        refused("`brackets` is damaged", TreeTokenizer.from_content, damaged, "brackets")


def test_the_longest_opening_run_is_learned_and_stored():
    known = tokenizer_of(SENTENCE, "(TOP (S (NP (NP (NN a)) (NN b))))")
    assert known.max_opening_run == 4  # includes TOP
    assert TreeTokenizer.from_content(known.content, "brackets").max_opening_run == 4
    assert tokenizer_of("(TOP " + "(S " * 90 + "(NN a)" + ")" * 91).max_opening_run is None
    older = known.content.replace(b' "in_a_row": 4,\n', b"")
    assert TreeTokenizer.from_content(older, "brackets").max_opening_run is None
    for wrong in (b"0", b"65", b"true", b'"4"'):
        damaged = known.content.replace(b'row": 4', b'row": ' + wrong)
        refused("`brackets` is damaged", TreeTokenizer.from_content, damaged, "brackets")


def test_too_small_sizes_are_rejected():
    assert refused("need 11", tokenizer_of, SENTENCE, size=10).hint == "set `vocabulary.target_size` to at least 11"


def test_repaired_trees_have_a_bounded_depth():
    known = tokenizer_of(SENTENCE)
    deep = known.to_tree([known.opening[0]] * 3000 + [known.words[0]], ["dog"])
    assert read_tree(str(deep)) == deep
    assert str(deep).count("(") == MAX_DEPTH
    assert repr(deep) == f"<{deep}>"
    assert hash(deep) == hash(read_tree(str(deep)))


def test_the_root_has_a_bracket_only_if_it_is_written():
    assert "TOP" not in tokenizer_of(SENTENCE, "(TOP (NN dog))", "(TOP (S (NN a)))").labels
    for shown in ("(TOP (S (NN a)) (S (NN b)))", "(TOP (TOP (NN a)))", "(TOP (S (TOP (NN a))))"):
        known = tokenizer_of(SENTENCE, shown)
        assert "TOP" in known.labels
        assert UNK not in known.encode(shown)
