"""Rows of a sweep: specs with the overrides of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import specs
from specs import METADATA_FIELDS, Spec, Translation, ZooError
from specs.catalogue import specs_in_folder

SEED = "training.seed"


@dataclass(frozen=True)
class SweepRow:
    """Row of a sweep: one spec, which is trained with one or more seeds."""

    name: str
    """Name of the row, which begins the names of its runs."""
    reference: str
    """Name or path of the spec, as given on the command line."""
    overrides: tuple[str, ...]
    """Overrides of the command line."""
    spec: Spec
    """Spec with the overrides, but with its original seed."""
    parent: str | None
    """Name of the row that this one extends and is compared with."""
    changed_keys: tuple[str, ...]
    """Keys whose values differ from those of the parent row."""


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
        ZooError: A spec does not exist or is a parser, two rows have the same name or are the same model, or the
            overrides set the seed.
    """
    if any(text.partition("=")[0].strip() == SEED for text in overrides):
        hint = "use `--seeds N` instead, which trains with the seeds 1 to N"
        raise ZooError(f"`{SEED}` is set by the sweep itself", where="command line", hint=hint)
    unique = dict.fromkeys(spec for reference in references for spec in specs_in_folder(reference) or (reference,))
    plain = {reference: specs.load(reference) for reference in unique}
    _require_distinct_names(plain)
    rows: dict[str, SweepRow] = {}
    for reference in sorted(plain, key=lambda name: (_depth(name, plain), _natural_order(plain[name].short_name))):
        rows[reference] = _make_row(reference, plain, rows, overrides)
    result = tuple(rows.values())
    _require_distinct_models(result)
    return result


def _make_row(reference: str, plain: dict[str, Spec], rows: dict[str, SweepRow], overrides: Sequence[str]) -> SweepRow:
    """Return the row of a spec."""
    spec, parent = plain[reference], _parent(reference, plain)
    if not isinstance(spec.task, Translation):
        problem = f"the task of `{reference}` is `{spec.task.kind}`, but a sweep compares translators"
        raise ZooError(problem, hint=f"omit it; `zoo train {reference}` trains it")
    changed, keys = specs.load(reference, overrides), tuple[str, ...]()
    if parent is not None:
        differing = specs.difference(changed, rows[parent].spec)
        keys = tuple(key for key in differing if key not in METADATA_FIELDS)
    name = rows[parent].name if parent is not None else None
    return SweepRow(_name(spec), reference, tuple(overrides), changed, parent=name, changed_keys=keys)


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
