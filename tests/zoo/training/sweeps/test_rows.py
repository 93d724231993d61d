"""Rows of a sweep: specs with the same overrides, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import specs
from specs import ZooError
from zoo.training.sweeps.trials import SweepRow, make_rows, parse_arguments


def table3(*overrides: str) -> dict[str, SweepRow]:
    return {row.name: row for row in make_rows(["table3"], overrides)}


def test_folder_stands_for_its_specs_with_parents_first(own_specs: Path) -> None:
    rows = make_rows(["specs/table3/"], [])
    assert [row.name for row in rows][:5] == ["base", "a-h1", "a-h4", "a-h16", "a-h32"]
    assert {row.reference for row in rows} == {name for name in specs.names() if name.startswith("table3/")}
    assert {row.parent for row in rows} == {None, "base"}
    assert all(row.spec == specs.load(row.reference) for row in rows)
    assert [(row.name, row.reference, row.parent, row.changed_keys) for row in make_rows(["own"], [])] == [
        ("plain", "own/plain.yaml", None, ()),
        ("flat", "own/flat.yaml", "plain", ("architecture.N",)),
    ]


def test_overrides_are_those_of_all_rows() -> None:
    for row in table3("training.steps=1000", "decoding.beam=2").values():
        assert row.spec == specs.load(row.reference, row.overrides), "the command line is complete"
        assert (row.spec.training.steps, row.spec.decoding.beam) == (1000, 2)
        assert not {"training.steps", "decoding.beam"} & {*row.changed_keys}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("architecture.N=3", r"with these overrides `table3/.*` describes the same model as `table3/base`"),
        ("training.seed=3", "is set by the sweep itself"),
    ],
)
def test_overrides_that_leave_a_row_without_meaning_are_refused(override: str, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        table3(override)


def test_equal_names_and_parsers_are_refused(own_specs: Path) -> None:
    (own_specs / "base.yaml").write_text("extends: tiny\nname: other\n")
    with pytest.raises(ZooError, match="would have the same name in the sweep, `base`"):
        make_rows(["table3/base", "own/base.yaml"], [])
    with pytest.raises(ZooError, match=r"the task of `parsing/.*` is `parsing`"):
        make_rows(["parsing"], [])


def test_arguments_with_an_equals_sign_are_overrides() -> None:
    assert parse_arguments(["table3", "training.steps=5"]) == (["table3"], ["training.steps=5"])
    with pytest.raises(ZooError, match="no specs are given"):
        parse_arguments(["training.steps=5"])
