"""`zoo parse`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

import zoo as library
from tests.conftest import Trained, Zoo
from zoo.generation.parser import Parser
from zoo.text.trees.tree import format_tree, read_tree, read_treebank
from zoo.training.run import Run

SENTENCES = ["The old dog sees a house .", "", "a ( b ) , c", "   ", "they wait"]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES)


@pytest.fixture
def parser(parser_run: Callable[..., Run]) -> Parser:
    """The parser of `runs/parser`, with random weights."""
    opened = library.load(parser_run("runs/parser").folder, device="cpu")
    assert isinstance(opened, Parser)
    return opened


@pytest.fixture
def parse(zoo: Zoo, parser: Parser) -> Zoo:
    """A function that runs `zoo parse` with the model of `parser`."""
    return partial(zoo, "parse", "--model", "runs/parser", stdin=TEXT)


def parsed(parser: Parser) -> list[str]:
    return [*(str(tree or "") for tree in parser.parse(SENTENCES)), ""]


def test_each_line_gives_a_tree_and_empty_lines_stay_empty(parse: Zoo, parser: Parser) -> None:
    result = parse()
    lines = result.out.split("\n")
    assert (result.status, result.err, lines) == (0, "", parsed(parser))
    assert list(read_tree(lines[0]).leaves()) == SENTENCES[0].split()
    assert list(read_tree(lines[2]).leaves()) == ["a", "-LRB-", "b", "-RRB-", ",", "c"]
    result = parse("--beam", "2", "--alpha", "0", "--max-batch-tokens", "9", stdin="they wait")
    assert result.out == f"{parser.parse('they wait', beam=2, alpha=0.0)}\n"
    unconstrained = parse("--unconstrained").out.split("\n")
    assert list(read_tree(unconstrained[2]).leaves()) == ["a", "-LRB-", "b", "-RRB-", ",", "c"]
    assert unconstrained != lines


def test_parsers_and_translators_are_not_exchangeable(zoo: Zoo, parse: Zoo, trained: Trained) -> None:
    trained("runs/tiny")
    assert zoo("decode", "--model", "runs/parser", stdin=TEXT).refusal == (
        "error: the model `runs/parser` has the task `parsing`, so `zoo decode` cannot use it\n\n"
        "hint: run `zoo parse --model runs/parser`, or train another model with `zoo train tiny`\n"
    )
    problem = "error: the model `runs/tiny` has the task `translation`, so `zoo parse` cannot use it"
    assert parse("--model", "runs/tiny").refusal.startswith(problem)


def test_n_best_and_json_have_scores(parse: Zoo, parser: Parser) -> None:
    expected = parser.hypotheses(SENTENCES, n_best=2)
    numbered = [(number, each) for number, parses in enumerate(expected, start=1) for each in parses]
    lines = [f"{number}\t{each.score:.6f}\t{each.text}\n" for number, each in numbered]
    assert parse("--n-best", "2").out == "".join(lines)
    values = [json.loads(line) for line in parse("--n-best", "2", "--json").out.splitlines()]
    assert [value["source"] for value in values] == SENTENCES
    for value, parses in zip(values, expected, strict=True):
        assert [tree["tree"] for tree in value["trees"]] == [each.text for each in parses if each.text]
        for tree, found in zip(value["trees"], parses, strict=False):
            scores = tree["score"], tree["log_probability"]
            assert scores == pytest.approx((found.score, found.log_probability), abs=1e-5)


def test_pretty_trees_are_separated_and_can_be_read(parse: Zoo, parser: Parser) -> None:
    expected, text = parser.parse(SENTENCES), parse("--pretty").out
    assert text == "\n".join(f"{format_tree(tree) if tree else ''}\n" for tree in expected)
    assert list(read_treebank(text.split("\n"), "out")) == [tree for tree in expected if tree]


def test_several_parsers_are_an_ensemble(parse: Zoo, parser: Parser, parser_run: Callable[..., Run]) -> None:
    other = library.load(parser_run("runs/two").folder, device="cpu")
    assert parse("--model", "runs/two").printed.split("\n") == parsed(Parser.ensemble([parser, other]))


@pytest.mark.integration
def test_a_published_parser_is_verified_and_parses(zoo: Zoo, parser: Parser) -> None:
    assert zoo("publish", "runs/parser", "--name", "parser").status == 0
    assert zoo("verify", "parser").status == 0
    assert zoo("parse", "--model", "parser", stdin=TEXT).out.split("\n") == parsed(parser)
