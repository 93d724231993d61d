"""What was probably meant: the remedies that errors about a spec's values offer."""

from collections.abc import Sequence

from pydantic import BaseModel

from specs.corpus import Archive, Files, Grammar, HeldOut
from specs.errors import nearest
from specs.notation import number, number_meant, shown
from specs.spec import Spec

KINDS_OF_PART = "`grammar`; `source` and `target`; `archive`, `sha256`, `source` and `target`; or `held_out`"

PATTERNS = {
    "name": "write letters, digits and - _ . , only, a letter or digit first, never two dots in a row",
    "sha256": "write 64 hexadecimal digits in lower case, or null",
    "archive": "write an address that begins with http://, https:// or file://",
    "source": "write a language's code, such as en",
    "target": "write a language's code, such as de",
}
"""What a text must look like that did not, by the name of its field."""

_TRUTH = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}


def dotted(location: Sequence[str | int]) -> str:
    """A location as people write it: `corpus.train[0].source`."""
    words = ""
    for step in location:
        words += f"[{step}]" if isinstance(step, int) else f".{step}" if words else step
    return words


def value_meant(kind: str, value: object, key: str) -> str | None:
    """How the value of `key` would have been written that was probably meant; `kind` is pydantic's error."""
    if kind in ("int_type", "float_type"):
        return _number_meant(value, whole=kind == "int_type")
    if kind == "bool_type" and str(value).lower() in _TRUTH:
        return f"write `{_TRUTH[str(value).lower()]}`"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f'write `"{shown(value)[1:-1]}"`'
    if kind == "tuple_type" and isinstance(value, str):
        return f"write `[{value}]`"
    if kind == "tuple_type" and isinstance(value, dict):
        numbered = any(str(step).isdigit() for step in value)
        return f"write the whole list: `{key}=[...]`" if numbered else "put `- ` before its first key"
    if kind == "model_type" and value is None:
        return f"write fields below `{key}`, or leave it out"
    return None


def _number_meant(value: object, *, whole: bool) -> str | None:
    meant = number_meant(value) if isinstance(value, str) else value
    if isinstance(meant, bool) or not isinstance(meant, (int, float)):
        return None
    if whole and isinstance(meant, float):
        if not meant.is_integer():
            return None
        meant = int(meant)
    return f"write `{number(meant)}`{', without quotes' if number(meant) == value else ''}"


def field_meant(location: Sequence[str | int], value: object) -> str:
    """The nearest field of the same mapping, else the same field of another section, else all there are."""
    *path, last = location
    name, fields = str(last), _fields(path)
    section, _, inner = name.partition(".")
    if not path and inner in _fields([section]):
        return f"write `{section}: {{{inner}: {shown(value)[1:-1]}}}`"
    near = nearest(name, fields)
    if near is not None:
        return f"did you mean `{near}`?"
    elsewhere = [section for section in Spec.model_fields if name in _fields([section])]
    if elsewhere and len(path) < 2:
        return f"did you mean `{elsewhere[0]}.{name}`?"
    return f"the fields of {f'`{dotted(path)}`' if path else 'a spec'} are {', '.join(fields)}"


def _fields(path: Sequence[str | int]) -> tuple[str, ...]:
    """Names of the fields of the mapping at `path`."""
    if not path:
        return tuple(Spec.model_fields)
    if len(path) > 1:
        parts = (Grammar, Files, Archive, HeldOut)
        return tuple(dict.fromkeys(field for part in parts for field in part.model_fields))
    field = Spec.model_fields.get(str(path[0]))
    section = None if field is None else field.annotation
    if isinstance(section, type) and issubclass(section, BaseModel):
        return tuple(section.model_fields)
    return ()
