"""Numbers and text are written so that YAML 1.1 (PyYAML), YAML 1.2 (its core schema) and zoo read the same."""

import re
from math import isfinite
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import specs
from specs.catalogue import FOLDER
from specs.notation import dump, format_number, parse_number, quote, quote_in_full
from specs.reader import read


class Yaml12(yaml.SafeLoader):
    """The core schema of YAML 1.2.2, section 10.3.2."""


TAG = "tag:yaml.org,2002:"
Yaml12.yaml_implicit_resolvers = {}
for kind, pattern in {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}.items():
    Yaml12.add_implicit_resolver(f"{TAG}{kind}", re.compile(rf"^({pattern})$"), None)
Yaml12.add_constructor(f"{TAG}int", lambda _, node: int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10))
Yaml12.add_constructor(f"{TAG}float", lambda _, node: float(node.value.replace(".inf", "inf")))


def typed(value: Any) -> Any:
    """Return the value with the type of every leaf, so that 1, 1.0 and true differ."""
    if isinstance(value, dict):
        return {typed(key): typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    return type(value).__name__, value


def test_both_versions_read_shipped_and_resolved_specs_alike() -> None:
    for name in specs.names():
        resolved = [specs.load(name).yaml()] if name in ("base", "parsing/tiny") else []
        for text in ((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), *resolved):
            values = typed(read(text, name).plain())
            assert values == typed(yaml.safe_load(text)) == typed(yaml.load(text, Yaml12)), name


@pytest.mark.parametrize(
    "text", ["1e-9", "300_000", "010", "0x1F", "0o17", "1:30", "yes", "Off", "2020-01-01", "1.0e9"]
)
def test_scalars_that_the_versions_read_differently_are_text(text: str) -> None:
    assert read(f"key: {text}", "file").plain() == {"key": text}


AMBIGUOUS = ["no", "Yes", "null", "~", "on", "1e5", "0x1f", "1_0", "=", "<<", "#"]
AMBIGUOUS += ["- a", "a: b", "", " ", "\x85", "\u2028"]
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
like_numbers = st.from_regex(r"[-+.0-9eE_:xo]{1,12}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"])) | like_numbers | st.sampled_from(AMBIGUOUS)
values = numbers | st.booleans() | st.none() | texts


@given(st.dictionaries(st.sampled_from(["name", "steps", "N", "d_model"]), st.one_of(values, st.lists(values))))
def test_dumped_values_are_read_back_by_every_parser(written: dict[str, Any]) -> None:
    text = dump(written)
    assert typed(yaml.safe_load(text)) == typed(yaml.load(text, Yaml12)) == typed(written)
    if written:
        assert typed(read(text, "file").plain()) == typed(written)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_formatted_numbers_parse_to_the_same_value(value: float) -> None:
    assert parse_number(format_number(value)) == value
    assert isfinite(float(format_number(value)))


@given(st.one_of(values, st.lists(values), st.dictionaries(st.text(), values)))
def test_quotations_are_short_and_on_one_line(value: object) -> None:
    for quotation in (quote(value), quote_in_full(value)):
        assert len(quotation) < 500
        assert quotation.isprintable()
    assert quote_in_full([{"encoder": 12, "decoder": 2}, [], 6]) == "`[{encoder: 12, decoder: 2}, [], 6]`"
