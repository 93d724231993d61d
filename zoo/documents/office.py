"""Readers for the XML in office documents: tokens, styles for code, and paragraphs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple
from xml.parsers import expat

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind
from zoo.documents.tags import local_attributes, xml_tag

_CODE = {
    *("htmlcode", "htmlkeyboard", "htmlpreformatted", "htmlsample", "macro", "macrotext", "preformattedtext"),
    *("sourcecode", "sourcetext", "userentry", "verbatim"),
}
"""Names of styles for code in Word, LibreOffice and pandoc, in lower case without spaces."""
_NO_LETTER = re.compile("_[0-9a-f]{2}_|[^a-zA-Z]")
_STYLE_TAG = re.compile(xml_tag("(style|name|basedOn)"))


class Role(Enum):
    """Role of an element in translation. The role depends, for instance, on the style of the element."""

    TEXT = auto()
    COPIED = auto()
    """Content that is copied, such as program code. In a sentence, it stands for a word."""
    COMPUTED = auto()
    """Content that Word computes. It is copied too, except paragraphs inside it."""
    ICON = auto()
    """Letters in a font of icons. They divide the text."""


_TokenKind = Literal["start", "end", "text", "other"]


class Token(NamedTuple):
    """Tag or text in an XML document: its characters in the file (`raw`), and the text that it represents.

    For an empty element, such as `<w:t/>`, `raw` of the start tag is the whole element, and `raw` of the end tag is "".
    `role` is the role of the element that a start tag begins.
    """

    kind: _TokenKind
    name: str
    raw: str
    text: str
    role: Role = Role.TEXT


def read_tokens(text: str, namespaces: Mapping[str, str]) -> list[Token]:
    """Split XML into tags and text.

    Args:
        text: Content of an XML file.
        namespaces: Prefixes for token names, keyed by namespace. The file may use other prefixes.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    content = text.encode()
    parser = expat.ParserCreate("utf-8", " ")  # names become a namespace, a space, and a local name
    found: list[tuple[int, _TokenKind, str, list[str]]] = []
    names: dict[str, str] = {}

    def refuse(*_: object) -> None:
        problem = "the XML declares entities, which zoo rejects because they can expand to very long texts"
        raise ZooError(problem, hint="remove the entity declarations")

    def record(kind: _TokenKind, name: str = "") -> None:
        if name not in names:
            namespace, _, local = name.rpartition(" ")
            names[name] = f"{namespaces[namespace]}:{local}" if namespace in namespaces else name
        found.append((parser.CurrentByteIndex, kind, names[name], []))

    def record_text(value: str) -> None:
        if not found or found[-1][1] != "text":
            record("text")
        found[-1][3].append(value)

    parser.StartElementHandler = lambda tag, _: record("start", tag)
    parser.EndElementHandler = lambda tag: record("end", tag)
    parser.CharacterDataHandler = record_text
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: record_text("")
    parser.DefaultHandler = lambda _: record("other")
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ZooError(f"the XML is damaged: {error}", hint="open the document and save it again") from None
    found = [(0, "other", "", []), *found, (len(content), "other", "", [])]
    return [
        Token(kind, name, content[start:end].decode(), "".join(texts))
        for (start, kind, name, texts), (end, *_) in pairwise(found)
    ]


def children(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each child of an element."""
    index, ends = 1, element_ends(tokens)
    while index < len(tokens) - 1:
        yield tokens[index : ends[index]]
        index = ends[index]


def element_ends(tokens: Sequence[Token]) -> list[int]:
    """Return the index after each token or, for a start tag, the index after its whole element."""
    ends, opened = list(range(1, len(tokens) + 1)), list[int]()
    for index, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(index)
        elif token.kind == "end":
            ends[opened.pop()] = index + 1
    return ends


def join_raw(tokens: Sequence[Token]) -> str:
    """Join tokens into a string, as they appear in the file."""
    return "".join(token.raw for token in tokens)


def join_text(tokens: Sequence[Token]) -> str:
    """Join the text of tokens, without tags."""
    return "".join(token.text for token in tokens)


def code_styles(*files: str) -> frozenset[str]:
    """Return the names of the styles for program code in XML files, including styles that are based on such a style."""
    found, style, based = list[str](), "", defaultdict[str, list[str]](list)
    for tag in (tag for text in files for tag in _STYLE_TAG.finditer(text)):
        given = local_attributes(tag[0])
        if tag[1] == "style":
            style = given.get("styleid") or given.get("name", "")
        if not style:  # nothing can refer to it
            continue
        parent = given.get("val" if tag[1] == "basedOn" else "parent-style-name", "")
        based[parent].append(style)
        names = style, parent, given.get("display-name", ""), given.get("val", "")
        if not _CODE.isdisjoint(_NO_LETTER.sub("", name).lower().removesuffix("char") for name in names):
            found.append(style)
    for style in found:  # the loop also visits the styles that it adds
        found += based.pop(style, [])
    return frozenset(found)


class InlineElement(NamedTuple):
    """Inline element of a paragraph. Properties at its start, such as `w:sdtPr`, count as part of its start tag.

    Attributes:
        is_unique: Whether the tags are written only once, even if the words of the element are not adjacent in the
            translation. Other elements, except links, are repeated around each group of adjacent words.
        child: Name of the child element that contains the text, or "" if the element itself contains the text.
        is_link: Whether the element is a link (see `Fragment`).
    """

    is_unique: bool = False
    child: str = ""
    is_link: bool = False

    def content(self, tokens: Sequence[Token], ends: Sequence[int], start: int) -> tuple[int, int]:
        """Return the start and end index of an element's content. They are equal if there is no content.

        `start` is the index of the start tag. `ends` contains the index after each element (see `element_ends`).
        """
        first, last = start + 1, ends[start] - 1
        while first < last and tokens[first].name.endswith("Pr"):
            first = ends[first]
        if self.child:
            first, last = (first + 1, ends[first] - 1) if tokens[first].name == self.child else (last, last)
        return first, max(first, last)


class ParagraphReader(ABC):
    """Base class for readers of paragraphs in office documents.

    Attributes:
        paragraphs: Names of the paragraph elements.
        untranslated: Names of elements whose paragraphs are not translated.
        elements: The inline elements, keyed by name.
    """

    paragraphs: ClassVar[Collection[str]]
    untranslated: ClassVar[Collection[str]]
    elements: ClassVar[Mapping[str, InlineElement]]

    @abstractmethod
    def read_leaf(self, tokens: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragments of a text node, or of an element that is not an inline element."""

    def read(self, tokens: Sequence[Token], level: int) -> Iterator[Fragment]:
        """Yield the fragments of paragraphs, and the rest of the file as boundaries.

        Args:
            tokens: The tokens in the file.
            level: Nesting level: 1 for ordinary paragraphs, 2 for paragraphs inside these, as in notes, and so on.
        """
        index, copied, depth, ends = 0, 0, 0, element_ends(tokens)
        while index < len(tokens):
            token, end = tokens[index], index + 1
            if token.name in self.untranslated or token.role is Role.COPIED:
                end = ends[index]
            elif token.name in self.paragraphs and token.kind == "end":
                depth -= 1
            elif token.name in self.paragraphs and depth + 1 < level:
                depth += 1
            elif token.name in self.paragraphs:
                end = ends[index]
                yield Fragment(Kind.BREAK, join_raw(tokens[copied : index + 1]))
                yield from self._read_paragraph(tokens[index + 1 : end - 1])
                copied = end - 1
            index = end
        yield Fragment(Kind.BREAK, join_raw(tokens[copied:]))

    def _read_paragraph(self, tokens: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragments of a paragraph from the tokens between its tags."""
        index, ends, opened = 0, element_ends(tokens), list[tuple[Fragment, int, int]]()
        """The start tag of each open element, the end of its content, and the index after the element."""
        while index < len(tokens):
            token, end = tokens[index], ends[index]
            element = self.elements.get(token.name) if token.role is Role.TEXT else None
            first, last = element.content(tokens, ends, index) if element else (0, 0)
            if opened and index == opened[-1][1]:
                start, _, end = opened.pop()
                yield Fragment(Kind.CLOSE, join_raw(tokens[index:end]), key=start.key, again=start.again)
            elif element and first < last:
                raw, again = join_raw(tokens[index:first]), "" if element.is_unique else None
                start = Fragment(Kind.OPEN, raw, key=token.name, again=again, is_link=element.is_link)
                opened.append((start, last, end))
                end = first
                yield start
            else:
                yield from self.read_leaf(tokens[index:end])
            index = end
