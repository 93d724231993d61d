"""`parse` as a shell sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import specs
import zoo as library
from compiler import build
from specs import Spec
from zoo.data.corpus import builtin_pairs
from zoo.generation.parser import Parser
from zoo.models.weights import Weights
from zoo.text.trees.bracketed import format_tree, read_tree, read_treebank
from zoo.text.trees.drawing import draw_svg
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

Zoo = Callable[..., Any]
SENTENCES = ["The old dog sees a house .", "", "a ( b ) , c", "   ", "they wait"]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def spec() -> Spec:
    architecture = {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 8, "d_v": 8}
    decoding = {"beam": 4, "extra_length": 12}
    fields = {"architecture": architecture, "vocabulary": {"size": 101}, "decoding": decoding}
    return specs.load("parsing/tiny", {**fields, "compilation": {"backend": "eager"}})


@pytest.fixture(scope="module")
def vocabulary(spec: Spec) -> Vocabulary:
    pairs = list(builtin_pairs("train", 50, trees=True))
    return Vocabulary.learn(lambda: pairs, spec.vocabulary, len(pairs), spec.task)


@pytest.fixture
def parser(home: Path, spec: Spec, vocabulary: Vocabulary) -> Callable[..., Parser]:
    """A parser of random weights, in this run."""

    def make(folder: str = "runs/parser") -> Parser:
        run = Run(Path(folder))
        run.folder.mkdir(parents=True)
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        vocabulary.save(run.folder)
        Weights(build(spec).weights(), {"steps": "1", "longest_source": "60"}).write(run.weights)
        opened = library.load(folder, device="cpu")
        assert isinstance(opened, Parser)
        return opened

    return make


def written(parser: Parser) -> list[str]:
    return [str(tree or "") for tree in parser.parse(SENTENCES)]


def test_a_sentence_in_is_a_tree_out_and_empty_lines_stay_empty(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    wanted = written(parser())
    done = zoo("parse", "--model", "runs/parser", stdin=TEXT)
    lines = done.out.split("\n")
    assert (done.status, done.err, lines) == (0, "", [*wanted, ""])
    assert [line for line in lines[:5] if not line] == ["", ""]
    assert list(read_tree(lines[0]).leaves()) == SENTENCES[0].split()
    assert list(read_tree(lines[2]).leaves()) == ["a", "-LRB-", "b", "-RRB-", ",", "c"]


def test_a_parser_does_not_translate(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    parser()
    done = zoo("decode", "--model", "runs/parser", stdin=TEXT)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "error: `runs/parser` parses, and does not translate\n\n"
        "hint: `zoo parse --model runs/parser` parses with it; `zoo train tiny` trains a translator\n"
    )


def test_a_translator_does_not_parse(zoo: Zoo, parser: Callable[..., Parser], trained: Callable[..., Run]) -> None:
    parser()
    trained("runs/tiny")
    for models in (["runs/tiny"], ["runs/parser", "runs/tiny"]):
        done = zoo("parse", *(word for model in models for word in ("--model", model)), stdin=TEXT)
        assert (done.status, done.out) == (2, "")
        assert done.err == (
            "error: `runs/tiny` translates, and does not parse\n\n"
            "hint: `zoo decode --model runs/tiny` translates with it; `zoo train parsing/tiny` trains a parser\n"
        )


def test_the_options_of_the_search_are_the_librarys(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    tree = parser().parse("they wait", beam=2, alpha=0.0)
    done = zoo("parse", "--model", "runs/parser", "--beam", "2", "--alpha", "0", "--tokens", "9", stdin="they wait")
    assert done.out == f"{tree}\n"


def test_n_best_and_json_tell_scores(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    found = parser().hypotheses(SENTENCES, n_best=2)
    done = zoo("parse", "--model", "runs/parser", "--n-best", "2", stdin=TEXT)
    wanted = [(number, each) for number, several in enumerate(found, start=1) for each in several]
    assert done.out == "".join(f"{number}\t{each.score:.6f}\t{each.text}\n" for number, each in wanted)
    told = [
        json.loads(line)
        for line in zoo("parse", "--model", "runs/parser", "--n-best", "2", "--json", stdin=TEXT).out.splitlines()
    ]
    assert [each["source"] for each in told] == SENTENCES
    for each, several in zip(told, found, strict=True):
        assert [tree["tree"] for tree in each["trees"]] == [one.text for one in several if one.text]
        for tree, one in zip(each["trees"], several, strict=False):
            assert (tree["score"], tree["log_probability"]) == pytest.approx((one.score, one.log_probability), abs=1e-5)


def test_a_line_that_has_no_tree_is_named_behind_those_before_it(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    tree = parser().parse("they wait")
    good = f"they wait\t{tree}\n"
    done = zoo("score", "--model", "runs/parser", stdin=f"{good}they wait\tno tree\n{good}")
    assert done.status == 2
    assert "(<stdin>:2)" in done.err
    assert done.out == zoo("score", "--model", "runs/parser", stdin=good).out


def test_pretty_trees_have_an_empty_line_between_them_and_read_back(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    found = parser().parse(SENTENCES)
    done = zoo("parse", "--model", "runs/parser", "--pretty", stdin=TEXT)
    assert done.out == "\n".join(f"{format_tree(tree) if tree else ''}\n" for tree in found)
    assert list(read_treebank(done.out.split("\n"), "out")) == [tree for tree in found if tree]


def test_svg_draws_each_lines_best(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    found = [tree for tree in parser().parse(SENTENCES) if tree]
    done = zoo("parse", "--model", "runs/parser", "--svg", "trees.svg", "--n-best", "2", stdin=TEXT)
    assert done.status == 0
    assert done.out.count("\n") == 2 * 3 + 2
    assert Path("trees.svg").read_text(encoding="utf-8") == draw_svg(*found)
    assert zoo("parse", "--model", "runs/parser", "--svg", "none.svg", stdin="\n\n").status == 0
    assert not ElementTree.parse("none.svg").findall(f"{SVG}text")


def test_a_drawing_is_there_whole_or_not_at_all(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    parser()
    Path("old.svg").write_text("from before")
    done = zoo("parse", "--model", "runs/parser", "--svg", "old.svg", stdin=b"they wait\n" * 70 + b"na\xefve\n")
    assert done.status == 2
    assert "(<stdin>:71)" in done.err
    assert Path("old.svg").read_text() == "from before"
    assert sorted(path.name for path in Path().glob("*old*")) == ["old.svg"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--svg", "x.png"), "`x.png` does not end in .svg"),
        (("--svg", "x.svg", "--output", "./x.svg"), "`x.svg` would be written twice at once"),
        (("--svg", "in.svg", "--input", "in.svg"), "`in.svg` would be read and written at once"),
        (("--svg", "no/x.svg"), "`no/x.svg` cannot be written: there is no folder `no`"),
        (("--pretty", "--json"), "`--pretty` and `--json` are given, and each shows something else"),
        (("--pretty", "--n-best", "2"), "`--pretty` and `--n-best` are given, and each shows something else"),
    ],
)
def test_what_makes_no_sense_is_named(
    zoo: Zoo, parser: Callable[..., Parser], options: tuple[str, ...], problem: str
) -> None:
    parser()
    Path("in.svg").write_text("they wait\n")
    done = zoo("parse", "--model", "runs/parser", *options, stdin="they wait\n")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"error: {problem}\n\nhint: ")
    assert Path("in.svg").read_text() == "they wait\n"
    assert not Path("x.svg").exists()


def test_several_models_are_an_ensemble(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    both = Parser.ensemble([parser("runs/one"), parser("runs/two")])
    done = zoo("parse", "--model", "runs/one", "--model", "runs/two", stdin=TEXT)
    assert (done.status, done.out.split("\n")) == (0, [*written(both), ""])


def test_unconstrained_output_is_mended_to_trees_over_the_words(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    parser()
    done = zoo("parse", "--model", "runs/parser", "--unconstrained", stdin=TEXT)
    assert done.status == 0
    for line, sentence in zip(done.out.splitlines(), SENTENCES, strict=True):
        words = sentence.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert (list(read_tree(line).leaves()) if line else []) == words
    assert done.out != zoo("parse", "--model", "runs/parser", stdin=TEXT).out


def test_a_parser_is_published_and_verified_without_its_corpus(zoo: Zoo, parser: Callable[..., Parser]) -> None:
    read_treebank = written(parser())
    assert zoo("publish", "runs/parser", "--name", "parser").status == 0
    assert zoo("verify", "parser").status == 0
    assert zoo("parse", "--model", "parser", stdin=TEXT).out.split("\n") == [*read_treebank, ""]
