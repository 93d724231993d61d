"""Rows of a sweep keep their proportions to the row that they extend, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import specs
from specs import ZooError
from zoo.training.sweeps.rows import SweepRow, make_rows, parse_arguments

SCALED = [
    *("architecture.N=3", "architecture.d_model=128", "architecture.d_ff=256", "architecture.d_k=16"),
    *("architecture.d_v=16", "training.steps=1000"),
]


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


def test_overrides_scale_the_base_and_other_rows_keep_their_proportions() -> None:
    plain, scaled = table3(), table3(*SCALED)
    for name, row in scaled.items():
        assert row.spec == specs.load(row.reference, row.overrides), "the command line is complete"
        for key, (base_value, row_value) in specs.difference(plain[name].spec, plain["base"].spec).items():
            section, field = (*key.split("."), "")[:2]
            if section in specs.METADATA_FIELDS:
                continue
            now, base = (getattr(getattr(r.spec, section), field) for r in (row, scaled["base"]))
            number = isinstance(row_value, int | float)
            kept = specs.difference(row.spec, scaled["base"].spec)[key][1] == row_value
            expected = now * base_value == base * row_value if number else kept
            assert expected, (name, key)
        assert row.changed_keys == plain[name].changed_keys
    sizes = {name: (a.h, a.d_k, a.d_v) for name, row in scaled.items() if (a := row.spec.architecture)}
    assert (sizes["a-h1"], sizes["a-h32"], sizes["b-dk16"]) == ((1, 128, 128), (32, 4, 4), (8, 4, 16))
    assert [scaled[f"c-n{n}"].spec.architecture.N for n in (2, 4, 8)] == [1, 2, 4]
    assert scaled["big"].spec.training.steps == 3000
    same = table3("architecture.h=8")
    assert {name: row.spec for name, row in same.items()} == {name: row.spec for name, row in plain.items()}


def test_sizes_that_are_no_whole_numbers_are_refused_with_a_hint_for_all_rows() -> None:
    with pytest.raises(ZooError, match=r"`table3/c-n2` has 1/3 of the `architecture.N` .* of 4 ") as caught:
        table3("architecture.N=4", "architecture.h=1", "architecture.d_k=6")
    hints = [str(error.hint) for error in (caught.value, *caught.value.additional)]
    assert sorted(hint.partition(",")[0] for hint in hints) == [
        "set `architecture.N` to a multiple of 3",
        "set `architecture.d_k` to a multiple of 4",
        "set `architecture.h` to a multiple of 8",
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("architecture.N={encoder: 2, decoder: 1}", "cannot be scaled in proportion"),
        ("architecture.dropout=0.0", "is the same model as `table3/base`"),
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
