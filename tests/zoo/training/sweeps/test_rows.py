"""Rows of a sweep: specs with the same overrides, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import specs
from tests.refusals import refused
from zoo.training.sweeps.trials import SweepRow, make_rows, parse_arguments


def table3(*overrides: str) -> dict[str, SweepRow]:
    return {row.name: row for row in make_rows(["table3"], overrides)}


def test_folder_stands_for_its_specs_with_parents_first(own_specs: Path) -> None:
    rows = make_rows(["specs/table3/"], [])
    assert [row.name for row in rows][:5] == ["base", "a-h1", "a-h4", "a-h16", "a-h32"]
    assert {row.reference for row in rows} == {name for name in specs.names() if name.startswith("table3/")}
    assert {row.parent for row in rows} == {None, "base"}
    assert all(row.spec == specs.load(row.reference) for row in rows)
    own = [(row.name, row.reference, row.parent, (*row.changes,)) for row in make_rows(["own"], [])]
    plain = ("plain", "own/plain.yaml", None, ())
    assert own == [plain, ("flat", "own/flat.yaml", "plain", ("architecture.N",))]


def test_overrides_are_those_of_all_rows() -> None:
    for row in table3("training.steps=1000", "decoding.beam=2").values():
        assert row.spec == specs.load(row.reference, row.overrides), "the command line is complete"
        assert (row.spec.training.steps, row.spec.decoding.beam) == (1000, 2)
        assert not {"training.steps", "decoding.beam"} & {*row.changes}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table3 architecture.N=3", r"with these overrides, `table3/.*` describes the same model as `table3/base`"),
        ("table3 training.seed=3", "is set by the sweep itself"),
        ("table3/base own/base.yaml", "would have the same name in the sweep, `base`"),
        ("parsing", r"the task of `parsing/.*` is `parsing`"),
        ("training.steps=5", "no specs were given"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(own_specs: Path, arguments: str, message: str) -> None:
    """Arguments with an equals sign are overrides."""
    (own_specs / "base.yaml").write_text("extends: tiny\nname: other\n")
    refused(message, lambda: make_rows(*parse_arguments(arguments.split())))
