"""Formats of written specs: older ones are upgraded step by step, newer ones are refused.

To change a field, increase FORMAT and register in UPGRADES the step from the previous format. A step supplies literal
values: `base.yaml` may change later, but a trained model must keep its meaning.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from specs.errors import ZooError
from specs.notation import quote
from specs.reader import LocatedValue, locate

FORMAT = 1
"""The format that is written. Increase it with every field that older files lack or write differently."""
FIRST_FORMAT = 1
WRITTEN_BY = "# written by zoo "

_WRITER = re.compile(rf"{re.escape(WRITTEN_BY)}(\S+)\n")

UPGRADES: dict[int, Callable[[LocatedValue], LocatedValue]] = {}
"""The upgrade from each format to the next one."""


class NewerFormatError(ZooError):
    """The file is intact, but a newer version of zoo wrote it."""


def writer_version(text: str) -> str | None:
    """Return the version of zoo that wrote a spec, if the text records it."""
    match = _WRITER.match(text)
    return match[1] if match else None


def upgrade(spec: LocatedValue, version: str | None = None) -> LocatedValue:
    """Return the values of a spec's file in the current format, without the key `format`.

    Args:
        spec: The mapping in the file. Without the key `format` it is in the current format.
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
    return spec


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


def with_defaults(spec: LocatedValue, defaults: Mapping[str, Mapping[str, object]]) -> LocatedValue:
    """Add values for the fields that a spec lacks. Upgrades use this function.

    A file that extends another one is returned unchanged, because it inherits the missing fields.

    Args:
        spec: The mapping in the file.
        defaults: Section -> field -> value. Sections that the file lacks are not added. Error messages locate the
            added values at the line of their section.
    """
    if "extends" in spec.value:
        return spec
    values = dict(spec.value)
    for name, fields in defaults.items():
        section = values.get(name)
        if section is not None and isinstance(section.value, dict):
            values[name] = locate(fields, section.file, section.line).overlaid(section)
    return replace(spec, value=values)
