"""Versions of the file format of specs. Older formats are upgraded step by step, and newer formats are rejected.

A new field has a default in its section, so that older files stay readable. To change a field, increase FORMAT and add
to UPGRADES a function that upgrades from the previous format. The function must contain literal values instead of
reading `base.yaml`, which may change later: a trained model must keep its meaning.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from specs.errors import ZooError
from specs.notation import quote
from specs.reader import LocatedValue

FORMAT = 1
"""Format that this version of zoo writes. Increase it when a field is renamed or written differently."""
FIRST_FORMAT = 1
WRITTEN_BY = "# written by zoo "

_WRITER = re.compile(rf"{re.escape(WRITTEN_BY)}(\S+)\n")

UPGRADES: dict[int, Callable[[LocatedValue], LocatedValue]] = {}
"""Format -> function that converts the values of a spec from this format to the next one."""

REMOVED = {
    ("training", "checkpoint_minutes"): None,
    ("training", "max_minutes"): None,
    ("compilation", "vocabulary_multiple"): 8,
}
"""Section and name of each removed field -> its former default. Files with this value are still read."""


class NewerFormatError(ZooError):
    """Error for an undamaged spec file that a newer version of zoo wrote."""


def writer_version(text: str) -> str | None:
    """Return the version of zoo that wrote the text of a spec. None if the text does not contain it."""
    match = _WRITER.match(text)
    return match[1] if match else None


def upgrade(spec: LocatedValue, version: str | None = None) -> LocatedValue:
    """Convert the values of a spec file to the current format. Return them without the key `format`.

    Args:
        spec: The values in the file. If they have no key `format`, they are in the current format.
        version: Version of zoo that wrote the file, if known.

    Raises:
        ZooError: `format` is not a valid number.
        NewerFormatError: A newer version of zoo wrote the file.
    """
    values = dict(spec.value)
    written_format = values.pop("format", None)
    spec = replace(spec, value=values)
    if written_format is not None:
        for number in range(_format_number(written_format, version), FORMAT):
            spec = UPGRADES[number](spec)
    return _without_removed_fields(spec)


def _without_removed_fields(spec: LocatedValue) -> LocatedValue:
    values = dict(spec.value)
    for (name, field), default in REMOVED.items():
        section = values.get(name)
        if section is not None and isinstance(section.value, dict):
            kept = {key: value for key, value in section.value.items() if (key, value.plain()) != (field, default)}
            values[name] = replace(section, value=kept)
    return replace(spec, value=values)


def _format_number(written: LocatedValue, version: str | None) -> int:
    number, hint = written.value, f"write `format: {FORMAT}`, or leave it out"
    if isinstance(number, bool) or not isinstance(number, int):
        problem = f"`format` must be a whole number, not {quote(written.plain())}"
        raise ZooError(problem, where=written.where, hint=hint)
    if number < FIRST_FORMAT:
        raise ZooError(f"`format` must be at least {FIRST_FORMAT}, not {quote(number)}", where=written.where, hint=hint)
    if number > FORMAT:
        author = "a newer version of zoo" if version is None else f"zoo {version}"
        problem = f"{author} wrote this file in format {quote(number)[1:-1]}; this version reads formats up to {FORMAT}"
        raise NewerFormatError(problem, where=written.where, hint="install a newer version of zoo")
    return number
