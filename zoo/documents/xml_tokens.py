"""XML of office documents: tags and texts with their spelling in the file, and the paragraphs among them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.parsers import expat

from specs import ZooError
from zoo.documents import tags
from zoo.documents.fragments import Fragment, Kind

_CODE = frozenset(
    (
        *("htmlcode", "htmlkeyboard", "htmlpreformatted", "htmlsample", "macro", "macrotext", "preformattedtext"),
        *("sourcecode", "sourcetext", "userentry", "verbatim"),
    )
)
"""Names of styles for code in Word, LibreOffice and pandoc, in lower case without spaces."""
_NO_LETTER = re.compile("_[0-9a-f]{2}_|[^a-zA-Z]")
_STYLE_TAG = re.compile(r"""<(?:[\w.-]++:)?(style|name|basedOn)\s(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>""")


class Token(NamedTuple):
    """Tag or text of an XML document: its spelling in the file, and the text that it represents.

    The start tag of an empty element, such as `<w:t/>`, has the spelling of the element. Its end tag has none.
    """

    kind: str
    name: str
    raw: str
    text: str


def read_tokens(text: str, namespaces: Mapping[str, str]) -> list[Token]:
    """Return the tags and texts of XML.

    Args:
        text: The XML.
        namespaces: Prefixes of the names of tokens, by namespace. The file may use other prefixes.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    content = text.encode()
    parser = expat.ParserCreate("utf-8", " ")  # names become a namespace, a space, and a local name
    found: list[tuple[int, str, str, list[str]]] = []
    names: dict[str, str] = {}

    def refuse(*_: object) -> None:
        raise ZooError("it declares entities, which can make it very large", hint="save the document again")

    def record(kind: str, name: str = "") -> None:
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
        raise ZooError(f"its XML is damaged: {error}", hint="open and save the document again") from None
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
    """Return, for each token, the index after its element if it is a start tag, and otherwise the next index."""
    ends, opened = list(range(1, len(tokens) + 1)), list[int]()
    for index, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(index)
        elif token.kind == "end" and opened:
            ends[opened.pop()] = index + 1
    for index in opened:
        ends[index] = len(tokens)
    return ends


def join_raw(tokens: Sequence[Token]) -> str:
    """Return the tokens as the file spells them."""
    return "".join(token.raw for token in tokens)


def join_text(tokens: Sequence[Token]) -> str:
    """Return the text of the tokens."""
    return "".join(token.text for token in tokens)


def attributes(raw: str) -> dict[str, str]:
    """Return the attributes of the first tag by their names in lower case without prefixes."""
    tag = tags.TAG.match(raw)
    return {each.name.rpartition(":")[2]: each.value for each in tags.attributes(tag[0])} if tag else {}


def code_styles(*files: str) -> frozenset[str]:
    """Return the names of the styles for code, and of the styles based on them, that XML files define."""
    found, style, based = list[str](), "", defaultdict[str, list[str]](list)
    for tag in (tag for text in files for tag in _STYLE_TAG.finditer(text)):
        given = attributes(tag[0])
        if tag[1] == "style":
            style = given.get("styleid") or given.get("name", "")
        if not style:  # nothing can refer to it
            continue
        parent = given.get("val" if tag[1] == "basedOn" else "parent-style-name", "")
        based[parent].append(style)
        names = style, parent, given.get("display-name", ""), given.get("val", "")
        if not _CODE.isdisjoint(_NO_LETTER.sub("", name).lower().removesuffix("char") for name in names):
            found.append(style)
    for style in found:  # the list grows
        found += based.pop(style, [])
    return frozenset(found)


def paragraph_fragments(
    tokens: Sequence[Token],
    names: Collection[str],
    skipped: Collection[str],
    level: int,
    elements: Mapping[str, str | None],
    leaf: Callable[[Sequence[Token]], Iterable[Fragment]],
) -> Iterator[Fragment]:
    """Yield the fragments of paragraphs, and the rest of the file as boundaries.

    Args:
        tokens: The tokens of the file.
        names: Names of paragraphs.
        skipped: Names of elements whose paragraphs are copied.
        level: 1 for paragraphs of the file, 2 for those inside of other paragraphs, such as in text boxes and notes.
        elements: Names of inline elements. The value is None if an element may be repeated around other words.
            Otherwise, it is the name of the child with the text. "" means all content after the properties.
        leaf: Function that returns the fragments of a text or of an element that is copied as a whole.
    """
    index, copied, depth, ends = 0, 0, 0, element_ends(tokens)
    while index < len(tokens):
        token, end = tokens[index], index + 1
        if token.name in names and token.kind == "end":
            depth -= 1
        elif token.name in names and depth + 1 < level:
            depth += 1
        elif token.name in names:
            end = ends[index]
            yield Fragment(Kind.BREAK, join_raw(tokens[copied : index + 1]))
            yield from _inline_fragments(tokens[index + 1 : end - 1], elements, leaf)
            copied = end - 1
        elif token.name in skipped:
            end = ends[index]
        index = end
    yield Fragment(Kind.BREAK, join_raw(tokens[copied:]))


def _inline_fragments(
    tokens: Sequence[Token],
    elements: Mapping[str, str | None],
    leaf: Callable[[Sequence[Token]], Iterable[Fragment]],
) -> Iterator[Fragment]:
    """Yield the fragments of a paragraph from the tokens between its tags (see `paragraph_fragments`)."""
    index, ends, closing = 0, element_ends(tokens), dict[int, tuple[str, int, str | None]]()
    while index < len(tokens):
        token, end = tokens[index], ends[index]
        if index in closing:
            name, end, again = closing[index]
            yield Fragment(Kind.CLOSE, join_raw(tokens[index:end]), name=name, again=again)
        elif token.name in elements and (inside := _content(tokens, ends, index, elements[token.name])):
            again = None if elements[token.name] is None else ""
            closing[inside[1]] = (token.name, end, again)
            end = inside[0]
            yield Fragment(Kind.OPEN, join_raw(tokens[index:end]), name=token.name, again=again)
        else:
            yield from leaf(tokens[index:end])
        index = end


def _content(tokens: Sequence[Token], ends: Sequence[int], index: int, child: str | None) -> tuple[int, int] | None:
    """Return where the content of an inline element starts and ends. None if it has none."""
    first, last = index + 1, ends[index] - 1
    if child is not None:
        while first < last and tokens[first].name.endswith("Pr"):  # properties, such as w:sdtPr
            first = ends[first]
    if child:
        if tokens[first].name != child:
            return None
        first, last = first + 1, ends[first] - 1
    return (first, last) if first < last else None
