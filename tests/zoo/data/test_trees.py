"""Corpora of trees: pairs of words and brackets, from treebanks and from the built-in grammar."""

import gzip
from pathlib import Path
from typing import Any, get_args

import pytest

import specs
from specs import UNK, ZooError
from zoo.data.corpus import ParallelCorpus
from zoo.data.prepare import prepare
from zoo.report import Report
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tokenizer import Linearisation, TreeTokenizer

TREES = """
( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-)) (. .)) )
(TOP (S (NP (-NONE- *)) (VP (VB Sleep)) (. !)))
"""
PAIRS = [
    (
        "The dog sleeps ( 1/2 ) .",
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1/2) (-RRB- -RRB-)) (. .)))",
    ),
    ("Sleep !", "(TOP (S (VP (VB Sleep)) (. !)))"),
]


def spec(folder: Path, part: str, **more: Any) -> specs.Spec:
    sets = {"train": [{"trees": part}], "dev": [{"grammar": 3}], "test": []}
    return specs.load("parsing/tiny", {"corpus": {"folder": str(folder), **sets}, "vocabulary.size": 60, **more})


@pytest.mark.parametrize("name", ["a.mrg", "a.mrg.gz", "section"])
def test_a_treebank_is_pairs_of_words_and_trees(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    if name == "section":
        place.mkdir()
        for number, lines in enumerate(TREES.strip().split("\n")):
            (place / f"wsj_{number}.mrg").write_text(lines)
        (place / ".hidden").write_text("nothing")
    else:
        place.write_bytes(gzip.compress(TREES.encode()) if name.endswith(".gz") else TREES.encode())
    text = ParallelCorpus(spec(tmp_path, name), Report())
    assert list(text.pairs("train")) == PAIRS
    assert text.bytes() > 0


def test_the_same_trees_in_another_place_are_the_same_corpus(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(TREES)
    (tmp_path / "c").write_text(TREES.replace("dog", "cat"))
    first, second, third = (ParallelCorpus(spec(tmp_path, name), Report()).identity() for name in "abc")
    assert first == second != third


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("(S (NN dog)", "not closed"),
        ("", "no tree"),
        ("(S (NN dog))\n(S)", "nothing in the brackets"),
        ("dog", "outside"),
        ("(S (NN dog))\n(S (NN d\ufeffog))", r"without a bracket .*bad.mrg:2"),
        ("(S (NN dog))\n(S (NN \x7f))", r"nothing in the brackets .*bad.mrg:2"),
    ],
)
def test_what_is_no_treebank_is_told_with_its_file(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "bad.mrg").write_text(content)
    with pytest.raises(ZooError, match=told) as error:
        list(ParallelCorpus(spec(tmp_path, "bad.mrg"), Report()).pairs("train"))
    assert "bad.mrg" in str(error.value)


def test_marks_of_byte_order_between_trees_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "joined").write_text("\ufeff(S (NN dog))\n\ufeff(S (NN cat))\n")
    text = ParallelCorpus(spec(tmp_path, "joined"), Report())
    assert [words for words, _ in text.pairs("train")] == ["dog", "cat"]


def test_no_treebank_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, told in (("nowhere", "is not there"), ("empty", "no file in the folder")):
        with pytest.raises(ZooError, match=told):
            list(ParallelCorpus(spec(tmp_path, name), Report()).pairs("train"))


@pytest.mark.parametrize("linearisation", get_args(Linearisation))
def test_trees_are_prepared_like_any_corpus(tmp_path: Path, linearisation: str) -> None:
    parts = {"corpus.train": [{"grammar": 1500}], "corpus.dev": [{"grammar": 3}, {"held_out": 2}], "corpus.test": []}
    sizes = {"vocabulary.size": 90, "vocabulary.target_size": 90, "task.linearisation": linearisation}
    prepared = prepare(specs.load("parsing/tiny", parts | sizes), Report())
    symbols = prepared.vocabulary.target
    assert isinstance(symbols, TreeTokenizer)
    assert symbols.linearisation == linearisation
    assert prepared.vocabulary.sizes == (90, 90)
    sources, trees = prepared.texts("dev")
    assert len(trees) == 5
    store = prepared.store("dev")
    for number, (source, tree) in enumerate(zip(sources, trees, strict=True)):
        assert " ".join(read_tree(tree).leaves()) == source
        ids = store.target(number).tolist()
        assert UNK not in ids
        assert [each.word for each, _ in symbols.to_tree(ids, source.split()).walk()] == [
            each.word for each, _ in read_tree(tree).walk()
        ]
    translating = specs.load("tiny", {**parts, "vocabulary.size": 90})
    assert prepare(translating, Report()).fingerprint != prepared.fingerprint
