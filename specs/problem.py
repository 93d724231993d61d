"""What is wrong with a spec: from pydantic's findings to one error with its place and remedy."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from specs.errors import ZooError, nearest
from specs.notation import shown
from specs.remedy import PATTERNS, alternatives, dotted, field_meant, kinds_meant, value_meant
from specs.shape import Location, fields, written_at
from specs.written import Written

_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def first_error(invalid: ValidationError, written: Written, files: Sequence[str]) -> ZooError:
    """The first error in the order of reading (`files`, each from the top), and how many more there are."""
    found = []
    for error in invalid.errors(include_url=False):
        # A list of parts that are all wrong counts as empty for pydantic; nobody wrote an empty one.
        if error["type"] == "too_short" and error["input"]:
            continue
        told, place = _told(error, written, files)
        # On one line, a field that is no field comes first: it may well be the one that is missing.
        found.append((_rank(place, files), place.line or 0, error["type"] == "missing", told))
    found.sort(key=lambda each: each[:3])
    first = found[0][-1]
    if len(found) > 1:
        more = "1 more error follows" if len(found) == 2 else f"{len(found) - 1} more errors follow"
        first.hint = more if first.hint is None else f"{first.hint} ({more})"
    return first


def _rank(place: Written, files: Sequence[str]) -> int:
    """When the place is read: file after file, then what was written in none."""
    return files.index(place.file) if place.file in files else len(files)


def _told(error: Any, written: Written, files: Sequence[str]) -> tuple[ZooError, Written]:
    """One of pydantic's errors as ours, and the written value it is about."""
    location = written_at(error["loc"])
    # What is missing has no place of its own: the innermost mapping that lacks it stands for it.
    place = written.at(location)
    if error["type"] == "rule":
        problem, hint = error["ctx"]["problem"], error["ctx"]["hint"]
        keys = [_steps(key) for key in error["ctx"]["keys"]]
        # Of the fields that do not go together, the one written last is the one to mend, else the first named.
        place = max((written.at((*location, *key)) for key in keys), key=lambda each: _rank(each, files))
    elif error["type"] == "missing":
        problem, hint = _missing(location, files)
    else:
        problem, hint = _words(error, location)
    return ZooError(problem, where=place.where, hint=hint), place


def _missing(location: Location, files: Sequence[str]) -> tuple[str, str]:
    problem = f"`{dotted(location)}` is missing"
    if len(location) > 2:
        return problem, kinds_meant(location[:-1]) or f"write `{location[-1]}` here"
    root = f" to {files[0]}" if len(files) > 1 else ""
    return problem, f"add `extends: base`{root}, or write `{location[-1]}` here"


def _words(error: Any, location: Location) -> tuple[str, str | None]:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    key = dotted(location)
    if kind == "extra_forbidden":
        return f"`{key}` is not a field of this spec", field_meant(location, fields(error["loc"][:-1]), value)
    if kind == "union_tag_not_found" and context["discriminator"] == "'kind'":
        return f"`{key}.kind` is missing", kinds_meant(location)
    if kind == "union_tag_not_found":
        return f"`{key}` is not exactly one kind of part", kinds_meant(location)
    if kind == "union_tag_invalid":
        kind = value["kind"] if isinstance(value, Mapping) else context["tag"]
        problem, hint = _choice(f"{key}.kind", kind, context["expected_tags"])
        return problem, hint or kinds_meant(location)
    if kind == "literal_error":
        problem, hint = _choice(key, value, context["expected"])
        return problem, hint or kinds_meant(location)
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"`{key}` must be {words} {context[name]:.20g}, not {shown(value)}", None
    if kind in _WANTED:
        return f"`{key}` must be {_WANTED[kind]}, not {shown(value)}", value_meant(kind, value, key) or kinds_meant(
            location
        )
    if kind == "string_too_long":
        return f"`{key}` is longer than {context['max_length']} characters", "write less"
    if kind in ("too_short", "string_too_short"):
        return f"`{key}` is empty", "write at least one" if kind == "too_short" else "write something"
    if kind == "string_pattern_mismatch":
        return f"`{key}` cannot be {shown(value)}", PATTERNS.get(str(location[-1]))
    return f"`{key}` cannot be {shown(value)}: {error['msg']}", None


def _choice(key: str, value: object, expected: str) -> tuple[str, str | None]:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    problem = f"`{key}` must be {alternatives(choices)}, not {shown(value)}"
    near = nearest(value, choices) if isinstance(value, str) else None
    return problem, None if near is None else f"did you mean `{near}`?"


def _steps(key: str) -> Location:
    return tuple(int(step) if step.isdigit() else step for step in key.split("."))
