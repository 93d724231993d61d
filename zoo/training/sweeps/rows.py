"""The rows of a sweep: specs, scaled by overrides so that each still is what it is against the one it extends."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import specs
from specs import Parsing, Spec, ZooError, nearest
from specs import METADATA_FIELDS
from specs.catalogue import specs_in_folder
from zoo.training.sweeps.proportion import NoProportion, multiples_hint, proportionate

SEED = "training.seed"


@dataclass(frozen=True)
class Row:
    """One spec of a sweep."""

    name: str
    """What its runs are called by."""
    reference: str
    """The spec as a command line names it."""
    overrides: tuple[str, ...]
    """What is set over it, its own proportions last."""
    spec: Spec
    """With the overrides, and the seed of the spec itself."""
    above: str | None
    """The row that it extends, against which it is compared."""
    own: tuple[str, ...]
    """Keys that it sets against that row."""


def rows_of(references: Sequence[str], overrides: Sequence[str]) -> tuple[Row, ...]:
    """A row for each spec, and for each in the folders of specs among them; those that others extend come first.

    Raises ZooError where there is no such spec or a parser among them, where two would have one name or be the same
    model, where the overrides set the seed, and where they leave a row no proportion to the row that it extends.
    """
    if any(_key(text) == SEED for text in overrides):
        raise ZooError(
            f"`{SEED}` is the sweep's own", where="command line", hint="`--seeds N` trains by the seeds 1 to N"
        )
    found = dict.fromkeys(each for reference in references for each in specs_in_folder(reference) or (reference,))
    plain = {reference: specs.load(reference) for reference in found}
    _require_distinct(plain)
    made: dict[str, Row] = {}
    broken: list[ZooError] = []
    for reference in sorted(plain, key=lambda each: (_depth(each, plain), _natural(plain[each].short_name))):
        try:
            made[reference] = _row(reference, plain, made, overrides)
        except NoProportion as error:
            broken += [error, *error.additional]
    if broken:
        raise _together(broken)
    rows = tuple(made.values())
    _require_different(rows)
    return rows


def _row(reference: str, plain: dict[str, Spec], made: dict[str, Row], overrides: Sequence[str]) -> Row:
    spec, above = plain[reference], _above(reference, plain)
    if isinstance(spec.task, Parsing):
        problem = f"`{reference}` is a parser, and translators are compared"
        raise ZooError(problem, hint=f"leave it out; `zoo train {reference}` trains it")
    if above is None:
        scaled = specs.load(reference, overrides)
        return Row(_name(spec), reference, tuple(overrides), scaled, None, ())
    texts, own = proportionate(reference, plain[above], made[above].spec, overrides)
    scaled = specs.load(reference, [*texts, *own])
    differing = [key for key in specs.difference(scaled, made[above].spec) if key not in METADATA_FIELDS]
    return Row(_name(spec), reference, (*texts, *own), scaled, made[above].name, tuple(differing))


def _above(reference: str, plain: dict[str, Spec]) -> str | None:
    """The row of the spec that this one extends, if there is one."""
    parent = specs.parent(reference)
    if parent is None:
        return None
    return next((each for each, spec in plain.items() if (spec.short_name, spec) == (parent.short_name, parent)), None)


def _depth(reference: str, plain: dict[str, Spec]) -> int:
    above = _above(reference, plain)
    return 0 if above is None else 1 + _depth(above, plain)


def _together(broken: Sequence[ZooError]) -> ZooError:
    """One error for each key, whose remedy is good for all rows."""
    by_key: dict[str, ZooError] = {}
    multiples: dict[str, int] = {}
    for error in broken:
        key = error.key if isinstance(error, NoProportion) else error.problem
        by_key.setdefault(key, error)
        if isinstance(error, NoProportion):
            multiples[key] = math.lcm(multiples.get(key, 1), error.multiple)
    told = [
        ZooError(e.problem, where=e.where, hint=multiples_hint(key, multiples[key]) if key in multiples else e.hint)
        for key, e in by_key.items()
    ]
    return ZooError(told[0].problem, where=told[0].where, hint=told[0].hint, additional=told[1:])


def _require_distinct(plain: dict[str, Spec]) -> None:
    names: dict[str, str] = {}
    for reference, spec in plain.items():
        name = _name(spec)
        if name in names:
            problem = f"`{names[name]}` and `{reference}` would both be the row `{name}`"
            raise ZooError(problem, hint="rename the file of one of them, or leave it out")
        names[name] = reference


def _require_different(rows: Sequence[Row]) -> None:
    known: dict[Spec, Row] = {}
    for row in rows:
        bare = row.spec.model_copy(update={"name": "row", "description": "", "licence": None})
        if (same := known.setdefault(bare, row)) is not row:
            problem = f"under these overrides `{row.reference}` is the same model as `{same.reference}`"
            raise ZooError(problem, hint=f"set less, or leave `{row.reference}` out")


def _name(spec: Spec) -> str:
    return spec.short_name.rpartition("/")[2]


def _natural(name: str) -> list[tuple[int, str]]:
    """h4 before h16."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _key(text: str) -> str:
    return text.partition("=")[0].strip()


def require_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Specs and overrides of a command line: those have an `=`. Raises ZooError where there is no spec."""
    references = [word for word in words if "=" not in word]
    if not references:
        folders = sorted({name.rpartition("/")[0] for name in specs.names() if "/" in name})
        near = nearest(words[0], folders) if words else None
        hint = f"name a folder of specs, such as `{near or 'table3'}`, or specs one after another"
        raise ZooError("no spec is named to sweep over", where="command line", hint=hint)
    return references, [word for word in words if "=" in word]
