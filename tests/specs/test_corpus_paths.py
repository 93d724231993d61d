"""Paths of a corpus are relative to the file that lists them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from specs.corpus_paths import language_suffix
from specs.loader import load, parent, parse
from tests.specs.files import refusal, write

PARTS = "train: [{source: my.en, target: my.de}]"


def folder(file: str, overrides: Sequence[str] = ()) -> str:
    return load(file, overrides).corpus.folder


def test_folder_is_relative_to_the_file() -> None:
    folders = {
        PARTS: "odd",
        "test: [{source: my.en, target: my.de}]": "odd",
        "dev: [{grammar: 5}]": ".",
        f"{PARTS}, folder: data": "odd/data",
        f"{PARTS}, folder: ../data": "data",
        f"{PARTS}, folder: /data": "/data",
        f"{PARTS}, folder: ~/data": "~/data",
    }
    for corpus, expected in folders.items():
        file = write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{corpus}}}\n")
        assert folder(file) == expected
        absolute = expected if expected[0] in "/~." else str(Path(expected).absolute())
        assert folder(str(Path(file).absolute())) == absolute
    for corpus, unchanged in ((PARTS, "."), (f"{PARTS}, folder: a/../b", "a/../b")):
        assert folder(write("own.yaml", f"extends: tiny\ncorpus: {{{corpus}}}\n")) == unchanged


def test_each_file_of_a_chain_is_relative_to_its_own_folder() -> None:
    write("one/mine.yaml", f"extends: tiny\ncorpus: {{folder: data, {PARTS}}}\n")
    file = write("one/deep/own.yaml", "extends: ../mine.yaml\ncorpus: {dev: [{source: d.en, target: d.de}]}\n")
    assert folder(file) == parent(file).corpus.folder == "one/data"  # type: ignore[union-attr]
    assert folder(write("one/deep/other.yaml", "extends: ../mine.yaml\ncorpus: {folder: data}\n")) == "one/deep/data"


def parts(file: str, overrides: Sequence[str] = ()) -> tuple[str, str, str]:
    """Return the folder, and the sources of train and dev."""
    corpus = load(file, overrides).corpus
    return corpus.folder, corpus.train[0].source, corpus.dev[0].source  # type: ignore[union-attr]


def test_parts_of_several_files_are_each_relative_to_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    write("data/sets.yaml", "extends: tiny\ncorpus: {dev: [{source: d.en, target: d.de}]}\n")
    above = write("own.yaml", f"extends: data/sets.yaml\ncorpus: {{{PARTS}}}\n")
    sibling = write("odd/own.yaml", f"extends: ../data/sets.yaml\ncorpus: {{{PARTS}}}\n")
    assert parts(above) == (".", "my.en", "data/d.en")
    assert parts(sibling) == ("odd", "my.en", "../data/d.en")
    assert parts(sibling, [f"corpus={{{PARTS}}}"]) == (".", "my.en", "data/d.en")
    assert parts(sibling, ["corpus.dev=[{source: x.en, target: x.de}]"]) == ("odd", "my.en", "../x.en")
    assert parts(sibling, ["corpus.dev=[{source: /x.en, target: ~/x.de}]"]) == ("odd", "my.en", "/x.en")
    assert parts(sibling, ["corpus.folder=x"]) == ("x", "my.en", "d.en")
    assert refusal(sibling, ["corpus.dev=[{source: '', target: d}]"]).problem == "`corpus.dev[0].source` is empty"
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    assert parts("../own.yaml") == ("..", "my.en", "data/d.en"), "a run resumed from here has the same parts"


def test_paths_do_not_start_from_the_folder_of_an_extended_spec() -> None:
    train, test = PARTS, "test: [{source: t.en, target: t.de}]"
    own = write("odd/own.yaml", f"extends: multi30k-ende\ncorpus: {{{train}, {test}}}\n")
    assert parts(own) == ("odd", "my.en", "../multi30k/val.en")
    assert parts(write("own.yaml", f"extends: multi30k-ende\ncorpus: {{{train}}}\n"))[:2] == (".", "my.en")
    inherited = parts(write("odd/test.yaml", f"extends: everyday\ncorpus: {{{test}}}\n"))
    assert inherited[:2] == ("everyday", "tatoeba.en-de.en")
    assert load("odd/test.yaml").corpus.test[0].source == "../odd/t.en"  # type: ignore[union-attr]
    assert parts(own, ["corpus.folder=x"]) == ("x", "my.en", "val.en")
    assert folder("multi30k-ende", [f"corpus={{{train}}}"]) == "multi30k"
    for absolute in ("/data", "~/data"):
        run = load("multi30k-ende", [f"corpus.folder={absolute}"]).yaml()
        write("run/spec.yaml", run)
        found = parts(write("odd/next.yaml", f"extends: ../run/spec.yaml\ncorpus: {{{train}}}\n"))
        assert found == ("odd", "my.en", str(Path(absolute).expanduser() / "val.en"))


def test_paths_of_treebanks_and_tables_are_resolved_too_and_tables_need_languages() -> None:
    write("bank/sets.yaml", "extends: parsing/tiny\ncorpus: {dev: [{trees: d.trees}]}\n")
    assert folder("bank/sets.yaml") == "bank"
    corpus = load(write("own.yaml", "extends: bank/sets.yaml\ncorpus: {train: [{trees: my.trees}]}\n")).corpus
    assert (corpus.train[0].trees, corpus.dev[0].trees) == ("my.trees", "bank/d.trees")  # type: ignore[union-attr]
    file = write("odd/own.yaml", "extends: multi30k-ende\ncorpus: {target: fr, source: en, train: [{tsv: my.tsv}]}\n")
    corpus = load(file).corpus
    assert (corpus.folder, corpus.train[0].tsv) == ("odd", "my.tsv")  # type: ignore[union-attr]
    error = refusal(write("bare.yaml", "extends: tiny\ncorpus: {train: [{tsv: my.tsv}]}\n"))
    assert "source and target language of the files" in error.problem
    assert "{source: CODE, target: CODE}" in error.hint


def test_file_named_like_the_origin_of_an_override_is_a_file() -> None:
    file = write("override: x/own.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n")
    assert folder(file) == "override: x"
    write("override: `corpus`/whole.yaml", load(file).yaml().replace("folder: 'override: x'", "folder: ."))
    again = write("override: `corpus`/again.yaml", f"extends: whole.yaml\ncorpus: {{{PARTS}}}\n")
    assert folder(again) == "override: `corpus`"


def test_complete_spec_of_a_run_keeps_its_folder() -> None:
    spec = load(write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n"))
    file = write("runs/odd/spec.yaml", spec.yaml())
    assert folder(file) == parse(spec.yaml(), file).corpus.folder == "odd"
    assert folder(write("runs/again.yaml", "extends: odd/spec.yaml\n")) == "odd"
    assert folder(write("runs/old/spec.yaml", spec.yaml().replace("folder: odd", "folder: ."))) == "."


# languages


def test_the_language_is_the_last_suffix_that_is_no_format():
    names = {"train.de": "de", "test.en-de.de.sgm.gz": "de", "a.txt": "", "de": "", "x.EN.TXT": "EN", "sounds.lst": ""}
    assert {name: language_suffix(name) for name in names} == names


FRENCH = "corpus: {train: [{source: a.en, target: b.fr}, {source: c.en, target: d.fr.gz}]}"


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        (FRENCH, "not specify the target language of the files in `corpus.train`", "add `corpus: {target: fr}`"),
        ("corpus: {train: [{source: a, target: b}]}", "source and target", "{source: CODE, target: CODE}`, with codes"),
        ("corpus: {train: [{source: a.de, target: a.en}]}", "source and target", "{source: de, target: en}`"),
        ("corpus: {train: [{source: a.en, target: a.fr}, {source: b.en, target: b.de}]}", "target", "{target: CODE}`"),
    ],
)
def test_files_do_not_inherit_languages(text: str, problem: str, hint: str) -> None:
    error = refusal(write("mine.yaml", f"extends: tiny\n{text}\n"))
    assert problem in error.problem
    assert error.where == "mine.yaml:2"
    assert hint in error.hint


def test_given_languages_and_fitting_suffixes_are_accepted() -> None:
    path = write("mine.yaml", f"extends: tiny\n{FRENCH[:-1]}, target: fr, dev: [], test: []}}\n")
    assert load(path).corpus.target == "fr"
    further = "corpus.test=[{source: x, target: y}]"
    assert load(path, [further]).corpus.target == "fr", "other sets have the languages of the training text"
    assert load("tiny", ["corpus.train=[{source: a.en, target: a.de.txt}]"]).corpus.target == "de"
    override = "corpus.train=[{source: a.en, target: a.fr}]"
    assert load("multi30k-ende", ["corpus.target=fr", override]).corpus.target == "fr"
    error = refusal("multi30k-ende", [override])
    assert "the target language of the files" in error.problem
    assert error.hint == "add `corpus.target=fr`"
