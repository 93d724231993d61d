"""Rows stay what they are against the one that they extend, or are refused; and a row is one command line."""

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


def rows(*overrides: str, of: str = "table3") -> dict[str, SweepRow]:
    return {row.name: row for row in make_rows([of], overrides)}


def test_a_folder_of_specs_is_all_of_them_and_what_others_extend_comes_first() -> None:
    found = make_rows(["specs/table3/"], [])
    assert [row.name for row in found][:5] == ["base", "a-h1", "a-h4", "a-h16", "a-h32"]
    assert {row.reference for row in found} == {name for name in specs.names() if name.startswith("table3/")}
    assert {row.above for row in found} == {None, "base"}
    assert all(row.spec == specs.load(row.reference) for row in found)


def test_a_folder_of_files_is_theirs(mine: Path) -> None:
    assert [(row.name, row.reference, row.above, row.own) for row in make_rows(["mine"], [])] == [
        ("plain", "mine/plain.yaml", None, ()),
        ("flat", "mine/flat.yaml", "plain", ("architecture.N",)),
    ]


def test_what_is_set_is_set_in_the_base_and_the_others_keep_their_proportion_to_it() -> None:
    plain, scaled = rows(), rows(*SCALED)
    for name, row in scaled.items():
        assert row.spec == specs.load(row.reference, row.overrides), "the command line says it all"
        for key, (there, here) in specs.difference(plain[name].spec, plain["base"].spec).items():
            section, field = (*key.split("."), "")[:2]
            if section in specs.METADATA_FIELDS:
                continue
            now, base = (getattr(getattr(each.spec, section), field) for each in (row, scaled["base"]))
            assert now == here if isinstance(here, str) else now * there == base * here, (name, key)
        assert row.own == plain[name].own
    widths = {name: (a.h, a.d_k, a.d_v) for name, row in scaled.items() if (a := row.spec.architecture)}
    assert (widths["a-h1"], widths["a-h32"], widths["b-dk16"]) == ((1, 128, 128), (32, 4, 4), (8, 4, 16))
    assert [scaled[f"c-n{n}"].spec.architecture.N for n in (2, 4, 8)] == [1, 2, 4]
    assert scaled["big"].spec.training.steps == 3000


def test_an_override_of_what_the_base_says_already_changes_no_row() -> None:
    assert {name: row.spec for name, row in rows("architecture.h=8").items()} == {n: r.spec for n, r in rows().items()}


def test_a_size_that_would_be_no_whole_number_is_refused_with_what_would_suit_all_rows() -> None:
    with pytest.raises(ZooError, match=r"`table3/c-n2` has 1/3 of the `architecture.N` .* of 4 ") as caught:
        rows("architecture.N=4", "architecture.h=4", "architecture.d_k=6")
    hints = [str(each.hint) for each in (caught.value, *caught.value.additional)]
    assert sorted(hint.partition(",")[0] for hint in hints) == [
        "take a multiple of 3 for `architecture.N`",
        "take a multiple of 4 for `architecture.d_k`",
        "take a multiple of 8 for `architecture.h`",
    ]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("architecture.N={encoder: 2, decoder: 1}", "in no proportion"),
        ("architecture.dropout=0.0", "is the same model as `table3/base`"),
        ("architecture.positional_encoding=learned", "is the same model as `table3/base`"),
        ("training.seed=3", "is the sweep's own"),
        ("architecture.dropout=0.4", "`architecture.dropout` must be less than 1"),
    ],
)
def test_what_leaves_a_row_no_meaning_is_refused(override: str, told: str) -> None:
    with pytest.raises(ZooError, match=told):
        rows(override)


def test_rows_that_would_share_a_name_or_are_parsers_are_refused(mine: Path) -> None:
    (mine / "base.yaml").write_text("extends: tiny\nname: other\n")
    with pytest.raises(ZooError, match="would both be the row `base`"):
        make_rows(["table3/base", "mine/base.yaml"], [])
    with pytest.raises(ZooError, match="is a parser"):
        make_rows(["parsing"], [])


def test_words_with_an_equals_sign_are_overrides() -> None:
    assert parse_arguments(["table3", "training.steps=5"]) == (["table3"], ["training.steps=5"])
    with pytest.raises(ZooError, match="no spec is named"):
        parse_arguments(["training.steps=5"])
