"""Numbers and texts are written so that YAML 1.1 (PyYAML), YAML 1.2 (its core schema) and we read the same."""

import re
from math import isfinite
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import specs
from specs.catalogue import FOLDER
from specs.notation import dump
from specs.notation import parse_number
from specs.notation import format_number
from specs.notation import quote_in_full
from specs.notation import quote
from specs.reader import read


class Yaml12(yaml.SafeLoader):
    """The core schema of YAML 1.2.2, section 10.3.2, and no more."""


Yaml12.yaml_implicit_resolvers = {}
for kind, pattern in {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}.items():
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"^({pattern})$"), None)
Yaml12.add_constructor(
    "tag:yaml.org,2002:int",
    lambda loader, node: int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10),
)
Yaml12.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value.replace(".inf", "inf")))


def exactly(value: Any) -> Any:
    """The value with the type of every leaf, so that 1, 1.0 and true are three things."""
    if isinstance(value, dict):
        return {exactly(key): exactly(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [exactly(inner) for inner in value]
    return type(value).__name__, value


def test_the_two_readers_differ_at_all() -> None:
    assert yaml.safe_load("[1e-9, 300_000, 010, no]") == ["1e-9", 300_000, 8, False]
    assert yaml.load("[1e-9, 300_000, 010, no]", Yaml12) == [1e-9, "300_000", 10, "no"]


@pytest.mark.parametrize("name", specs.names())
def test_shipped_files_and_what_is_made_of_them(name: str) -> None:
    for text in ((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), specs.load(name).yaml()):
        ours = exactly(read(text, name).plain())
        assert ours == exactly(yaml.safe_load(text))
        assert ours == exactly(yaml.load(text, Yaml12))


@pytest.mark.parametrize(
    "text", ["1e-9", "300_000", "010", "0x1F", "0o17", "1:30", "yes", "Off", "2020-01-01", "1.0e9"]
)
def test_what_the_versions_do_not_agree_on_is_text(text: str) -> None:
    assert read(f"key: {text}", "file").plain() == {"key": text}


values = st.one_of(
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.from_regex(r"[-+.0-9eE_:xo]{1,12}", fullmatch=True),
    st.sampled_from(
        [
            "no",
            "Yes",
            "null",
            "~",
            "on",
            "1e5",
            "0x1f",
            "1_0",
            "=",
            "<<",
            "- a",
            "a: b",
            "#",
            "",
            " ",
            "\x85",
            "a\u2028b",
        ]
    ),
)


@given(st.dictionaries(st.sampled_from(["name", "steps", "N", "d_model"]), st.one_of(values, st.lists(values))))
def test_everything_written_is_read_back_by_all(written: dict[str, Any]) -> None:
    text = dump(written)
    assert exactly(yaml.safe_load(text)) == exactly(written)
    assert exactly(yaml.load(text, Yaml12)) == exactly(written)
    if written:
        assert exactly(read(text, "file").plain()) == exactly(written)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_meant_as_it_is_written(value: float) -> None:
    assert parse_number(format_number(value)) == value
    assert isfinite(float(format_number(value)))


@pytest.mark.parametrize(
    ("value", "text"), [(1e-9, "1.0e-9"), (300_000, "300000"), (2.5e-7, "2.5e-7"), (1e22, "1.0e+22"), (0.1, "0.1")]
)
def test_numbers_look_like_this(value: float, text: str) -> None:
    assert format_number(value) == text


@given(st.one_of(values, st.lists(values), st.dictionaries(st.text(), values)))
def test_what_an_error_shows_is_short_and_on_one_line(value: object) -> None:
    assert len(quote(value)) < 500
    assert quote(value).isprintable()


@given(st.one_of(values, st.lists(values), st.dictionaries(st.text(), values)))
def test_what_a_field_is_stands_on_one_line(value: object) -> None:
    assert quote_in_full(value).isprintable()
    assert len(quote_in_full(value)) < 500


def test_lists_and_mappings_are_written_out() -> None:
    assert quote_in_full({"encoder": 12, "decoder": 2}) == "`{encoder: 12, decoder: 2}`"
    assert quote_in_full(({"kind": "feed_forward"},)) == "`[{kind: feed_forward}]`"
    assert quote_in_full([]) == "`[]`"
    assert quote_in_full(6) == "`6`"
