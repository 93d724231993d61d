"""YAML text becomes written values; no text is taken for a number that only one of YAML's versions sees."""

import re
from functools import lru_cache
from typing import Any, NoReturn

import yaml

from specs.errors import ZooError
from specs.notation import FLOAT, INTEGER, shown
from specs.written import Written, given

_TAG = "tag:yaml.org,2002:"
_MOST_VALUES = 20_000
_MOST_LEVELS = 20


class _Loader(yaml.SafeLoader):
    """Takes for a number, a truth value or null only what YAML 1.1 and 1.2 agree on; the rest is text.

    It reads no further than a spec could go.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self._file, self._nodes, self._levels = file, 0, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        self._levels += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        place = f"{self._file}:{mark.line + 1}"
        if self._nodes > 2 * _MOST_VALUES:  # keys are nodes, too
            raise _too_many(place)
        if self._levels > _MOST_LEVELS:
            raise _too_deep(place)
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node


def _too_many(where: str) -> ZooError:
    hint = "write less, or use fewer aliases"
    return ZooError(f"there are more than {_MOST_VALUES:,} values here", where=where, hint=hint)


def _too_deep(where: str) -> ZooError:
    return ZooError("the values are nested too deeply", where=where, hint="a spec has four levels at most")


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("null", re.compile(r"^(~|null|Null|NULL|)$"), "~nN"),
    ("int", re.compile(rf"^({INTEGER.pattern})$"), "-+0123456789"),
    ("float", re.compile(rf"^({FLOAT.pattern}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"), "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, [*_first, *([""] if _kind == "null" else [])])


class _Reader:
    """Turns one file's YAML nodes into written values."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.open: set[int] = set()

    def fail(self, problem: str, node: yaml.Node, hint: str | None = None) -> NoReturn:
        raise ZooError(problem, where=f"{self.file}:{node.start_mark.line + 1}", hint=hint)

    def value(self, node: yaml.Node) -> Written:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > _MOST_VALUES:  # an alias counts whenever it is used
            raise _too_many(f"{self.file}:{line}")
        if len(self.open) >= _MOST_LEVELS:
            raise _too_deep(f"{self.file}:{line}")
        if id(node) in self.open:
            self.fail("an alias stands for a value that it is part of", node, "write the value out")
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            written = Written(self.mapping(node), self.file, line)
        elif isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            written = Written([self.value(inner) for inner in node.value], self.file, line)
        elif isinstance(node, yaml.ScalarNode):
            written = Written(self.scalar(node), self.file, line)
        else:
            self.fail(f"the tag `{node.tag}` has no meaning here", node, "write the value without a tag")
        self.open.discard(id(node))
        return written

    def mapping(self, node: yaml.MappingNode) -> dict[str, Written]:
        values: dict[str, Written] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag in _NOT_TEXT:
                self.fail("a key is not text", key_node, "keys are the names of fields, such as `d_model`")
            key = str(key_node.value)
            if key in values:
                problem = f"{shown(key)} is written twice, first on line {lines[key]}"
                self.fail(problem, key_node, "keep one of them")
            lines[key] = key_node.start_mark.line + 1
            value = self.value(value_node)
            # A value that begins below its key is looked for at its key.
            values[key] = Written(value.value, self.file, lines[key])
        return values

    def scalar(self, node: yaml.ScalarNode) -> object:
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("int", "float"):
            # A tag can claim what the text is not, and Python refuses whole numbers of thousands of digits.
            try:
                return int(text) if kind == "int" else float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
            except ValueError:
                return text
        if kind not in ("str", "bool"):
            self.fail(f"the tag `{node.tag}` has no meaning here", node, "write the value without a tag")
        return text


_NOT_TEXT = {_TAG + kind for kind in ("int", "float", "bool", "null")}


def _values(text: str, file: str) -> Written | None:
    try:
        node = _Loader(text, file).get_single_node()
        return None if node is None else _Reader(file).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        problem = str(error.problem).removeprefix("but ")
        raise ZooError(f"this is not YAML: {problem}", where=where, hint=_remedy(error)) from None
    except yaml.reader.ReaderError as error:
        where = f"{file}:{text.count(chr(10), 0, error.position) + 1}"
        raise ZooError("a control character stands here", where=where, hint="delete it") from None


@lru_cache(maxsize=64)
def read(text: str, file: str) -> Written:
    """The values of YAML `text` with their lines; `file` is how errors call it. Never change the result.

    Raises ZooError where the text is not YAML, holds nothing, is not a mapping, or has a key twice.
    """
    written = _values(text, file)
    if written is None or written.value is None:
        raise ZooError("there is nothing in this spec", where=file, hint="begin with `extends: base`")
    if not isinstance(written.value, dict):
        problem = f"a spec is a mapping of keys to values, not {shown(written.plain())}"
        raise ZooError(problem, where=written.where, hint="begin with `extends: base`")
    return written


def read_value(text: str, place: str) -> Written:
    """The value of YAML `text`, written outside a file, at `place`. Raises ZooError where it is not YAML."""
    try:
        value = _values(text, place)
    except ZooError as error:
        raise ZooError(error.problem, where=place, hint=error.hint) from None
    return given(None if value is None else value.plain(), place)


def _remedy(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem)
    if "another document" in problem:
        return "a file holds one spec: delete what follows `---`"
    if "\\t" in problem:
        return "indent with spaces, not with tabs"
    if "cannot start any token" in problem:
        return "put text that begins with a sign in quotes"
    if "mapping values are not allowed" in problem:
        return "put text that holds `: ` in quotes, and indent the keys of one mapping alike"
    return f"look for a bracket, a quote or a colon that is missing or too many ({error.context or 'near here'})"
