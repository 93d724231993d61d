"""A parser: whatever its weights, trees over exactly the words of the sentences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest
import torch

import specs
from compiler import TRANSLATE, Purpose, build
from specs import UNK
from tests.examples import SMALL
from tests.refusals import refused
from zoo.data import builtin
from zoo.data.corpus import tree_example
from zoo.generation.parser import Parser
from zoo.generation.text_search import translate_lines
from zoo.generation.translator import Translator
from zoo.text.trees.tokenizer import Linearisation
from zoo.text.trees.tree import Tree, read_tree, simplify, tokenize_words
from zoo.text.vocabulary import Vocabulary

PAIRS = [tree_example(str(simplify(read_tree(pair.tree)))) for pair in builtin.sentences("dev", 60)]
SENTENCES = ["the dog ( IOP ) sleeps .", "Sleep !", "no", "a b c d e f g h i j k l m", "-LRB- x -RRB-"]

MakeParser = Callable[..., Parser]


@pytest.fixture(scope="module")
def parser() -> MakeParser:
    def make(**more: Any) -> Parser:
        fields: dict[str, Any] = {**SMALL, "vocabulary": {"size": 90}}
        spec = specs.load("parsing/tiny", {**fields, "decoding.beam": 3, "decoding.extra_length": 20, **more})
        vocabulary = Vocabulary.learn(lambda: iter(PAIRS), spec.vocabulary, task=spec.task)
        torch.manual_seed(1)
        return Parser(build(spec, TRANSLATE), vocabulary, spec)

    return make


def words(tree: Tree) -> list[str]:
    return list(tree.leaves())


@pytest.mark.parametrize("linearisation", get_args(Linearisation))
@pytest.mark.parametrize("constrained", [True, False])
def test_every_output_is_a_tree_over_its_words(parser: MakeParser, linearisation: str, constrained: bool) -> None:
    how = {"task.linearisation": linearisation, "task.constrained": constrained, "vocabulary.target_size": 90}
    one = parser(**how)
    for best, text in zip(one.hypotheses(SENTENCES, n_best=3), SENTENCES, strict=True):
        for each in best:
            tree = read_tree(each.text)
            assert words(tree) == text.replace("(", "-LRB-").replace(")", "-RRB-").split()
            if constrained:
                brackets = [token for token in each.tokens if token not in one.symbols.words]
                written = [token for token in each.tokens if token in one.symbols.words]
                encoded = one.symbols.encode(each.text)
                assert [token for token in encoded if token not in (*one.symbols.words, UNK)] == brackets
                known = one.symbols.word_ids(words(tree)) or written
                assert all(due in (UNK, token) for due, token in zip(known, written, strict=True))


@pytest.fixture
def one(parser: MakeParser) -> Parser:
    return parser()


@pytest.mark.parametrize("kind", [Parser, Translator])
def test_an_ensemble_of_parsers_is_a_parser(one: Parser, kind: type[Translator]) -> None:
    both = kind.ensemble([one, one])
    assert isinstance(both, Parser)
    assert both.constraint is one.constraint
    assert words(both.parse("no")) == ["no"]


def test_one_sentence_gives_a_tree_and_a_list_gives_a_list(one: Parser) -> None:
    several = one.parse(SENTENCES)
    assert one.parse(SENTENCES[0]) == several[0]
    assert one.parse(SENTENCES[0], n_best=2)[0] == several[0]
    assert [best[0] for best in one.parse(SENTENCES, n_best=2)] == several
    assert one.parse(["", " ", "\u200b"]) == [None, None, None]
    assert one.parse([], n_best=2) == []


def test_words_are_those_of_a_treebank(one: Parser) -> None:
    sentences = {"She can't sing (today).": "She ca n't sing -LRB- today -RRB- .", "a , b": "a , b"}
    for text, tokens in sentences.items():
        assert words(one.parse(text)) == tokens.split()
        assert one.parse(tokens, tokenized=True) == one.parse(text)
    assert one.parse("-LRB- x -RRB-") == one.parse("( x )")
    assert words(one.parse("She sings.", tokenized=True)) == ["She", "sings."]
    assert words(one.parse(["She sings."], n_best=2)[0][1]) == ["She", "sings", "."]
    assert words(one.parse("the\u200bdog \u200b sleeps", tokenized=True)) == ["the", "dog", "sleeps"]


def test_only_english_is_tokenised() -> None:
    assert tokenize_words("She isn't old.", "en-GB") == "She is n't old ."
    assert tokenize_words("Sie ist's.", "de") == "Sie ist's."


def test_tree_probabilities_equal_the_searchs(one: Parser) -> None:
    for best, text in zip(one.hypotheses(SENTENCES, n_best=2), SENTENCES, strict=True):
        for each in best:
            assert one.score(text, each.text) == pytest.approx(each.log_probability, abs=1e-4)


def test_treebank_trees_are_scored_in_learned_form(parser: MakeParser) -> None:
    one = parser()
    tree = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (PP (IN 1/2)))))"
    treebanks = "( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBZ sleeps) (NP (-NONE- *-1)) (PP-TMP (IN 1\\/2)))))"
    assert one.score("the dog sleeps 1/2", treebanks) == one.score("the dog sleeps 1/2", tree)
    tree = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"
    assert one.score("the dog sleeps.", tree) == one.score("the dog sleeps .", tree)


def test_attention_over_words_and_brackets(parser: MakeParser) -> None:
    one = parser(**{"task.linearisation": "vinyals"})
    weights = one.program.weights()  # type: ignore[union-attr]
    one.attention_program = partial(build, one.spec, [Purpose.ATTEND], weights=weights, backend="eager")
    tree = "(TOP (S (NP (DT -LRB-) (NN dog)) (VP (VBZ sleeps))))"
    own, given = one.attention("( dog sleeps"), one.attention("( dog sleeps", tree).by_words()
    assert words(read_tree(own.translation)) == ["-LRB-", "dog", "sleeps"]
    assert own.log_probability == pytest.approx(one.score("( dog sleeps", own.translation), abs=1e-4)
    assert given.source == ("(", "dog", "sleeps", "</s>")
    assert given.target == ("(S", "(NP", "XX", "XX", ")NP", "(VP", "XX", ")VP", ")S", "</s>")
    refused("differ from the words in the sentence", one.attention, "the dog", tree)


def test_trees_of_other_sentences_cannot_be_scored(one: Parser) -> None:
    for tree, message in (
        ("(TOP (NP (DT the) (NN cat)))", "differ from the words in the sentence"),
        ("(TOP (NP (DT the)))", "differ from the words in the sentence"),
        ("(TOP (NP (DT the) (NN dog))", "not a single bracketed tree"),
    ):
        refused(message, one.score, "the dog", tree)


def test_prefixes_and_long_sentences_are_refused_with_their_number(parser: MakeParser) -> None:
    one = parser(**{"decoding.max_source_length": 30})
    problem = r"the text .* has the prefix .*, but a parser does not accept prefixes \(text 1\)"
    refused(problem, one.translate, "the dog", prefixes="(S")
    refused(r"has \d+ tokens, but the model takes at most 30 .*\(text 2\)", one.parse, ["the dog", "the dog . " * 40])


def test_a_sentence_without_a_possible_tree_is_refused_after_earlier_lines(parser: MakeParser) -> None:
    long, short = "abcdefgh ijklmnop", "a a a"
    found = translate_lines(parser(**{"decoding.extra_length": 0}), [long, long, short])
    assert [words(read_tree(next(found)[0].text)) for _ in range(2)] == [long.split()] * 2
    message = r"the tree of the text 'a a a' needs at least 5 tokens, but may have at most 3 \(text 3\)"
    refused(rf"{message}\n\nhint: .*`decoding\.extra_length`", next, found)
    repaired = parser(**{"decoding.extra_length": 0, "task.constrained": False}).parse(short)
    assert words(repaired) == short.split()
