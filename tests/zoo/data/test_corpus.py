"""Corpora as sentence pairs: files, treebanks, and the built-in corpus."""

import gzip
import os
from pathlib import Path

import pytest

import specs
from tests.examples import examples
from tests.refusals import refused
from zoo.data import builtin
from zoo.data.corpus import CorpusReader, tree_example
from zoo.report import Report
from zoo.text.trees.tree import read_tree, simplify

FILES = {"train": [{"source": "a.en", "target": "a.de"}], "dev": [{"held_out": 2}], "test": []}
TREES = """
( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-)) (. .)) )
(TOP (S (NP (-NONE- *)) (VP (VB Sleep)) (. !)))
"""
JOINED = TREES.replace("(TOP", "\ufeff(TOP")  # two files with byte order marks, one after the other
READ_TREES = [
    "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1/2) (-RRB- -RRB-)) (. .)))",
    "(TOP (S (VP (VB Sleep)) (. !)))",
]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def corpus_of(folder, source="train.en", target="train.de", **corpus):
    part = {"source": source, "target": target}
    given = {"folder": str(folder), "train": [part], "dev": [part], "test": [], "source": "en", "target": "de"}
    return CorpusReader(specs.load("tiny", {"corpus": {**given, **corpus}}), Report())


def read(corpus, split="train"):
    return [tuple(example.values()) for example in corpus.readers_of(split)[0].examples()]


def treebank_of(folder, name):
    corpus = {"folder": str(folder), "train": [{"trees": name}], "dev": [{"grammar": 3}], "test": []}
    return CorpusReader(specs.load("parsing/tiny", {"corpus": corpus, "vocabulary.size": 60}), Report())


def test_sides_of_different_lengths_and_empty_files_are_rejected(tmp_path):
    for sources, targets in ((3, 2), (2, 5), (0, 1)):
        write(tmp_path / "train.en", "a\n" * sources)
        write(tmp_path / "train.de", "a\n" * targets)
        refused(rf"{sources} lines, but `.*train\.de` has {targets}", read, corpus_of(tmp_path))
    for suffix, content, missing in (("txt", "", "line"), ("sgm", "<doc></doc>", "<seg>")):
        source, target = (write(tmp_path / f"{side}.{suffix}", content).name for side in ("source", "target"))
        refused(rf"source\.{suffix}` contains no {missing}", read, corpus_of(tmp_path, source=source, target=target))


def table_of(folder, split="train", **part):
    return corpus_of(folder, **{"train": [], "dev": [], split: [{"tsv": "pairs.tsv", **part}]})


def test_two_columns_of_a_table_are_pairs(tmp_path):
    write(tmp_path / "pairs.tsv", "a house\tune maison\t1\n\tvide\t2\n")
    assert read(table_of(tmp_path)) == [("a house", "une maison"), ("", "vide")]
    turned = table_of(tmp_path, source_column=3, target_column=1)
    assert read(turned) == [("1", "a house"), ("2", "")]
    assert turned.identity() != table_of(tmp_path).identity()
    assert (turned.bytes(), turned.short_name) == ((tmp_path / "pairs.tsv").stat().st_size, tmp_path.name)
    write(tmp_path / "pairs.tsv.gz", "a\tb\n")
    assert read(table_of(tmp_path, tsv="pairs.tsv.gz")) == [("a", "b")]
    # cells that lines of training lack are empty
    write(tmp_path / "pairs.tsv", "\ufeffa\tb\tc\r\nd\te\r\nf\n\ng\th\n")
    assert read(table_of(tmp_path)) == [("a", "b"), ("d", "e"), ("f", ""), ("", ""), ("g", "h")]


@pytest.mark.parametrize(
    ("split", "text", "line", "problem", "hint"),
    [
        ("train", "a,b\nc\td\n", 1, "the line has no column 2", "separate the columns with tabs"),
        ("dev", "a\tb\nc\n", 2, "the line has no column 2", "separate the columns with tabs"),
        ("train", "a\tb\tc\nd\ne\tf\tg\th\n", 3, "the line has 4 columns, but the first line has 3", ""),
    ],
)
def test_wrong_lines_of_a_table_are_refused(tmp_path, split, text, line, problem, hint):
    write(tmp_path / "pairs.tsv", text)
    error = refused(problem, read, table_of(tmp_path, split), split)
    assert error.where == f"{tmp_path}/pairs.tsv:{line}"
    assert hint in (error.hint or "")


def test_missing_tables_and_equal_columns_are_reported(tmp_path):
    refused(r"pairs\.tsv` does not exist", read, table_of(tmp_path))
    assert "pairs.tsv` does not exist" in table_of(tmp_path).missing_part()
    refused(r"`corpus\.train` has the same column .*: `2` \(pairs\.tsv\)", table_of, tmp_path, source_column=2)


def test_missing_files_are_reported_with_their_path(tmp_path):
    assert "corpus.folder=" in refused(rf"{tmp_path}/train\.en` does not exist", read, corpus_of(tmp_path)).hint
    (tmp_path / "train.en").mkdir()
    refused("is a folder", read, corpus_of(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    refused("is not a regular file", read, corpus_of(tmp_path, "pipe"))
    # Users that do not exist and names that no file can have
    for source in ("~nosuchuser/train.en", "a\0b", "x" * 3000):
        for corpus in (corpus_of(tmp_path, source), treebank_of(tmp_path, source)):
            refused("does not exist", read, corpus)
    refused(r"the corpus file `~nosuchuser/train\.en` does not exist", read, corpus_of("~nosuchuser"))


def test_the_identity_depends_on_content_format_and_held_out_pairs_and_not_on_the_folder(tmp_path):
    for folder in ("first", "second"):
        for name in ("a", "b", "a.sgm", "b.sgm"):
            write(tmp_path / folder / name, "<seg>a</seg>")
    first = corpus_of(tmp_path / "first", "a", "b").identity()
    assert first == corpus_of(tmp_path / "second", "a", "b").identity()
    write(tmp_path / "second" / "b", "c\n")
    identities = [first, corpus_of(tmp_path / "second", "a", "b").identity()]
    identities.append(corpus_of(tmp_path / "first", "a.sgm", "b.sgm").identity())
    identities += [corpus_of(tmp_path / "first", "a", "b", dev=[{"held_out": n}]).identity() for n in (1, 2)]
    assert all(each not in identities[:index] for index, each in enumerate(identities))


@pytest.mark.parametrize("target", ["train.en", "a/../train.en"])
@pytest.mark.parametrize("archive", [{}, {"archive": "http://x/y.tgz", "sha256": None}])
def test_source_and_target_must_be_different_files(tmp_path, target, archive):
    problem = r"`corpus\.train` has the same file for source and target: `train\.en`"
    refused(problem, corpus_of, tmp_path, train=[{**archive, "source": "train.en", "target": target}])


@pytest.mark.parametrize("name", ["a.mrg", "a.mrg.gz", "section"])
def test_a_treebank_gives_sentences_and_trees(tmp_path, name):
    files = {"wsj_0.mrg": TREES.split("\n")[1], "wsj_1.mrg": TREES.split("\n")[2], ".hidden": "nothing"}
    if name == "section":
        for path, content in files.items():
            write(tmp_path / name / path, content)
    else:
        write(tmp_path / name, JOINED)
    corpus = treebank_of(tmp_path, name)
    assert read(corpus) == [*zip(("The dog sleeps ( 1/2 ) .", "Sleep !"), READ_TREES, strict=True)]
    assert corpus.bytes() > 0
    write(tmp_path / "same", JOINED)
    write(tmp_path / "other", JOINED.replace("dog", "cat"))
    same, other = (treebank_of(tmp_path, name).identity() for name in ("same", "other"))
    assert same != other
    assert name != "a.mrg" or corpus.identity() == same


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("(S (NN dog)", "not closed .*bad.mrg:1"),
        ("(S (NN dog))\n(S (NN d\u2028og))", r"has no brackets around it .*bad.mrg:2"),
        ("(S (NN dog))\n(S (NN \x7f))", r"contains no words .*bad.mrg:2"),
    ],
)
def test_invalid_trees_are_rejected_with_file_and_line(tmp_path, content, problem):
    write(tmp_path / "bad.mrg", content)
    refused(problem, read, treebank_of(tmp_path, "bad.mrg"))
    (tmp_path / "empty").mkdir()
    refused("contains no file", read, treebank_of(tmp_path, "empty"))


def test_missing_parts_are_found_without_downloading():
    files = CorpusReader(specs.load("tiny", {"corpus": {"folder": "data", **FILES}}), Report())
    assert files.missing_part() == "its corpus is missing: `data/a.en` does not exist"
    for side in ("en", "de"):
        write(Path(f"data/a.{side}"), "")
    assert files.missing_part() is None
    tiny, base = (CorpusReader(specs.load(name), Report()).missing_part() for name in ("tiny", "base"))
    assert (tiny, base) == (None, "its corpus is missing: training-parallel-europarl-v7.tgz has not been downloaded")


def test_pairs_of_the_builtin_corpus_are_sentences_with_translations_or_trees():
    known = list(builtin.sentences("dev", 200))
    trees = [tree_example(str(simplify(read_tree(pair.tree)))) for pair in known]
    for source, target, kind, expected in (
        ("en", "de", "text", examples((pair.source, pair.target) for pair in known)),
        ("de", "en", "text", examples((pair.target, pair.source) for pair in known)),
        ("en", "de", "trees", trees),
    ):
        streams, languages = {"source": "text", "target": kind}, {"source": source, "target": target}
        assert list(builtin.examples("dev", 200, streams, languages)) == expected
