"""Tags of HTML and XML with their attributes, and the XML of office documents as tokens and paragraphs.

Each character of a tag is read once, even in malformed tags.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html.entities import html5
from itertools import pairwise
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind, View, unescape
from zoo.documents.segments import PLACEHOLDER

CODE = (
    r"(?s:\{\{(?:(?!\{\{|\}\}|</?[a-zA-Z]).)*+\}\}\}?+|\{%(?:(?!\{%|%\}|</?[a-zA-Z]).)*+%\}"
    r"|\{#(?:(?!\{#|#\}|</(?:p|h[1-6]|li|td|th|div|code|pre|kbd|samp|body)\b).)*+#\}|<%(?:(?!<%|%>).)*+%>|<\?(?:php|=)(?:(?!<\?|\?>).)*+\?>)"
)
"""Template code in HTML, as in Jinja, Handlebars, ERB and PHP."""
_SEPARATOR = r"(?<=</a>)(?:\s|&nbsp;)*+[|·•](?:\s|&nbsp;)*+\Z"
HTML_CODE = re.compile(
    rf"(?P<alone>^[ \t]*+(?:{CODE}[ \t]*+)++(?=\r?\n))|(?P<between>{_SEPARATOR})|{CODE}", re.MULTILINE
)
"""Template code, or a separator between two links. Code in a line of its own is in the group `alone`."""
XML_CODE = re.compile(r"&[a-zA-Z_][\w.-]*+;")
"""Entity. If HTML does not define it, the document does."""
_DIVIDING = re.compile(r"\{[%#]|\{\{\{?\s*(?:[#/^!]|else\b)|<%(?![=-])|<\?php\s+(?:\}|else|end)|(?s:<\?.*[:{]\s*\?>)")
"""Template code that divides text, such as a condition or a comment."""
_VARIABLE = re.compile(r'\{\{(?!\s*(?:[#/^!]|else\b))[^{}<>&"]*+\}\}')
"""Template code that stays in the text, because the translator keeps such placeholders."""
_CHARACTERS = r"(?:(?!\{[{%#]|<[%?])[^\s/>=])++"
_VALUE = rf"""(?:"(?:[^"{{<]++|{CODE}|[{{<])*+"|'(?:[^'{{<]++|{CODE}|[{{<])*+'|(?:[^\s>{{<]++|{CODE}|[{{<])*+)"""
_NAME = rf"[a-zA-Z](?:{_CHARACTERS}|=)*+"
TAG = re.compile(rf"<(/?)({_NAME})(?:[\s/=]++|{CODE}|{_CHARACTERS}(?:\s*+=\s*+{_VALUE})?+|[{{<])*+>")
"""Tag with its attributes. An unpaired quotation mark is part of a value."""
TAG_START = re.compile(f"</?{_NAME}")
_ATTRIBUTE = re.compile(rf"[\s/=]++|{CODE}|({_CHARACTERS})(?:\s*+=\s*+({_VALUE}))?+")
_MAYBE_ID = re.compile(r"(?:id|name)\s*+=", re.IGNORECASE)


class Attribute(NamedTuple):
    """Attribute of a tag.

    Attributes:
        name: The name in lower case.
        value: The value without entities.
        quote: The quotation mark around the value, or "".
        start: Position of the name in the tag.
        value_start: Position of the value, without quotation mark.
        value_end: Position after the value.
    """

    name: str
    value: str
    quote: str
    start: int
    value_start: int
    value_end: int


def attributes(tag: str) -> Iterator[Attribute]:
    """Yield the attributes of a start tag."""
    start = TAG_START.match(tag)
    for match in _ATTRIBUTE.finditer(tag, start.end() if start else 0, len(tag) - 1):
        if match[1]:
            value = match[2] or ""
            is_quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
            quote = value[0] if is_quoted else ""
            first, last = (match.end() - len(value) + is_quoted, match.end() - is_quoted)
            yield Attribute(match[1].lower(), unescape(tag[first:last]), quote, match.start(), first, last)


def attribute_view(
    find_tags: Callable[[str], Iterable[tuple[int, str, str]]], is_text: Callable[[str, str, Attribute], bool]
) -> View:
    """Return a view of the attributes to translate, such as `alt`. Translations are written in double quotation marks.

    Args:
        find_tags: Function that returns the position, name and text of each start tag in a file.
        is_text: Function that returns whether to translate an attribute, given the name and text of its tag.
    """

    def find(text: str) -> Iterator[tuple[int, Fragment]]:
        for start, name, tag in find_tags(text):
            for each in attributes(tag):
                # Between other quotation marks, the code may contain `"`.
                is_plain = all(_VARIABLE.fullmatch(code[0]) for code in HTML_CODE.finditer(each.value))
                if is_text(name, tag, each) and (each.quote == '"' or is_plain):
                    mark = Fragment(Kind.BREAK, each.quote, output='"')
                    yield start + each.value_start - len(each.quote), mark
                    for position, part in split_code(HTML_CODE, tag, each.value_start, each.value_end):
                        yield start + position, part if each.quote == '"' else replace(part, output=_escape(part.text))
                    yield start + each.value_end, mark

    return View(lambda text: add_boundaries(text, find(text)), _escape)


def split_code(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, Fragment]]:
    """Split `text[start:end]` into text and template code. Yield the position and the fragment of each part.

    Code on a line of its own, and code such as `{% if %}`, is a BREAK. Other code is a UNIT in the sentence around it.
    """
    for code in pattern.finditer(text, start, end):
        is_last = code.lastgroup == "between" and not text.startswith("<a", code.end())  # no link follows
        if is_last or code[0][1:] in html5 or _VARIABLE.fullmatch(code[0].strip()):
            continue
        if start < code.start():
            yield start, Fragment(Kind.TEXT, text[start : code.start()], unescape(text[start : code.start()]))
        continues = text[max(start, code.start() - 50) : code.start()].rstrip()[-1:].isalnum()
        is_alone = code.lastgroup == "between" or (code.lastgroup and not continues)
        kind = Kind.BREAK if is_alone or _DIVIDING.match(code[0].lstrip()) else Kind.UNIT
        yield code.start(), Fragment(kind, code[0], PLACEHOLDER if kind is Kind.UNIT else "")
        start = code.end()
    if start < end:
        yield start, Fragment(Kind.TEXT, text[start:end], unescape(text[start:end]))


def add_boundaries(text: str, parts: Iterable[tuple[int, Fragment]]) -> list[Fragment]:
    """Return the fragments in `parts`, with the text between them as boundaries.

    Args:
        text: The whole text.
        parts: The start position of each fragment, and the fragment, in order.
    """
    fragments, end = list[Fragment](), 0
    for start, part in parts:
        fragments += [Fragment(Kind.BREAK, text[end:start])] * (start > end) + [part]
        end = start + len(part.raw)
    return [*fragments, Fragment(Kind.BREAK, text[end:])]


def _escape(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def pattern_view(pattern: re.Pattern[str]) -> View:
    """Return a view of the XML text that the pattern's group `text` matches. Other groups match language codes."""

    def find(text: str) -> Iterator[tuple[int, Fragment]]:
        for match in pattern.finditer(text):
            if match.lastgroup == "text":
                if "<" not in (value := unescape(match["text"])):  # descriptions may have markup
                    yield match.start("text"), Fragment(Kind.TEXT, match["text"], value)
            elif match.lastgroup:
                yield match.start(match.lastgroup), Fragment(Kind.LANGUAGE, match[match.lastgroup])

    return View(lambda text: add_boundaries(text, find(text)), escape)


def values(tag: str) -> dict[str, str]:
    """Return the attribute values of a start tag, keyed by name. If a name occurs twice, return the first value."""
    return {each.name: each.value for each in reversed(list(attributes(tag)))}


def without_id(tag: str, name: str) -> str | None:
    """Return a start tag without the attributes that identify its element, or None if it has no such attributes."""
    if not _MAYBE_ID.search(tag):
        return None
    identity = ("id", "xml:id", *(("name",) if name == "a" else ()))
    kept, position = "", 0
    for each in attributes(tag):
        if each.name in identity:
            position, before = each.value_end + len(each.quote), tag[position : each.start].rstrip()
            kept += before + " " * (tag[position] not in " \t\r\n\f/>")
    return kept + tag[position:] if position else None


_CODE = {
    *("htmlcode", "htmlkeyboard", "htmlpreformatted", "htmlsample", "macro", "macrotext", "preformattedtext"),
    *("sourcecode", "sourcetext", "userentry", "verbatim"),
}
"""Names of styles for code in Word, LibreOffice and pandoc, in lower case without spaces."""
_NO_LETTER = re.compile("_[0-9a-f]{2}_|[^a-zA-Z]")
_STYLE_TAG = re.compile(r"""<(?:[\w.-]++:)?(style|name|basedOn)\s(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>""")


class Token(NamedTuple):
    """Tag or text in an XML document: its characters in the file (`raw`), and the text that it represents.

    For an empty element, such as `<w:t/>`, `raw` of the start tag is the whole element, and `raw` of the end tag is "".
    """

    kind: str
    name: str
    raw: str
    text: str


def read_tokens(text: str, namespaces: Mapping[str, str]) -> list[Token]:
    """Split XML into tags and text.

    Args:
        text: The XML.
        namespaces: Prefixes for token names, keyed by namespace. The file may use other prefixes.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    content = text.encode()
    parser = expat.ParserCreate("utf-8", " ")  # names become a namespace, a space, and a local name
    found: list[tuple[int, str, str, list[str]]] = []
    names: dict[str, str] = {}

    def refuse(*_: object) -> None:
        raise ZooError("the XML declares entities, which can make it very large", hint="remove the entity declarations")

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
    """Return the index after each token. For a start tag, return the index after the whole element."""
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


def local_attributes(raw: str) -> dict[str, str]:
    """Return the attribute values of the first tag, keyed by lower-case names without namespace prefixes."""
    tag = TAG.match(raw)
    return {each.name.rpartition(":")[2]: each.value for each in attributes(tag[0])} if tag else {}


def code_styles(*files: str) -> frozenset[str]:
    """Return the names of all styles for program code in XML files, including styles based on such a style."""
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
        names: Names of the paragraph elements.
        skipped: Names of elements whose paragraphs are not translated.
        level: Nesting level: 1 for ordinary paragraphs, 2 for paragraphs inside these, as in notes, and so on.
        elements: The inline elements, keyed by name. The value specifies the content of an element: the name of the
            child with its text, "" for everything after its properties, or None for everything. Only an element with
            the value None may be repeated if its words are not adjacent in the translation.
        leaf: Function that returns the fragments of a text node, or of an element that is copied as a whole.
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
    """Return the start and end of an inline element's content, or None if the element has no content."""
    first, last = index + 1, ends[index] - 1
    if child is not None:
        while first < last and tokens[first].name.endswith("Pr"):  # properties, such as w:sdtPr
            first = ends[first]
    if child:
        if tokens[first].name != child:
            return None
        first, last = first + 1, ends[first] - 1
    return (first, last) if first < last else None
