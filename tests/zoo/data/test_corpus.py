"""Corpora as sentence pairs: files, treebanks, and the built-in corpus."""

import gzip
from pathlib import Path

import pytest

import specs
from specs import ZooError
from tests.examples import examples
from zoo.data import builtin
from zoo.data.corpus import CorpusReader, corpus_name, missing_part, tree_example
from zoo.report import Report
from zoo.text.trees.tree import read_tree, simplify

FILES = {"train": [{"source": "a.en", "target": "a.de"}], "dev": [{"held_out": 2}], "test": []}
TREES = """
( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-)) (. .)) )
(TOP (S (NP (-NONE- *)) (VP (VB Sleep)) (. !)))
"""
JOINED = TREES.replace("(TOP", "\ufeff(TOP")  # two files with byte order marks, one after the other
TREE_PAIRS = [
    (
        "The dog sleeps ( 1/2 ) .",
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ sleeps) (-LRB- -LRB-) (CD 1/2) (-RRB- -RRB-)) (. .)))",
    ),
    ("Sleep !", "(TOP (S (VP (VB Sleep)) (. !)))"),
]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def corpus_of(folder, source="train.en", target="train.de", report=None, **corpus):
    part = {"source": source, "target": target}
    given = {"folder": str(folder), "train": [part], "dev": [part], "test": [], "source": "en", "target": "de"}
    return CorpusReader(specs.load("tiny", {"corpus": {**given, **corpus}}), report or Report())


def read(corpus, split="train"):
    parts = range(len(getattr(corpus.corpus, split)))
    return [tuple(example.values()) for number in parts for example in corpus.part_examples(split, number)]


def pairs_of(folder, **options):
    return read(corpus_of(folder, **options))


def treebank_of(folder, name):
    sets = {"train": [{"trees": name}], "dev": [{"grammar": 3}], "test": []}
    corpus = {"corpus": {"folder": str(folder), **sets}, "vocabulary.size": 60}
    return CorpusReader(specs.load("parsing/tiny", corpus), Report())


def test_paths_start_at_the_folder_of_the_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data" / "train.en", "a\n")
    absolute = write(tmp_path / "other" / "de", "b\n")
    assert pairs_of("data", target=str(absolute)) == [("a", "b")]


@pytest.mark.parametrize(("sources", "targets"), [(3, 2), (2, 5), (0, 1)])
def test_sides_of_different_lengths_are_rejected(tmp_path, sources, targets):
    write(tmp_path / "train.en", "a\n" * sources)
    write(tmp_path / "train.de", "a\n" * targets)
    with pytest.raises(ZooError, match=rf"{sources} lines, but `.*train\.de` has {targets}"):
        pairs_of(tmp_path)


def test_empty_files_are_rejected(tmp_path):
    for name, content in (("train.en", ""), ("train.de", ""), ("set.sgm", "<doc></doc>"), ("ref.sgm", "<doc></doc>")):
        write(tmp_path / name, content)
    with pytest.raises(ZooError, match=r"train\.en` contains no line"):
        pairs_of(tmp_path)
    with pytest.raises(ZooError, match=r"set\.sgm` contains no <seg>"):
        pairs_of(tmp_path, source="set.sgm", target="ref.sgm")


def table_of(folder, **part):
    corpus = {"corpus": {"folder": str(folder), "source": "en", "target": "fr", "dev": [], "test": []}}
    spec = specs.load("tiny", corpus | {"corpus.train": [{"tsv": "pairs.tsv", **part}]})
    return CorpusReader(spec, Report())


def test_two_columns_of_a_table_are_pairs(tmp_path):
    write(tmp_path / "pairs.tsv", "a house\tune maison\t1\n\tvide\t2\n")
    assert read(table_of(tmp_path)) == [("a house", "une maison"), ("", "vide")]
    turned = table_of(tmp_path, source_column=3, target_column=1)
    assert read(turned) == [("1", "a house"), ("2", "")]
    assert turned.identity() != table_of(tmp_path).identity()
    assert turned.bytes() == (tmp_path / "pairs.tsv").stat().st_size
    assert corpus_name(turned.corpus) == tmp_path.name
    write(tmp_path / "pairs.tsv.gz", "a\tb\n")
    assert read(table_of(tmp_path, tsv="pairs.tsv.gz")) == [("a", "b")]


def test_cells_that_training_lines_of_a_table_lack_are_empty(tmp_path):
    write(tmp_path / "pairs.tsv", "\ufeffa\tb\tc\r\nd\te\r\nf\n\ng\th\n")
    assert read(table_of(tmp_path)) == [("a", "b"), ("d", "e"), ("f", ""), ("", ""), ("g", "h")]


@pytest.mark.parametrize(("split", "text", "line"), [("train", "a,b\nc\td\n", 1), ("dev", "a\tb\nc\n", 2)])
def test_the_first_line_of_a_table_and_all_lines_of_dev_need_both_columns(tmp_path, split, text, line):
    write(tmp_path / "pairs.tsv", text)
    corpus = {"folder": str(tmp_path), "source": "en", "target": "fr", "train": [], "dev": [], "test": []}
    corpus[split] = [{"tsv": "pairs.tsv"}]
    with pytest.raises(ZooError, match="the line has no column 2") as caught:
        read(CorpusReader(specs.load("tiny", {"corpus": corpus}), Report()), split)
    assert caught.value.where == f"{tmp_path}/pairs.tsv:{line}"
    assert "separate the columns with tabs" in caught.value.hint


def test_lines_of_a_table_with_more_columns_than_the_first_are_refused(tmp_path):
    write(tmp_path / "pairs.tsv", "a\tb\tc\nd\ne\tf\tg\th\n")
    with pytest.raises(ZooError, match="the line has 4 columns, but the first line has 3") as caught:
        read(table_of(tmp_path))
    assert caught.value.where == f"{tmp_path}/pairs.tsv:3"


def test_source_and_target_of_a_table_are_different_columns(tmp_path):
    with pytest.raises(ZooError, match=r"`corpus\.train\[0\]` has the same column for source and target: 2"):
        table_of(tmp_path, source_column=2)


def test_missing_tables_are_reported(tmp_path):
    write(tmp_path / "pairs.tsv", "a\tb\n")
    (tmp_path / "pairs.tsv").unlink()
    with pytest.raises(ZooError, match=r"pairs\.tsv` does not exist"):
        read(table_of(tmp_path))
    assert "pairs.tsv` does not exist" in missing_part(specs.load("tiny", {"corpus": table_of(tmp_path).corpus}))


def test_missing_files_are_reported_with_their_path(tmp_path):
    with pytest.raises(ZooError, match=rf"{tmp_path}/train\.en` does not exist") as caught:
        pairs_of(tmp_path)
    assert "corpus.folder=" in caught.value.hint
    (tmp_path / "train.en").mkdir()
    with pytest.raises(ZooError, match="is a folder"):
        pairs_of(tmp_path)
    # Users that do not exist and names that no file can have
    for source in ("~nosuchuser/train.en", "a\0b", "x" * 3000):
        with pytest.raises(ZooError, match="does not exist"):
            pairs_of(tmp_path, source=source)
        with pytest.raises(ZooError, match="does not exist"):
            read(treebank_of(tmp_path, source))
    with pytest.raises(ZooError, match=r"the corpus file `~nosuchuser/train\.en` does not exist"):
        pairs_of("~nosuchuser")


def test_the_identity_depends_on_content_format_and_held_out_pairs_and_not_on_the_folder(tmp_path):
    for folder in ("first", "second"):
        for name in ("a", "b", "a.sgm", "b.sgm"):
            write(tmp_path / folder / name, "<seg>a</seg>")
    first, second = (corpus_of(tmp_path / folder, "a", "b").identity() for folder in ("first", "second"))
    assert first == second
    sgml = corpus_of(tmp_path / "first", "a.sgm", "b.sgm").identity()
    one, two = (corpus_of(tmp_path / "first", "a", "b", dev=[{"held_out": count}]).identity() for count in (1, 2))
    write(tmp_path / "second" / "b", "c\n")
    identities = [first, sgml, one, two, corpus_of(tmp_path / "second", "a", "b").identity()]
    assert all(each not in identities[:index] for index, each in enumerate(identities))


@pytest.mark.parametrize("target", ["train.en", "a/../train.en"])
def test_source_and_target_must_be_different_files(tmp_path, target):
    with pytest.raises(ZooError, match=r"`corpus\.train\[0\]` has the same file for source and target: `train\.en`"):
        corpus_of(tmp_path, target=target)
    part = {"archive": "http://x/y.tgz", "sha256": None, "source": "train.en", "target": target}
    with pytest.raises(ZooError, match="has the same file for source and target"):
        corpus_of(tmp_path, train=[part])


@pytest.mark.parametrize("name", ["a.mrg", "a.mrg.gz", "section"])
def test_a_treebank_gives_sentences_and_trees(tmp_path, name):
    if name == "section":
        for number, lines in enumerate(TREES.strip().split("\n")):
            write(tmp_path / name / f"wsj_{number}.mrg", lines)
        write(tmp_path / name / ".hidden", "nothing")
    else:
        write(tmp_path / name, JOINED)
    corpus = treebank_of(tmp_path, name)
    assert read(corpus) == TREE_PAIRS
    assert corpus.bytes() > 0
    if name == "a.mrg":
        write(tmp_path / "same", JOINED)
        write(tmp_path / "other", JOINED.replace("dog", "cat"))
        same, other = (treebank_of(tmp_path, name).identity() for name in ("same", "other"))
        assert corpus.identity() == same != other


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("(S (NN dog)", "not closed .*bad.mrg:1"),
        ("(S (NN dog))\n(S (NN d\u2028og))", r"has no brackets around it .*bad.mrg:2"),
        ("(S (NN dog))\n(S (NN \x7f))", r"are empty .*bad.mrg:2"),
    ],
)
def test_invalid_trees_are_rejected_with_file_and_line(tmp_path, content, problem):
    write(tmp_path / "bad.mrg", content)
    with pytest.raises(ZooError, match=problem):
        read(treebank_of(tmp_path, "bad.mrg"))


def test_empty_treebanks_are_rejected(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ZooError, match="contains no file"):
        read(treebank_of(tmp_path, "empty"))


def test_missing_parts_are_found_without_downloading():
    spec = specs.load("tiny", {"corpus": {"folder": "data", **FILES}})
    assert missing_part(spec) == "its corpus is missing: `data/a.en` does not exist"
    for side in ("en", "de"):
        write(Path(f"data/a.{side}"), "")
    assert missing_part(spec) is None
    assert missing_part(specs.load("tiny")) is None
    problem = "its corpus is missing: training-parallel-europarl-v7.tgz has not been downloaded"
    assert missing_part(specs.load("base")) == problem


def test_names_of_corpora():
    names = {
        "tiny": "the built-in corpus (40,000)",
        "multi30k-ende": "multi30k",
        "base": "training-parallel-europarl-v7.tgz and 2 more",
        "parsing/wsj": "wsj",
    }
    assert {name: corpus_name(specs.load(name).corpus) for name in names} == names
    assert corpus_name(specs.load("tiny", {"corpus": FILES}).corpus) == "a.en"


def test_pairs_of_the_builtin_corpus_are_sentences_with_translations_or_trees():
    both = {"source": "en", "target": "de"}
    known = list(builtin.sentences("dev", 200))
    text = list(builtin.examples("dev", 200, {"source": "text", "target": "text"}, both))
    assert text == examples((pair.source, pair.target) for pair in known)
    turned = builtin.examples("dev", 200, {"source": "text", "target": "text"}, {"source": "de", "target": "en"})
    assert list(turned) == examples((pair.target, pair.source) for pair in known)
    trees = [tree_example(str(simplify(read_tree(pair.tree)))) for pair in known]
    assert list(builtin.examples("dev", 200, {"source": "text", "target": "trees"}, both)) == trees
