"""Validate the values of a spec or another file, and report pydantic's errors with the file and line of each value."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import Tag, ValidationError

from specs.errors import ZooError, nearest
from specs.notation import format_number, parse_number, quote, quote_in_full
from specs.reader import LocatedValue
from specs.section import Section
from specs.spec import Spec

Path = tuple[str | int, ...]

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "union_tag_not_found": "a mapping",
    "finite_number": "a finite number",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_PARTS = (
    "a part of a corpus has `grammar`; or `source` and `target`; or `pairs`; or `tsv`; or `trees`; or `archive`, "
    "`sha256`, `source` and `target`; or `models`, and `source` or `target`; or `digits`; or `held_out`"
)
_MAX_ERRORS = 20


_S = TypeVar("_S", bound=Section)


def validate(section: type[_S], values: LocatedValue, files: Sequence[str] = (), overrides: Sequence[str] = ()) -> _S:
    """Validate values, and return the spec or other section that contains them.

    Args:
        section: The class of the result, such as `Spec`.
        values: The merged values of all files and overrides.
        files: Names of the files that the values come from. An extended spec precedes the spec that extends it.
        overrides: The origins of the overrides, as error messages name them, such as "command line: `decoding.beam=4`".
            Later overrides replace earlier ones.

    Raises:
        ZooError: Values are missing, unknown or invalid. The exception is the first error in the order of `files` and
            `overrides`. Its `additional` attribute contains up to 20 further errors.
    """
    try:
        return section.model_validate(values.plain())
    except ValidationError as invalid:
        raise _combined_error(section, invalid, values, files, [*files, *overrides]) from None


def accepts_fractions(path: Sequence[str | int]) -> bool:
    """Return whether the spec field at a path of keys and indices accepts a float."""
    return _contains_float(_resolve(Spec, path).annotation)


class _Field(NamedTuple):
    """Field of a spec (or of another file) that a pydantic error refers to."""

    root: type[Section]
    """Class of the whole file: `Spec`, or another section."""
    path: Path
    """Keys and indices as users write them. Pydantic's locations also contain tags of unions."""
    annotation: Any
    description: str
    """Description of the innermost field on the path."""

    @property
    def subfields(self) -> tuple[str, ...]:
        """Names of the fields inside this field, if it is a section. Empty otherwise."""
        section = _unannotated(self.annotation)
        return tuple(section.model_fields) if _is_section(section) else ()


def _combined_error(
    root: type[Section], invalid: ValidationError, values: LocatedValue, files: Sequence[str], origins: Sequence[str]
) -> ZooError:
    def rank(located: LocatedValue) -> int:
        return origins.index(located.file) if located.file in origins else len(origins)

    found = []
    errors = invalid.errors(include_url=False)
    for error in _merge_missing(errors):
        # Pydantic also reports a list as too short if its parts are invalid.
        length = len(error["loc"])
        if error["type"] == "too_short" and any(e["loc"][:length] == error["loc"] for e in errors if e is not error):
            continue
        field = _resolve(root, error["loc"])
        located = values.at(field.path)  # for a missing field, the innermost mapping that exists
        if error["type"] == "rule":
            problem, hint = error["ctx"]["problem"], error["ctx"]["hint"]
            section = field.path if field.subfields else field.path[:-1]  # a validator of a field can also reject it
            paths = [(*section, *_split_key(name)) for name in error["ctx"]["fields"]]
            # If fields contradict each other, report the field that was written last.
            located = max((values.at(path) for path in paths), key=rank)
        else:
            problem, hint = _message(error, field, files)
        # On the same line, an unknown field comes first: it may be the misspelt name of a missing field.
        order = (rank(located), located.line or 0, error["type"] == "missing")
        found.append((order, ZooError(problem, where=located.where, hint=hint)))
    first, *additional = (error for _, error in sorted(found, key=lambda item: item[0]))
    if unlisted := additional[_MAX_ERRORS:]:
        hint = "correct the errors above first: they often have a common cause"
        additional[_MAX_ERRORS:] = [ZooError(f"{len(unlisted):,} more errors are not listed", hint=hint)]
    first.additional = tuple(additional)
    return first


def _merge_missing(errors: Sequence[Any]) -> list[Any]:
    """Return pydantic's errors, with all errors about missing fields of the same mapping merged into one.

    The merged error is the first of these errors. Its key "others" lists the names of the other missing fields.
    """
    first_of: dict[Path, Any] = {}
    merged = []
    for error in errors:
        if error["type"] == "missing":
            *mapping, name = error["loc"]
            if (first := first_of.setdefault(tuple(mapping), error)) is not error:
                first.setdefault("others", []).append(name)
                continue
        merged.append(error)
    return merged


def _message(error: Any, field: _Field, files: Sequence[str]) -> tuple[str, str | None]:
    """Return the problem and the hint for one of pydantic's errors."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    key = _dotted(field.path)
    explanation = _explain(field, key)
    if kind == "missing":
        return _missing(field, error.get("others", ()), files)
    if kind == "extra_forbidden":
        noun = "spec" if field.root is Spec else "file"
        known = _resolve(field.root, error["loc"][:-1]).subfields
        return f"`{key}` is not a field of this {noun}", _suggest_field(field, known)
    if kind == "union_tag_not_found" and isinstance(value, Mapping):
        return f"`{key}` has no valid kind: {quote_in_full(value)}", explanation
    if kind in ("union_tag_invalid", "literal_error"):
        if kind == "union_tag_invalid":
            key, value = f"{key}.kind", value["kind"] if isinstance(value, Mapping) else context["tag"]
        expected = context["expected_tags" if kind == "union_tag_invalid" else "expected"]
        choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
        near = nearest(value, choices) if isinstance(value, str) else None
        hint = explanation if near is None else f"did you mean `{near}`?"
        is_sublayer = near is None and key.startswith(("architecture.encoder[", "architecture.decoder["))
        own = "; if it is a kind of your own, call `zoo.register_sublayer` first" if is_sublayer else ""
        return f"`{key}` must be {_alternatives(choices)}, not {quote(value)}{own}", hint
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = context[name]
        limit = format_number(int(limit) if float(limit).is_integer() else limit)
        return f"`{key}` must be {words} {limit}, not {quote(value)}", explanation
    if kind in _EXPECTED:
        number = parse_number(str(value)) if kind in ("int_type", "float_type") else None
        if kind == "int_type" and isinstance(number, float):
            number = int(number) if number.is_integer() else None
        hint = explanation
        if number is not None:
            hint = f"write `{format_number(number)}`{', without quotes' * (format_number(number) == value)}"
        if kind == "string_type" and isinstance(value, (bool, int, float)):
            hint = f'write `"{quote(value)[1:-1]}"`'
        if kind == "tuple_type" and isinstance(value, Mapping):
            hint = f"write a list of mappings: `{key}: [{{...}}]`"
        return f"`{key}` must be {_EXPECTED[kind]}, not {quote(value)}", hint
    if kind in ("too_short", "string_too_short", "string_pattern_mismatch") and not value:
        return f"`{key}` is empty", explanation
    if kind == "string_pattern_mismatch":  # pydantic's message contains the regular expression
        return f"`{key}` cannot be {quote(value)}", explanation
    message = error["msg"].replace("Tuple should", "it must").replace(" after validation", "")
    return f"`{key}` cannot be {quote_in_full(value)}: {message[:1].lower()}{message[1:]}", explanation


def _missing(field: _Field, others: Sequence[str], files: Sequence[str]) -> tuple[str, str]:
    *mapping, name = field.path
    missing = [f"`{_dotted((*mapping, other))}`" for other in (name, *others)]
    if len(missing) > 3:
        missing[3:] = [f"{len(missing) - 3} more"]
    problem = f"{_enumerate(missing, 'and')} {'is' if len(missing) == 1 else 'are'} missing"
    # base.yaml has no languages that a spec could inherit
    if field.root is not Spec or len(field.path) > 2 or field.path[0] == "languages":
        return problem, f"write `{name}` here: {field.description.rstrip('.')}"
    root = f" to {files[0]}" if len(files) > 1 else ""
    return problem, f"add `extends: base`{root}, or write `{name}` here"


def _explain(field: _Field, key: str) -> str | None:
    """Return a hint for a field: its description or, if the field permits several kinds, a list of the kinds."""
    kinds = list(_members(field.annotation))
    if kinds and key.startswith("corpus."):
        return _PARTS
    if kinds and "." in key and isinstance(field.path[-1], int):
        return f"write {_alternatives([f'{{kind: {kind}}}' for kind in kinds])}"
    return f"`{key}`: {field.description.rstrip('.')}" if field.description else None


def _suggest_field(field: _Field, known: Sequence[str]) -> str:
    """Return the hint for an unknown field: a similar name, the same name in another section, or all names."""
    *parents, last = field.path
    name = str(last)
    ending = next((each for each in known if name.endswith(f"_{each}")), None)  # `steps`, written as `max_steps`
    near, inner = ending or nearest(name, known), name.rpartition(".")[2]
    if near is not None and "." not in name:
        return f"did you mean `{near}`?"
    root = field.root
    sections = [section for section in root.model_fields if inner in _resolve(root, [section]).subfields]
    if sections and len(parents) < 2:
        written = f"{sections[0]}: {{{inner}: ...}}" if "." in name else f"{sections[0]}.{inner}"
        return f"did you mean `{written}`?"
    return f"the fields{f' of `{_dotted(parents)}`' if parents else ''} are {', '.join(known)}"


def _dotted(path: Sequence[str | int]) -> str:
    """Return a path as users write it: `corpus.train[0].source`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _split_key(key: str) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", key))


def _alternatives(choices: Sequence[str]) -> str:
    return _enumerate([f"`{choice}`" for choice in choices], "or")


def _enumerate(words: Sequence[str], conjunction: str) -> str:
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def _resolve(root: type[Section], location: Sequence[str | int]) -> _Field:
    """Return the field that a location in one of pydantic's errors refers to."""
    path: list[str | int] = []
    annotation: Any = root
    description = ""
    for step in location:
        section, members = _unannotated(annotation), _members(annotation)
        if step in members:  # the tag of a union, which is not in the file
            annotation = members[str(step)]
            continue
        path.append(step)
        annotation = None
        if isinstance(step, int) and get_origin(section) is tuple:
            annotation = get_args(section)[0]
        elif isinstance(step, str) and _is_section(section) and step in section.model_fields:
            annotation = section.model_fields[step].annotation
            description = section.describe(step)
    return _Field(root, tuple(path), annotation, description)


def _members(annotation: Any) -> dict[str, Any]:
    """Return the members of a union type, keyed by their tags or by the values of their `kind` field."""
    members: dict[str, Any] = {}
    for member in get_args(_unannotated(annotation)):
        section = _unannotated(member)
        tags = [extra.tag for extra in get_args(member)[1:] if isinstance(extra, Tag)]
        if not tags and _is_section(section) and "kind" in section.model_fields:
            tags = list(get_args(section.model_fields["kind"].annotation))
        members |= dict.fromkeys(tags, member)
    return members


def _contains_float(annotation: Any) -> bool:
    return annotation is float or any(_contains_float(argument) for argument in get_args(annotation))


def _unannotated(annotation: Any) -> Any:
    """Return a type without its `Annotated` metadata. For an optional section, return the section's class."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    section, *others = get_args(annotation) or (None,)
    return section if others == [type(None)] and _is_section(section) else annotation


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)
