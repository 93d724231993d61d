"""What was probably meant: the remedies that errors about a spec's values offer."""

from collections.abc import Sequence

from specs.errors import nearest
from specs.notation import number, number_meant, shown
from specs.shape import description, fields, kinds
from specs.spec import Spec

_PART = (
    "a part of a corpus is `grammar`; `source` and `target`; `trees`; `archive`, `sha256`, `source` and `target`; or "
    "`held_out`"
)
_EITHER = {
    "architecture.N": "write one number of layers, or `{encoder: 6, decoder: 6}`",
    "decoding.workers": "write a number of threads, or `auto`",
}
"""What to write where a value is of one kind or another, by the name of its field."""

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


def alternatives(choices: Sequence[str]) -> str:
    """The choices in a sentence: `a`, `b` or `c`."""
    *others, last = [f"`{choice}`" for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def kinds_meant(location: Sequence[str | int]) -> str | None:
    """What may stand at a place where one of several kinds may; None where only one may."""
    if not (found := kinds(location)):
        return None
    if location[0] == "corpus":
        return _PART
    written = [f"{{kind: {kind}}}" for kind in found]
    return _EITHER.get(dotted(location)) or f"a sub-layer of `{dotted(location[:-1])}` is {alternatives(written)}"


def meaning(location: Sequence[str | int]) -> str | None:
    """What the field at one of pydantic's locations is: the remedy where none is nearer."""
    told = description(location)
    return None if told is None else f"what it is: {told.rstrip('.')}"


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
    if kind == "model_attributes_type" and isinstance(value, str):
        return f"write `{{kind: {value}}}`"
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


def field_meant(location: Sequence[str | int], known: Sequence[str], value: object) -> str:
    """The nearest of the fields that are `known` there, else the same field of another section, else all there are."""
    *path, last = location
    name = str(last)
    section, _, inner = name.partition(".")
    if not path and inner in fields([section]):
        return f"write `{section}: {{{inner}: {shown(value)[1:-1]}}}`"
    near = nearest(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    elsewhere = [section for section in Spec.model_fields if name in fields([section])]
    if elsewhere and len(path) < 2:
        return f"did you mean `{elsewhere[0]}.{name}`?"
    where = f"`{dotted(path)}`" if path else "a spec"
    return (
        f"the fields of {where} are {', '.join(known)}" if len(known) > 1 else f"{where} has no field but `{known[0]}`"
    )
