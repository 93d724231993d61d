"""Rows of a sweep: specs, with overrides that keep their sizes proportional to those of the specs they extend."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import specs
from specs import METADATA_FIELDS, Spec, Translation, ZooError
from specs.catalogue import specs_in_folder

SEED = "training.seed"
_WORD = re.compile("[A-Za-z_]+")


@dataclass(frozen=True)
class SweepRow:
    """Row of a sweep: one spec, which is trained with one or more seeds."""

    name: str
    """Name of the row, which begins the names of its runs."""
    reference: str
    """Name or path of the spec, as given on the command line."""
    overrides: tuple[str, ...]
    """Overrides of the spec. Last are those that keep its sizes proportional to the parent row's."""
    spec: Spec
    """Spec with the overrides, but with its original seed."""
    parent: str | None
    """Name of the row that this one extends and is compared with."""
    changed_keys: tuple[str, ...]
    """Keys whose values differ from those of the parent row."""


_Fractional = dict[str, tuple[str, int]]
"""Field -> problem of the first row in which a size would not be a whole number, and the number of which the field must
be a multiple for all rows."""


def parse_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the specs and the overrides among the words of a command line. Overrides contain "=".

    Raises:
        ZooError: There is no spec.
    """
    references = [word for word in words if "=" not in word]
    if not references:
        hint = "name a folder of specs, such as `specs/table3`, or several specs"
        raise ZooError("no specs are given for the sweep", where="command line", hint=hint)
    return references, [word for word in words if "=" in word]


def make_rows(references: Sequence[str], overrides: Sequence[str]) -> tuple[SweepRow, ...]:
    """Return the rows of a sweep, one for each spec. A spec precedes the specs that extend it.

    Args:
        references: Names or paths of specs, and folders of specs.
        overrides: Fields to set in all rows: "KEY=VALUE".

    Raises:
        ZooError: A spec does not exist or is a parser, two rows have the same name or are the same model, the
            overrides set the seed, or a row cannot be scaled in proportion to its parent.
    """
    if any(text.partition("=")[0].strip() == SEED for text in overrides):
        hint = "use `--seeds N` instead, which trains with the seeds 1 to N"
        raise ZooError(f"`{SEED}` is set by the sweep itself", where="command line", hint=hint)
    unique = dict.fromkeys(spec for reference in references for spec in specs_in_folder(reference) or (reference,))
    plain = {reference: specs.load(reference) for reference in unique}
    _require_distinct_names(plain)
    rows: dict[str, SweepRow] = {}
    fractional: _Fractional = {}
    for reference in sorted(plain, key=lambda name: (_depth(name, plain), _natural_order(plain[name].short_name))):
        if row := _make_row(reference, plain, rows, overrides, fractional):
            rows[reference] = row
    if fractional:
        errors = [
            ZooError(
                problem,
                where=f"command line: `{key}`",
                hint=f"set `{key}` to a multiple of {multiple}, or do not set it",
            )
            for key, (problem, multiple) in fractional.items()
        ]
        errors[0].additional = tuple(errors[1:])
        raise errors[0]
    result = tuple(rows.values())
    _require_distinct_models(result)
    return result


def _make_row(
    reference: str,
    plain: dict[str, Spec],
    rows: dict[str, SweepRow],
    overrides: Sequence[str],
    fractional: _Fractional,
) -> SweepRow | None:
    """Return the row of a spec. If it cannot be scaled like its parent, add why to `fractional` and return None."""
    spec, parent = plain[reference], _parent(reference, plain)
    if not isinstance(spec.task, Translation):
        problem = f"the task of `{reference}` is `{spec.task.kind}`, but a sweep compares translators"
        raise ZooError(problem, hint=f"omit it; `zoo train {reference}` trains it")
    if parent is None:
        scaled = specs.load(reference, overrides)
        return SweepRow(_name(spec), reference, tuple(overrides), scaled, parent=None, changed_keys=())
    if parent not in rows:
        return None
    own = _proportional_overrides(reference, plain[parent], rows[parent].spec, overrides, fractional)
    if own is None:
        return None
    own_keys = {text.partition("=")[0] for text in own}
    given = [text for text in overrides if text.partition("=")[0].strip() not in own_keys]
    scaled = specs.load(reference, [*given, *own])
    changed = [key for key in specs.difference(scaled, rows[parent].spec) if key not in METADATA_FIELDS]
    return SweepRow(
        _name(spec), reference, (*given, *own), scaled, parent=rows[parent].name, changed_keys=tuple(changed)
    )


def _proportional_overrides(
    reference: str, parent: Spec, scaled_parent: Spec, overrides: Sequence[str], fractional: _Fractional
) -> list[str] | None:
    """Return overrides that scale a spec in the same proportion as the overrides of the sweep scale its parent.

    If the spec sets a number, the ratio to the parent's number is preserved. Other values of the spec do not change.

    Args:
        reference: Name or path of the spec.
        parent: The spec that it extends.
        scaled_parent: The parent with `overrides`.
        overrides: The overrides of the sweep.
        fractional: Receives each size that would not be a whole number. The result is then None.

    Raises:
        ZooError: A ratio does not exist, because the parent's value is zero, or a value is not a number.
    """
    row, own, is_whole = specs.load(reference), list[str](), True
    overridden = specs.load(reference, overrides)
    for key, (parent_value, row_value) in specs.difference(row, parent).items():
        if key in METADATA_FIELDS:
            continue
        value = _proportional_value(row, key, row_value, parent_value, _value(scaled_parent, key))
        if isinstance(value, Fraction):
            ratio = Fraction(row_value, parent_value)
            problem = f"`{row.short_name}` has {ratio} of the `{key}` of the spec it extends, and {ratio} of "
            problem += f"{_value(scaled_parent, key)} is not a whole number"
            first, multiple = fractional.get(key, (problem, 1))
            fractional[key] = first, math.lcm(multiple, ratio.denominator)
            is_whole = False
        elif _value(overridden, key) != value:
            own.append(f"{key}={_format_value(value)}")
    return own if is_whole else None


def _proportional_value(row: Spec, key: str, row_value: Any, parent_value: Any, scaled: Any) -> Any:
    """Return the value of a row. If it would have to be a whole number and is not, return it as a fraction."""
    if scaled == parent_value or not (_is_number(row_value) and _is_number(parent_value)):
        return row_value
    if not _is_number(scaled) or not parent_value:
        problem = (
            f"`{row.short_name}` sets `{key}` to {row_value} instead of {parent_value}, so it cannot be scaled in "
            f"proportion if the sweep sets `{key}` to {scaled}"
        )
        hint = f"leave out the override of `{key}`, or the spec `{row.short_name}`"
        raise ZooError(problem, where=f"command line: `{key}`", hint=hint)
    ratio = Fraction(str(row_value)) / Fraction(str(parent_value))
    exact = ratio * Fraction(str(scaled))
    if not all(isinstance(value, int) for value in (row_value, parent_value, scaled)):
        return float(exact)
    return int(exact) if exact.denominator == 1 else exact


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _value(spec: Spec, key: str) -> Any:
    """Return the value of a dotted key. None if there is no such key."""
    value: Any = spec.model_dump()
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _format_value(value: Any) -> str:
    """Format a value so that it can follow `KEY=` on the command line."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else json.dumps(value)


def _parent(reference: str, plain: dict[str, Spec]) -> str | None:
    """Return the reference of the spec that this one extends. None if that spec is not in the sweep."""
    parent = specs.parent(reference)
    if parent is None:
        return None
    return next((name for name, spec in plain.items() if (spec.short_name, spec) == (parent.short_name, parent)), None)


def _depth(reference: str, plain: dict[str, Spec]) -> int:
    parent = _parent(reference, plain)
    return 0 if parent is None else 1 + _depth(parent, plain)


def _require_distinct_names(plain: dict[str, Spec]) -> None:
    names: dict[str, str] = {}
    for reference, spec in plain.items():
        name = _name(spec)
        if name in names:
            problem = f"`{names[name]}` and `{reference}` would have the same name in the sweep, `{name}`"
            raise ZooError(problem, hint="rename one of the files, or omit it")
        names[name] = reference


def _require_distinct_models(rows: Sequence[SweepRow]) -> None:
    seen: dict[Spec, SweepRow] = {}
    for row in rows:
        bare = row.spec.model_copy(update={"name": "row", "description": "", "licence": None})
        if (same := seen.setdefault(bare, row)) is not row:
            problem = f"with these overrides `{row.reference}` is the same model as `{same.reference}`"
            raise ZooError(problem, hint=f"set fewer fields, or omit `{row.reference}`")


def _name(spec: Spec) -> str:
    return spec.short_name.rpartition("/")[2]


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers by value: h4 before h16."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
