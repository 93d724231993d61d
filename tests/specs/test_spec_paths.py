"""Where the paths of a corpus start: at the file that writes them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from specs import ZooError
from specs.loader import load, parent, parse

PARTS = "train: [{source: my.en, target: my.de}]"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(file: str, text: str) -> str:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")
    return file


def folder(file: str, overrides: Sequence[str] = ()) -> str:
    return load(file, overrides).corpus.folder


@pytest.mark.parametrize(
    ("corpus", "found"),
    [
        (PARTS, "odd"),
        (f"{PARTS}, folder: data", "odd/data"),
        (f"{PARTS}, folder: ../data", "data"),
        (f"{PARTS}, folder: /data", "/data"),
        (f"{PARTS}, folder: ~/data", "~/data"),
        ("test: [{source: my.en, target: my.de}]", "odd"),
        ("dev: [{grammar: 5}]", "."),
    ],
)
def test_paths_start_at_the_file_that_lists_them(corpus: str, found: str) -> None:
    file = write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{corpus}}}\n")
    assert folder(file) == found
    assert folder(str(Path(file).absolute())) == (found if found[0] in "/~." else str(Path(found).absolute()))


def test_those_of_treebanks_do_too() -> None:
    file = write("odd/odd.yaml", "extends: parsing/tiny\ncorpus: {dev: [{trees: my.trees}]}\n")
    assert folder(file) == "odd"


def test_in_the_current_folder_they_are_as_they_are_written() -> None:
    assert folder(write("own.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n")) == "."
    assert folder(write("own.yaml", f"extends: tiny\ncorpus: {{{PARTS}, folder: a/../b}}\n")) == "a/../b"


def test_shipped_specs_and_overrides_mean_the_current_folder() -> None:
    file = write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n")
    assert folder("multi30k-ende") == folder(write("odd/more.yaml", "extends: multi30k-ende\n")) == "multi30k"
    assert folder(file, ["corpus.folder=data"]) == "data"
    assert folder(file, ["corpus.folder=."]) == "."
    assert folder("tiny", [f"corpus={{{PARTS}}}"]) == "."


def test_every_file_of_a_chain_means_its_own_folder() -> None:
    write("one/mine.yaml", f"extends: tiny\ncorpus: {{folder: data, {PARTS}}}\n")
    file = write("one/deep/own.yaml", "extends: ../mine.yaml\ncorpus: {dev: [{source: d.en, target: d.de}]}\n")
    assert folder(file) == "one/data"
    above = parent(file)
    assert above is not None
    assert above.corpus.folder == "one/data"
    assert folder(write("one/deep/other.yaml", "extends: ../mine.yaml\ncorpus: {folder: data}\n")) == "one/deep/data"


def parts(file: str, overrides: Sequence[str] = ()) -> tuple[str, str, str]:
    """The folder, and the sources of train and dev."""
    corpus = load(file, overrides).corpus
    return corpus.folder, corpus.train[0].source, corpus.dev[0].source  # type: ignore[union-attr]


def test_parts_that_several_files_list_start_each_at_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    write("data/sets.yaml", "extends: tiny\ncorpus: {dev: [{source: d.en, target: d.de}]}\n")
    above = write("own.yaml", f"extends: data/sets.yaml\ncorpus: {{{PARTS}}}\n")
    beside = write("odd/own.yaml", f"extends: ../data/sets.yaml\ncorpus: {{{PARTS}}}\n")
    assert parts(above) == (".", "my.en", "data/d.en")
    assert parts(beside) == ("odd", "my.en", "../data/d.en")
    assert parts(beside, [f"corpus={{{PARTS}}}"]) == (".", "my.en", "data/d.en")
    assert parts(beside, ["corpus.dev=[{source: x.en, target: x.de}]"]) == ("odd", "my.en", "../x.en")
    assert parts(beside, ["corpus.dev=[{source: /x.en, target: ~/x.de}]"]) == ("odd", "my.en", "/x.en")
    assert parts(beside, ["corpus.folder=x"]) == ("x", "my.en", "d.en")
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    assert parts("../own.yaml") == ("..", "my.en", "data/d.en"), "a run that goes on from here has the same parts"


def test_those_of_several_treebanks_do_too() -> None:
    write("bank/sets.yaml", "extends: parsing/tiny\ncorpus: {dev: [{trees: d.trees}]}\n")
    corpus = load(write("own.yaml", "extends: bank/sets.yaml\ncorpus: {train: [{trees: my.trees}]}\n")).corpus
    assert (corpus.train[0].trees, corpus.dev[0].trees) == ("my.trees", "bank/d.trees")  # type: ignore[union-attr]


@pytest.mark.parametrize("where", ["data", "odd"])
def test_an_empty_path_stays_one_wherever_it_is_written(where: str) -> None:
    write("data/sets.yaml", "extends: tiny\ncorpus: {dev: [{source: '', target: d.de}]}\n")
    file = write(f"{where}/own.yaml", f"extends: ../data/sets.yaml\ncorpus: {{{PARTS}}}\n")
    with pytest.raises(ZooError, match=r"corpus\.dev"):
        load(file)


def test_a_file_called_as_overrides_are_is_a_file() -> None:
    file = write("override: x/own.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n")
    assert folder(file) == "override: x"
    write("override: `corpus`/whole.yaml", load(file).yaml().replace("folder: 'override: x'", "folder: ."))
    again = write("override: `corpus`/again.yaml", f"extends: whole.yaml\ncorpus: {{{PARTS}}}\n")
    assert folder(again) == "override: `corpus`"


def test_a_runs_own_spec_means_what_was_meant_when_it_was_written() -> None:
    """It is whole: read as a run's, named as a file, or extended, its files are where they were."""
    spec = load(write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n"))
    file = write("runs/odd/spec.yaml", spec.yaml())
    assert folder(file) == parse(spec.yaml(), file).corpus.folder == "odd"
    assert folder(write("runs/again.yaml", "extends: odd/spec.yaml\n")) == "odd"
    old = write("runs/old/spec.yaml", spec.yaml().replace("folder: odd", "folder: ."))
    assert folder(old) == "."
