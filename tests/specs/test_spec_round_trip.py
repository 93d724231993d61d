"""A spec is frozen, equal to what is read back from its own text, and the sum of its parent and its difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import specs
from specs.loader import load, parent, parse
from specs.reader import LocatedValue
from specs.reader import locate as given_value

NAMES = specs.names()


@pytest.mark.parametrize("name", NAMES)
def test_yaml_round_trips(name: str) -> None:
    spec = load(name)
    again = parse(spec.yaml(), "run/spec.yaml")
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.yaml() == spec.yaml()
    assert again.short == spec.name


def test_a_spec_is_what_its_fields_are() -> None:
    assert load("base") != load("big")
    assert load("base").called("other") == load("base")
    assert load("base").called("other").short == "other"
    assert load("base") != "base"
    assert len({load("base"), load("base"), load("tiny")}) == 2


def test_a_spec_is_frozen() -> None:
    spec = load("base")
    with pytest.raises(ValidationError, match="frozen"):
        spec.architecture.N = 7  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        spec.name = "other"  # type: ignore[misc]
    assert isinstance(spec.corpus.train, tuple)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "base"])
def test_parent_plus_difference_is_the_spec(name: str) -> None:
    spec, above = load(name), parent(name)
    assert above is not None
    found = specs.difference(spec, above)
    assert found
    assert load(above.short, {key: here for key, (_, here) in found.items()}) == spec


def test_difference_has_both_values_and_the_order_of_a_spec() -> None:
    spec = load("base", ["training.average=1", "architecture.h=4", "corpus.train=[{source: a, target: b}]"])
    found = specs.difference(spec, load("base"))
    assert list(found) == ["architecture.h", "corpus.train", "training.average"]
    assert found["architecture.h"] == (8, 4)
    assert found["corpus.train"][1] == ({"source": "a", "target": "b"},)
    assert specs.difference(spec, spec) == {}


def test_parent() -> None:
    assert parent("base") is None
    assert parent("big") == load("base")
    assert parent("table3/a-h1") == load("table3/base")


# As in specs, a key is that of a mapping everywhere or nowhere: capitals lead deeper, small letters do not.
leaf = st.one_of(st.integers(), st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=2))
leaves = st.fixed_dictionaries({}, optional={"a": leaf, "b": leaf})
sections = st.fixed_dictionaries({}, optional={"a": leaf, "b": leaf, "C": leaves})
mappings = st.fixed_dictionaries({}, optional={"a": leaf, "B": sections, "C": sections}).map(
    lambda value: given_value(value, "file")
)


@given(mappings, mappings, mappings)
def test_overlaying_is_associative(a: LocatedValue, b: LocatedValue, c: LocatedValue) -> None:
    assert a.overlaid(b).overlaid(c).plain() == a.overlaid(b.overlaid(c)).plain()


@given(mappings, mappings)
def test_the_upper_one_wins_and_the_lower_one_fills(a: LocatedValue, b: LocatedValue) -> None:
    empty = given_value({}, "file")
    assert a.overlaid(a).plain() == a.overlaid(empty).plain() == empty.overlaid(a).plain() == a.plain()
    assert a.overlaid(b).overlaid(b).plain() == a.overlaid(b).plain()
    merged = a.overlaid(b).plain()
    assert merged.keys() == a.value.keys() | b.value.keys()
    for key, value in b.plain().items():
        if not isinstance(value, dict):
            assert merged[key] == value
    for key in a.value.keys() - b.value.keys():
        assert merged[key] == a.plain()[key]


def test_overlaying_changes_neither() -> None:
    a, b = given_value({"x": {"y": 1}}, "a"), given_value({"x": {"z": 2}}, "b")
    assert a.overlaid(b).plain() == {"x": {"y": 1, "z": 2}}
    assert (a.plain(), b.plain()) == ({"x": {"y": 1}}, {"x": {"z": 2}})
