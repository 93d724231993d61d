"""`zoo parse`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import zoo as library
from tests.conftest import Zoo
from zoo.generation.parser import Parser
from zoo.text.trees.tree import format_tree, read_tree, read_treebank
from zoo.training.run import Run

SENTENCES = ["The old dog sees a house .", "", "a ( b ) , c", "   ", "they wait"]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES)


@pytest.fixture
def parser(parser_run: Callable[..., Run]) -> Callable[..., Parser]:
    """Return a function that writes a run with random weights and loads it."""

    def make(folder: str = "runs/parser") -> Parser:
        opened = library.load(parser_run(folder).folder, device="cpu")
        assert isinstance(opened, Parser)
        return opened

    return make


def parsed(parser: Parser) -> list[str]:
    return [str(tree or "") for tree in parser.parse(SENTENCES)]


def test_each_line_gives_a_tree_and_empty_lines_stay_empty(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    model = parser()
    result = zoo("parse", "--model", "runs/parser", stdin=TEXT)
    lines = result.out.split("\n")
    assert (result.status, result.err, lines) == (0, "", [*parsed(model), ""])
    assert list(read_tree(lines[0]).leaves()) == SENTENCES[0].split()
    assert list(read_tree(lines[2]).leaves()) == ["a", "-LRB-", "b", "-RRB-", ",", "c"]
    options = ("--beam", "2", "--alpha", "0", "--max-batch-tokens", "9")
    result = zoo("parse", "--model", "runs/parser", *options, stdin="they wait")
    assert result.out == f"{model.parse('they wait', beam=2, alpha=0.0)}\n"


def test_parsers_and_translators_are_not_exchangeable(
    zoo: Zoo, parser: Callable[..., Parser], trained: Callable[..., Run]
) -> None:
    parser()
    trained("runs/tiny")
    result = zoo("decode", "--model", "runs/parser", stdin=TEXT)
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "error: the model `runs/parser` has the task `parsing`, so `zoo decode` cannot use it\n\n"
        "hint: run `zoo parse --model runs/parser`, or train another model with `zoo train tiny`\n"
    )
    result = zoo("parse", "--model", "runs/parser", "--model", "runs/tiny", stdin=TEXT)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(
        "error: the model `runs/tiny` has the task `translation`, so `zoo parse` cannot use it"
    )


def test_n_best_and_json_have_scores(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    expected = parser().hypotheses(SENTENCES, n_best=2)
    result = zoo("parse", "--model", "runs/parser", "--n-best", "2", stdin=TEXT)
    numbered = [(number, each) for number, parses in enumerate(expected, start=1) for each in parses]
    assert result.out == "".join(f"{number}\t{each.score:.6f}\t{each.text}\n" for number, each in numbered)
    lines = zoo("parse", "--model", "runs/parser", "--n-best", "2", "--json", stdin=TEXT).out.splitlines()
    values = [json.loads(line) for line in lines]
    assert [value["source"] for value in values] == SENTENCES
    for value, parses in zip(values, expected, strict=True):
        assert [tree["tree"] for tree in value["trees"]] == [parse.text for parse in parses if parse.text]
        for tree, parse in zip(value["trees"], parses, strict=False):
            scores = tree["score"], tree["log_probability"]
            assert scores == pytest.approx((parse.score, parse.log_probability), abs=1e-5)


def test_pretty_trees_are_separated_and_can_be_read(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    expected = parser().parse(SENTENCES)
    result = zoo("parse", "--model", "runs/parser", "--pretty", stdin=TEXT)
    assert result.out == "\n".join(f"{format_tree(tree) if tree else ''}\n" for tree in expected)
    assert list(read_treebank(result.out.split("\n"), "out")) == [tree for tree in expected if tree]


def test_several_parsers_are_an_ensemble(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    ensemble = Parser.ensemble([parser("runs/one"), parser("runs/two")])
    result = zoo("parse", "--model", "runs/one", "--model", "runs/two", stdin=TEXT)
    assert (result.status, result.out.split("\n")) == (0, [*parsed(ensemble), ""])


def test_unconstrained_output_is_repaired_to_trees_over_the_words(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    parser()
    result = zoo("parse", "--model", "runs/parser", "--unconstrained", stdin=TEXT)
    assert result.status == 0
    for line, sentence in zip(result.out.splitlines(), SENTENCES, strict=True):
        words = sentence.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert (list(read_tree(line).leaves()) if line else []) == words
    assert result.out != zoo("parse", "--model", "runs/parser", stdin=TEXT).out


@pytest.mark.integration
def test_a_published_parser_works_without_its_corpus(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    expected = parsed(parser())
    assert zoo("publish", "runs/parser", "--name", "parser").status == 0
    assert zoo("verify", "parser").status == 0
    assert zoo("parse", "--model", "parser", stdin=TEXT).out.split("\n") == [*expected, ""]
