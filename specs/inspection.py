"""Compare specs, read the comments in their files, and generate the JSON Schema for editors."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from specs.catalogue import find
from specs.file_format import FORMAT
from specs.loader import load
from specs.reader import LocatedValue, read
from specs.spec import Spec

_EDITOR_DIRECTIVE = "yaml-language-server:"


def difference(spec: Spec, other: Spec) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two specs differ: their dotted keys, mapped to the values in `other` and `spec`."""
    return _differences(spec.model_dump(), other.model_dump())


def _differences(values: Mapping[str, Any], others: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two mappings differ: their dotted keys, mapped to both values, first from `others`.

    The two mappings must have equal keys. Inner mappings are compared key by key if their keys are equal, and as a
    whole otherwise.
    """
    differing: dict[str, tuple[Any, Any]] = {}
    for key, value in values.items():
        other = others[key]
        if isinstance(value, Mapping) and isinstance(other, Mapping) and value.keys() == other.keys():
            differing |= _differences(value, other, f"{prefix}{key}.")
        elif value != other:
            differing[f"{prefix}{key}"] = (other, value)
    return differing


def comments(reference: str | os.PathLike[str]) -> dict[str, str]:
    """Return the comments in a spec file. Comments in files that it extends are not included.

    Args:
        reference: The spec's path or name.

    Returns:
        The comments, keyed by the dotted key of the value on the same line. A comment on a line with several values is
        omitted, because it is unclear which value it explains. The comment before the first value has the key "".

    Raises:
        ZooError: The spec cannot be read.
    """
    source = find(os.fspath(reference))
    text = source.text()
    leaves = list(_leaves(read(text, source.file)))
    by_line, introduction = _comments_by_line(text)
    values_on_line = Counter(line for _, line in leaves)
    found = {key: by_line[line] for key, line in leaves if values_on_line[line] == 1 and line in by_line}
    return ({"": introduction} if introduction else {}) | found


def _comments_by_line(text: str) -> tuple[dict[int, str], str]:
    """Return the comments that follow a value, by line number, and the joined comment lines before the first value."""
    end_of_values: dict[int, int] = {}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        mark = token.end_mark
        if not isinstance(token, yaml.StreamStartToken | yaml.BlockEndToken | yaml.StreamEndToken):
            end_of_values[mark.line] = max(end_of_values.get(mark.line, 0), mark.column)
    by_line: dict[int, str] = {}
    introduction: list[str] = []
    for number, line in enumerate(text.splitlines()):
        comment = line[end_of_values.get(number, 0) :].strip()
        if not comment.startswith("#") or _EDITOR_DIRECTIVE in comment:
            continue
        if number in end_of_values:
            by_line[number + 1] = comment.lstrip("# ")
        elif number < min(end_of_values):
            introduction.append(comment.lstrip("# "))
    return by_line, " ".join(introduction)


def _leaves(located: LocatedValue, prefix: str = "") -> Iterator[tuple[str, int | None]]:
    for key, value in located.value.items():
        if isinstance(value.value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value.line


def field_names() -> tuple[str, ...]:
    """Return the dotted names of all spec fields, such as `training.steps`, except fields inside lists."""
    names: list[str] = []
    for section, value in load("base").model_dump().items():
        names += [f"{section}.{field}" for field in value] if isinstance(value, Mapping) else [section]
    return tuple(names)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of spec files. No field is required, because `extends` can supply any field."""
    whole = Spec.model_json_schema()
    choices = (choice for section in whole["properties"].values() for choice in (section, *section.get("oneOf", ())))
    sections = {choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice}
    for part in (whole, *(whole["$defs"][name] for name in sorted(sections))):
        part.pop("required", None)
    description = "Spec that supplies all fields missing in this file: the name of a shipped spec, or a path "
    extends = {"type": "string", "description": f"{description}relative to this file."}
    description = "Version of the file format. Default: the current version."
    file_format = {"type": "integer", "minimum": 1, "maximum": FORMAT, "description": description}
    properties = {"extends": extends, "format": file_format, **whole["properties"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "properties": properties}
