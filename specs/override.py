"""Values set on the command line or in Python, over what the files say."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specs.errors import ZooError
from specs.notation import shown
from specs.reader import read_value
from specs.shape import takes_fractions
from specs.written import Written, given

Overrides = Sequence[str] | Mapping[str, object]

_MOST_DOTS = 8
_WITH_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_OF_A_FILE = {
    "extends": "name the spec to start from itself, and set its fields",
    "format": "what is set here is of today's format",
}
"""Keys of a file that are no fields of the spec in it, and what to do instead of setting them."""


def overrides_written(overrides: Overrides) -> list[Written]:
    """One written mapping for each override, in their order.

    `overrides` are texts such as "training.steps=500" (the value is read as YAML), or a mapping with nested
    or dotted keys. Raises ZooError where a text is not KEY=VALUE or sets what cannot be set.
    """
    if isinstance(overrides, Mapping):
        flat = _flat(overrides)
        return [_nested(key, given(value, f"override: `{key}`")) for key, value in flat.items()]
    return [_parsed(text) for text in ([overrides] if isinstance(overrides, str) else overrides)]


def _parsed(text: str) -> Written:
    place = f"command line: {shown(text)}"
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        hint = "write KEY=VALUE, for example `training.steps=500`"
        raise ZooError(f"{shown(text)} sets no field", where="command line", hint=hint)
    name = key.strip()
    return _nested(name, _with_exponents(read_value(value, place), name.split(".")))


def _with_exponents(value: Written, location: Sequence[str]) -> Written:
    """`1e-3` as people type it, where a fraction is wanted: in a file, YAML's versions do not agree on it."""
    if isinstance(value.value, dict):
        inner = {key: _with_exponents(each, (*location, key)) for key, each in value.value.items()}
        return replace(value, value=inner)
    if isinstance(value.value, str) and _WITH_EXPONENT.fullmatch(value.value) and takes_fractions(location):
        return replace(value, value=float(value.value))
    return value


def _nested(key: str, value: Written) -> Written:
    if (first := key.partition(".")[0]) in _OF_A_FILE:
        raise ZooError(f"`{first}` is written in a file", where=value.where, hint=_OF_A_FILE[first])
    if key.count(".") > _MOST_DOTS:
        hint = "a field is a few names with dots between them, such as `architecture.N.encoder`"
        raise ZooError(f"{shown(key)} is not a field of this spec", where=value.where, hint=hint)
    for step in reversed(key.split(".")):
        value = Written({step: value}, value.file)
    return value


def _flat(overrides: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
