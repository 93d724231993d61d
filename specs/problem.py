"""What is wrong with a spec: from pydantic's findings to one error with its place and remedy."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from specs.errors import ZooError, nearest
from specs.notation import number, shown
from specs.remedy import PATTERNS, alternatives, dotted, field_meant, kinds_meant, meaning, value_meant
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


_MOST_TOLD = 20


def all_errors(
    invalid: ValidationError, written: Written, files: Sequence[str], overrides: Sequence[str] = ()
) -> ZooError:
    """The first error in the order of reading (`files`, each from the top, `overrides`), the others as its `further`.

    What one mapping lacks is one error. Of very many the last are counted.
    """
    found, places = [], (*files, *overrides)
    for error in _lacks_together(invalid.errors(include_url=False)):
        # A list of parts that are all wrong counts as empty for pydantic; nobody wrote an empty one.
        if error["type"] == "too_short" and error["input"]:
            continue
        told, place = _told(error, written, files, places)
        # On one line, a field that is no field comes first: it may well be the one that is missing.
        found.append((_rank(place, places), place.line or 0, error["type"] == "missing", told))
    found.sort(key=lambda each: each[:3])
    first, *further = [each[-1] for each in found]
    if left := len(further[_MOST_TOLD:]):
        hint = "mend those above first: many errors often have one cause"
        further[_MOST_TOLD:] = [ZooError(f"there {'is' if left == 1 else 'are'} {left:,} more", hint=hint)]
    first.further = tuple(further)
    return first


def _lacks_together(errors: Sequence[Any]) -> list[Any]:
    """The errors, but of the fields that one mapping lacks only the first, with the names of the others."""
    together: dict[Location, Any] = {}
    kept = []
    for error in errors:
        if error["type"] == "missing":
            *mapping, name = error["loc"]
            if (first := together.setdefault(tuple(mapping), error)) is not error:
                first.setdefault("others", []).append(name)
                continue
        kept.append(error)
    return kept


def _rank(place: Written, places: Sequence[str]) -> int:
    """When the place is read: one after the other, then what was written in none."""
    return places.index(place.file) if place.file in places else len(places)


def _told(error: Any, written: Written, files: Sequence[str], places: Sequence[str]) -> tuple[ZooError, Written]:
    """One of pydantic's errors as ours, and the written value it is about."""
    location = written_at(error["loc"])
    # What is missing has no place of its own: the innermost mapping that lacks it stands for it.
    place = written.at(location)
    if error["type"] == "rule":
        problem, hint = error["ctx"]["problem"], error["ctx"]["hint"]
        keys = [_steps(key) for key in error["ctx"]["keys"]]
        # Of the fields that do not go together, the one written last is the one to mend, else the first named.
        place = max((written.at((*location, *key)) for key in keys), key=lambda each: _rank(each, places))
    elif error["type"] == "missing":
        problem, hint = _missing(location, error.get("others", ()), files)
        if (
            len(location) > 2 and location[0] == "architecture" and isinstance(location[-2], int)
        ):  # of a sub-layer whose kind is known
            hint = meaning(error["loc"]) or hint
    else:
        problem, hint = _words(error, location)
        hint = hint or meaning(error["loc"])
    return ZooError(problem, where=place.where, hint=hint), place


def _missing(location: Location, others: Sequence[str], files: Sequence[str]) -> tuple[str, str]:
    problem = f"`{dotted(location)}` is missing"
    if others:
        named = [f"`{dotted((*location[:-1], name))}`" for name in others[:2]]
        more = [f"{len(others) - 2} more"] if len(others) > 2 else []
        *before, last = [f"`{dotted(location)}`", *named, *more]
        problem = f"{', '.join(before)} and {last} are missing"
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
        return f"`{key}` must be {words} {_limit(context[name])}, not {shown(value)}", kinds_meant(location)
    if kind in _WANTED:
        return f"`{key}` must be {_WANTED[kind]}, not {shown(value)}", value_meant(kind, value, key) or kinds_meant(
            location
        )
    if kind == "string_too_long":
        return f"`{key}` is longer than {context['max_length']:,} characters", "write less"
    if kind == "too_long":
        return f"`{key}` has more than {context['max_length']:,} entries", "write fewer"
    if kind in ("too_short", "string_too_short"):
        return f"`{key}` is empty", "write at least one" if kind == "too_short" else "write something"
    if kind == "string_pattern_mismatch":
        return f"`{key}` cannot be {shown(value)}", PATTERNS.get(str(location[-1]))
    return f"`{key}` cannot be {shown(value)}: {error['msg']}", None


def _limit(limit: float) -> str:
    return number(int(limit) if float(limit).is_integer() else limit)


def _choice(key: str, value: object, expected: str) -> tuple[str, str | None]:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    problem = f"`{key}` must be {alternatives(choices)}, not {shown(value)}"
    near = nearest(value, choices) if isinstance(value, str) else None
    return problem, None if near is None else f"did you mean `{near}`?"


def _steps(key: str) -> Location:
    return tuple(int(step) if step.isdigit() else step for step in key.split("."))
