"""What a row sets against the spec it extends, where that one is scaled: the same proportion to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import specs
from specs import Spec, ZooError
from specs import METADATA_FIELDS

_WORD = re.compile("[A-Za-z_]+")


class NoProportion(ZooError):
    """A row's value that would be no whole number; `multiple` is of what the scaled value would have to be one."""

    def __init__(self, row: Spec, key: str, now: float, of: Fraction) -> None:
        self.key, self.multiple = key, of.denominator
        super().__init__(
            f"`{row.short_name}` has {of} of the `{key}` that it extends, and of {now:g} that is no whole number",
            where=f"command line: `{key}`",
            hint=multiples_hint(key, self.multiple),
        )


def multiples_hint(key: str, multiple: int) -> str:
    """The remedy, for all rows whose multiples `multiple` is one of."""
    return f"take a multiple of {multiple} for `{key}`, or leave it as it is"


def proportionate(reference: str, above: Spec, scaled: Spec, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides of a row that extends `above`, which `overrides` have made `scaled`; and those that are its own.

    What the row does not set is what they say. A number that it sets stays in the same proportion to that of the spec
    it extends, exactly; of anything else it keeps its own. Raises NoProportion, with its `further`, where a size would
    be no whole number, and ZooError where there is no proportion.
    """
    row, found = specs.load(reference), list[str]()
    broken: list[ZooError] = []
    plain = _leaves(specs.load(reference, overrides))
    for key, (there, here) in specs.difference(row, above).items():
        if key in METADATA_FIELDS:
            continue
        try:
            wanted = _proportionate(row, key, here, there, _leaves(scaled).get(key, there))
        except ZooError as error:
            broken.append(error)
            continue
        if plain.get(key) != wanted:
            found.append(f"{key}={_written(wanted)}")
    if broken:
        first, *further = broken
        first.additional = tuple(further)
        raise first
    own = {text.partition("=")[0] for text in found}
    return [text for text in overrides if text.partition("=")[0].strip() not in own], found


def _proportionate(row: Spec, key: str, here: Any, there: Any, now: Any) -> Any:
    if now == there or not (_is_number(here) and _is_number(there)):
        return here
    if not _is_number(now) or not there:
        problem = f"`{row.short_name}` has {here} in place of {there} for `{key}`, which is in no proportion to {now}"
        hint = f"leave `{key}` out, or `{row.short_name}`"
        raise ZooError(problem, where=f"command line: `{key}`", hint=hint)
    ratio = Fraction(str(here)) / Fraction(str(there))
    exact = ratio * Fraction(str(now))
    if not all(isinstance(value, int) for value in (here, there, now)):
        return float(exact)
    if exact.denominator > 1:
        raise NoProportion(row, key, now, ratio)
    return int(exact)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _leaves(spec: Spec) -> dict[str, Any]:
    """Every value by its dotted key, and every mapping by its own."""
    found: dict[str, Any] = {}

    def walk(values: Mapping[str, Any], prefix: str) -> None:
        for key, value in values.items():
            found[f"{prefix}{key}"] = value
            if isinstance(value, Mapping):
                walk(value, f"{prefix}{key}.")

    walk(spec.model_dump(), "")
    return found


def _written(value: Any) -> str:
    """As it is set on a command line."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else json.dumps(value)
