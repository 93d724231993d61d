"""Version of the spec file format. Files in a newer format are rejected.

A new field has a default in its section, so that older files stay readable. For the same reason, removed fields are
ignored in files that zoo wrote.
"""

import re
from dataclasses import replace

from specs.errors import ZooError
from specs.notation import quote
from specs.reader import LocatedValue

FORMAT = 1
"""Format that this version of zoo writes."""
WRITTEN_BY = "# written by zoo "

_REMOVED = {"training": {"checkpoint_minutes", "max_minutes"}, "compilation": {"vocabulary_multiple"}}
"""Fields of earlier versions of this format, by section. They are ignored in files that zoo wrote."""

_WRITER = re.compile(rf"{re.escape(WRITTEN_BY)}(\S+)\n")


class NewerFormatError(ZooError):
    """Error for a spec file in a newer format, written by a newer version of zoo."""


def writer_version(text: str) -> str | None:
    """Return the version of zoo in the comment on the first line of a spec, or None if there is no such comment."""
    match = _WRITER.match(text)
    return match[1] if match else None


def without_format(spec: LocatedValue, version: str | None = None) -> LocatedValue:
    """Check the `format` key of a spec file, and return the values without this key.

    Args:
        spec: The values in the file. If there is no `format` key, the values are in the current format.
        version: Version of zoo that wrote the file, if known.

    Raises:
        ZooError: `format` is not a positive whole number.
        NewerFormatError: A newer version of zoo wrote the file.
    """
    values = dict(spec.value)
    if (written := values.pop("format", None)) is not None:
        number, hint = written.value, f"write `format: {FORMAT}`, or omit it"
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            problem = f"`format` must be a positive whole number, not {quote(written.plain())}"
            raise ZooError(problem, where=written.where, hint=hint)
        if number > FORMAT:
            author = "a newer version of zoo" if version is None else f"zoo {version}"
            problem = f"{author} wrote this file in format {quote(number)[1:-1]}; this version reads format {FORMAT}"
            raise NewerFormatError(problem, where=written.where, hint="install a newer version of zoo")
    for section, removed in _REMOVED.items():
        if version is not None and section in values and isinstance(fields := values[section].value, dict):
            kept = {name: value for name, value in fields.items() if name not in removed}
            values[section] = replace(values[section], value=kept)
    return replace(spec, value=values)
