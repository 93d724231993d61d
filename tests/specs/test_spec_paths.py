"""Where the paths of a corpus start: at the file that writes them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

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


def test_a_runs_own_spec_means_what_was_meant_when_it_was_written() -> None:
    """It is whole: read as a run's, named as a file, or extended, its files are where they were."""
    spec = load(write("odd/odd.yaml", f"extends: tiny\ncorpus: {{{PARTS}}}\n"))
    file = write("runs/odd/spec.yaml", spec.yaml())
    assert folder(file) == parse(spec.yaml(), file).corpus.folder == "odd"
    assert folder(write("runs/again.yaml", "extends: odd/spec.yaml\n")) == "odd"
    old = write("runs/old/spec.yaml", spec.yaml().replace("folder: odd", "folder: ."))
    assert folder(old) == "."
