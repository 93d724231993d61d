"""XML of clients, who choose which elements divide the text and which ones are copied."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from zoo.documents.fragments import Format, Kind, View
from zoo.documents.html import SYNTAX, ElementRoles, Parser, html_format, is_untranslated, parse
from zoo.documents.tags import without_id


@dataclass
class _XmlElement:
    """Element of XML, or the root that all elements are in.

    Attributes:
        name: Name in lower case.
        parent: The element around it. None for the root.
        tags: Indices of its tags among the fragments that the parser found.
        has_text: Whether it has text outside of the elements in it.
        splits: Whether it is a segment of its own.
    """

    name: str
    parent: _XmlElement | None
    tags: list[int] = field(default_factory=list)
    has_text: bool = False
    splits: bool = False


class _XmlParser(Parser):
    is_xml = True

    def __init__(self, text: str, roles: ElementRoles) -> None:
        self._current = _XmlElement("", None, splits=True)
        self._elements: list[_XmlElement] = []
        self._open = Counter[str]()
        """Number of open elements with each name."""
        super().__init__(text, roles)
        self._root = self._elements[0].tags[0] if self._elements else None
        self._split()

    def _split(self) -> None:
        """Turn the tags of splitting elements into boundaries."""
        for element in self._elements:  # a parent precedes the elements in it
            parent = element.parent
            in_outline = self._roles.outline and parent is not None and parent.splits and not parent.has_text
            element.splits = element.name in self._roles.splitting or (
                in_outline and element.name not in self._roles.non_splitting
            )
            for index in element.tags if element.splits else ():
                self._found[index] = self._found[index]._replace(kind=Kind.BREAK)

    def _read_start_tag(self, start: int, name: str, raw: str) -> None:
        if self._copied or name in self._roles.copied or is_untranslated(raw):
            return super()._read_start_tag(start, name, raw)
        self._current = _XmlElement(name, self._current, [len(self._found)])
        self._elements.append(self._current)
        self._open[name] += 1
        return self._add(start, Kind.OPEN, name, again=without_id(raw, name))

    def _read_end_tag(self, start: int, name: str) -> None:
        if self._copied:
            return super()._read_end_tag(start, name)
        closed = None
        while self._open[name] and (closed is None or closed.name != name) and self._current.parent is not None:
            closed, self._current = self._current, self._current.parent
            self._open[closed.name] -= 1
        if closed is not None:
            closed.tags.append(len(self._found))
        return self._add(start, Kind.CLOSE, name)

    def _read_text(self, start: int, end: int, text: str | None = None) -> None:
        self._current.has_text |= not self._copied and bool((text or self._text[start:end]).strip())
        super()._read_text(start, end, text)

    def _is_inline(self, name: str) -> bool:
        return name not in self._roles.splitting


def format_with(roles: ElementRoles) -> Format:
    """Return the format of XML or HTML whose elements have these roles."""
    if roles.is_html:
        return html_format(roles, Parser)
    return (View(partial(parse, roles=roles, parser=_XmlParser), SYNTAX),)
