"""Parse YAML text into values that contain their file and line, for error messages."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NoReturn

import yaml

from specs.errors import ZooError
from specs.notation import FLOAT, INTEGER, quote

_TAG = "tag:yaml.org,2002:"
_NOT_TEXT = {_TAG + kind for kind in ("int", "float", "bool", "null")}
KIND_MAPPINGS = ("task", "source", "positions")
"""Fields that contain a mapping whose key `kind` determines which other keys it has."""
_YAML_HINT = "check brackets, quotes and colons, indent with spaces, not tabs, and write `---` only in the first line"
_MAX_VALUES = 20_000
_MAX_LEVELS = 20


@dataclass(frozen=True)
class LocatedValue:
    """A value of a spec, with the file and line that contain it. Mappings and lists contain further located values."""

    value: Any
    file: str
    line: int | None = None

    @property
    def where(self) -> str:
        """The location for error messages: the file and, if known, the line."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def plain(self) -> Any:
        """Return the value without locations, as dict, list, str, int, float, bool or None."""
        if isinstance(self.value, dict):
            return {key: value.plain() for key, value in self.value.items()}
        if isinstance(self.value, list):
            return [value.plain() for value in self.value]
        return self.value

    def overlaid(self, upper: "LocatedValue") -> "LocatedValue":
        """Return this value overridden by `upper`. Mappings are merged, and all other values are replaced.

        The mappings in `KIND_MAPPINGS` are merged only if `upper` has the same `kind` or no `kind`. Otherwise they are
        replaced, because each kind has different options.

        A merged mapping has the location of `upper`, or of this value if `upper` has no line. Errors about
        missing fields are reported at this location.
        """
        if not (isinstance(self.value, dict) and isinstance(upper.value, dict)):
            return upper
        merged = dict(self.value)
        for key, value in upper.value.items():
            replaced = key in KIND_MAPPINGS and key in merged and _kind_of(value) not in (None, _kind_of(merged[key]))
            merged[key] = value if key not in merged or replaced else merged[key].overlaid(value)
        location = self if upper.line is None else upper
        return LocatedValue(merged, location.file, location.line)

    def at(self, path: Sequence[str | int]) -> "LocatedValue":
        """Return the value at a path of keys and list indices.

        If the path does not exist, return the value at the longest prefix that exists.
        """
        current = self
        with suppress(KeyError, IndexError, TypeError):  # the path ends here
            for step in path:
                current = current.value[step]
        return current


def _kind_of(mapping: LocatedValue) -> object:
    return mapping.value["kind"].plain() if isinstance(mapping.value, dict) and "kind" in mapping.value else None


def locate(value: object, file: str, line: int | None = None) -> LocatedValue:
    """Convert a plain Python value, or a path, to a `LocatedValue`. All values in it get the same file and line."""
    if isinstance(value, Mapping):
        return LocatedValue({str(key): locate(inner, file, line) for key, inner in value.items()}, file, line)
    if isinstance(value, (list, tuple)):
        return LocatedValue([locate(inner, file, line) for inner in value], file, line)
    return LocatedValue(os.fspath(value) if isinstance(value, os.PathLike) else value, file, line)


@lru_cache(maxsize=64)
def read(text: str, file: str, start: str = "extends: base") -> LocatedValue:
    """Parse the YAML text of a spec or another file, and return its mapping, which callers must not change.

    Args:
        text: The whole text of the file.
        file: The name of the file, for error messages.
        start: An example of the first line of such a file, for error messages.

    Raises:
        ZooError: The text is not YAML, is empty, is not a mapping, or contains a key twice.
    """
    located = _values(text, file)
    if located is None or located.value is None:
        raise ZooError("the file is empty", where=file, hint=f"begin with `{start}`")
    if not isinstance(located.value, dict):
        problem = f"the file must be a mapping of keys to values, not {quote(located.plain())}"
        raise ZooError(problem, where=located.where, hint=f"begin with `{start}`")
    return located


def read_value(text: str, origin: str) -> LocatedValue:
    """Parse YAML text that is not in a file, such as the value of an override.

    Args:
        text: The YAML text.
        origin: Where the text was written, for error messages.

    Raises:
        ZooError: The text is not YAML.
    """
    try:
        value = _values(text, origin)
    except ZooError as error:
        raise ZooError(error.problem, where=origin, hint=error.hint) from None
    return locate(None if value is None else value.plain(), origin)


def _values(text: str, file: str) -> LocatedValue | None:
    try:
        loader = _Loader(text, file)
        node = loader.get_single_node()
        return None if node is None else loader.locate(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        problem = str(error.problem).removeprefix("but ")
        raise ZooError(f"invalid YAML: {problem}", where=where, hint=_YAML_HINT) from None
    except yaml.reader.ReaderError as error:
        where = f"{file}:{text.count(chr(10), 0, error.position) + 1}"
        raise ZooError("the text contains a control character", where=where, hint="delete this character") from None


class _Loader(yaml.SafeLoader):
    """YAML loader that reads a scalar as text unless YAML 1.1 and 1.2 agree that it is a number, boolean or null.

    The loader raises ZooError for a text that is too large or too deeply nested for a spec. `locate` converts the nodes
    that the loader has composed to located values.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's class state)

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self._file = file
        self._composed, self._located = 0, 0
        self._level = 0
        self._open: set[int] = set()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose the next node. Raise ZooError if the text has too many nodes or is nested too deeply."""
        self._composed += 1
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._check_size(self._composed // 2, self._level, event)  # keys are also nodes
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        return node

    def locate(self, node: yaml.Node) -> LocatedValue:
        """Convert a node to a located value."""
        self._located += 1  # each use of an alias counts
        self._check_size(self._located, len(self._open), node)
        if id(node) in self._open:
            self._fail("an alias refers to a value that contains this alias", node, "replace the alias with a value")
        self._open.add(id(node))
        value: object
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            value = self._mapping(node)
        elif isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            value = [self.locate(inner) for inner in node.value]
        elif isinstance(node, yaml.ScalarNode):
            value = self._scalar(node)
        else:
            self._fail_tag(node)
        self._open.discard(id(node))
        return LocatedValue(value, self._file, node.start_mark.line + 1)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, LocatedValue]:
        values: dict[str, LocatedValue] = {}
        for key_node, value_node in node.value:
            if value_node.start_mark.index == value_node.end_mark.index and re.match(r"\d", str(key_node.value)):
                hint = "write decimals with a point, such as `0.5`, and large numbers without commas"
                self._fail(f"{quote(key_node.value)} has no value", key_node, hint)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag in _NOT_TEXT:
                self._fail("a key must be text", key_node, "write the name of a field, such as `d_model`")
            key = str(key_node.value)
            if key in values:
                problem = f"{quote(key)} is written twice, first on line {values[key].line}"
                self._fail(problem, key_node, "remove one of the two lines")
            # A value that begins on a later line is located at its key.
            values[key] = replace(self.locate(value_node), line=key_node.start_mark.line + 1)
        return values

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text, kind = str(node.value), node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("int", "float"):
            # An explicit tag may be wrong, and Python refuses integers of thousands of digits.
            try:
                return int(text) if kind == "int" else float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
            except ValueError:
                return text
        if kind not in ("str", "bool"):
            self._fail_tag(node)
        return text

    def _check_size(self, count: int, level: int, node: yaml.Node) -> None:
        if count > _MAX_VALUES:
            hint = "check that this is the right file; each use of a YAML alias adds all its values"
            self._fail(f"the file contains more than {_MAX_VALUES:,} values", node, hint)
        if level >= _MAX_LEVELS:
            self._fail("the values are nested too deeply", node, "use at most four levels, as the shipped specs do")

    def _fail_tag(self, node: yaml.Node) -> NoReturn:
        self._fail(f"the YAML tag `{node.tag}` is not supported", node, "write the value without a tag")

    def _fail(self, problem: str, node: yaml.Node, hint: str) -> NoReturn:
        raise ZooError(problem, where=f"{self._file}:{node.start_mark.line + 1}", hint=hint)


for _kind, _pattern, _first in (
    ("bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("null", re.compile(r"^(~|null|Null|NULL|)$"), "~nN"),
    ("int", re.compile(rf"^({INTEGER.pattern})$"), "-+0123456789"),
    ("float", re.compile(rf"^({FLOAT.pattern}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"), "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, [*_first, *([""] if _kind == "null" else [])])
