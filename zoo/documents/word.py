"""Word documents (.docx). Everything but the text of paragraphs is copied. Runs are read as inline elements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from xml.sax.saxutils import escape

from specs import ZooError
from zoo.documents.fragments import RANGE_MARKS, Archive, Format, Fragment, Kind, View, join_fragments, match_tags
from zoo.documents.office import (
    InlineElement,
    ParagraphReader,
    Role,
    Token,
    children,
    code_styles,
    join_raw,
    join_text,
    read_tokens,
)
from zoo.documents.segments import PLACEHOLDER
from zoo.documents.tags import StartTag, attribute_view, local_attributes, xml_tag
from zoo.text.sentences import MAX_TEXT_LENGTH


class _FieldMark(Enum):
    """Mark of a field. The value is the `fldCharType` attribute in the document."""

    BEGIN = "begin"
    SEPARATE = "separate"
    END = "end"


@dataclass(frozen=True, slots=True)
class _FieldCode:
    """The code of a field, such as `PAGE`, or a part of the code."""

    text: str


@dataclass(frozen=True, slots=True)
class _Run:
    """Run in a Word document: text with one style. Two runs compare equal if their styles are equal.

    Attributes:
        style: The properties of the run, as they are written in the document.
        start: The start tag and the properties.
        end: The end tag.
    """

    style: str
    start: str = field(compare=False)
    end: str = field(compare=False)


_MAX_CODE = 100
"""Maximum length of a field code. The rest of a longer code is ignored."""
_COMPUTED_CODE = re.compile(
    "=|(?:PAGE|NUMPAGES|SECTION|SECTIONPAGES|PAGEREF|REF|NOTEREF|FTNREF|STYLEREF|SEQ|LISTNUM|AUTONUM|DATE|TIME|CREATEDATE"
    "|SAVEDATE|PRINTDATE|EDITTIME|CITATION|BIBLIOGRAPHY|FILENAME|FILESIZE|TITLE|SUBJECT|AUTHOR|KEYWORDS|COMMENTS|INFO"
    "|LASTSAVEDBY|USERNAME|USERINITIALS|USERADDRESS|TEMPLATE|DOCPROPERTY|DOCVARIABLE|MERGEFIELD|MERGEREC|MERGESEQ|REVNUM"
    r"|NUMCHARS|NUMWORDS|SYMBOL|EQ|ADDIN|BARCODE|DISPLAYBARCODE|ADDRESSBLOCK|GREETINGLINE)\b",
    re.IGNORECASE,
)
"""Fields whose result Word or a reference manager computes."""


@dataclass
class _Field:
    """Field of a Word document, such as a page number or a link, whose end has not been read yet.

    A field consists of a code, such as `PAGE`, and usually the result that Word shows.

    Attributes:
        begin: Index of the field's first fragment.
        is_inside: Whether the field is inside the code of another field, or inside a result that is copied.
        code: The start of the field's code.
        separate: Index of the fragment that precedes the field's result. -1 if the field has no result.
    """

    begin: int
    is_inside: bool
    code: str = ""
    separate: int = -1

    @property
    def hides(self) -> bool:
        """Whether a nested field that begins now is in this field's code, or in a result that is copied."""
        return self.is_inside or self.separate < 0 or _is_computed(self.code)


def _is_part(fragment: Fragment) -> bool:
    """Return whether a fragment is part of a field: the code, or a mark such as the beginning of the field."""
    return isinstance(fragment.key, _FieldMark | _FieldCode)


def _is_computed(code: str) -> bool:
    """Return whether Word computes the result of a field from its code. Such results are not translated."""
    return _COMPUTED_CODE.match(code.strip()) is not None


def _is_link(code: str) -> bool:
    """Return whether a field with this code is a link."""
    return code.strip().upper().startswith("HYPERLINK")


def _join_fields(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Join the parts of each field, and return all fragments.

    A field becomes a UNIT fragment, which is copied, if Word computes its result, such as a page number. Any other
    field becomes an inline element around its result. If a field begins and ends in different paragraphs or elements,
    its parts become boundaries between segments.
    """
    fields, result = list[_Field](), list[Fragment]()
    for fragment in fragments:
        result.append(fragment)
        match fragment.key:
            case _FieldMark.BEGIN:
                fields.append(_Field(len(result) - 1, bool(fields) and fields[-1].hides))
            case _FieldMark.END if fields:
                field = fields.pop()
                if not field.is_inside:
                    _join(result, field)
            case _FieldMark.SEPARATE if fields and fields[-1].separate < 0:
                fields[-1].separate = len(result) - 1
            case _FieldCode(text) if fields and fields[-1].separate < 0:
                fields[-1].code = (fields[-1].code + text)[:_MAX_CODE]
    # The remaining parts belong to incomplete fields.
    result = [replace(each, kind=Kind.BREAK) if isinstance(each.key, _FieldMark) else each for each in result]
    tags = match_tags(result)
    is_divided = {index for index, each in enumerate(result) if each.key is _Field} - tags.keys() - set(tags.values())
    return [replace(each, kind=Kind.BREAK) if index in is_divided else each for index, each in enumerate(result)]


def _join(fragments: list[Fragment], field: _Field) -> None:
    """Join the last fragments, which form a field, in place.

    The fragments become one UNIT fragment, which is copied, in three cases: Word computes the field's result, there is
    no result, or the field is a blank in a form. Otherwise, the fragments before and after the result become the tags
    of an inline element. Fragments that are not whole become a boundary between segments.
    """
    again = None if _is_link(field.code) else ""
    parts = fragments[field.begin :]
    is_blank = again is not None and not any(character.isalpha() for part in parts for character in part.text)
    if field.separate < 0 or is_blank or _is_computed(field.code):
        text = "".join(part.text for part in parts)
        if text or _is_computed(field.code):
            text = text if text.strip() else PLACEHOLDER  # a blank of a form, or Word computes the result later
        text, kind = (text, Kind.UNIT) if _is_whole(parts) else ("", Kind.BREAK)
        fragments[field.begin :] = [join_fragments(parts, text, kind)]
        return
    fragments[-1] = replace(parts[-1], kind=Kind.CLOSE, key=_Field, again=again)
    before = slice(field.begin, field.separate + 1)
    kind = Kind.OPEN if _is_whole(fragments[before]) else Kind.BREAK
    tag = join_fragments(fragments[before], kind=kind)
    fragments[before] = [replace(tag, key=_Field, again=again, is_link=again is None)]


def _is_whole(fragments: Sequence[Fragment]) -> bool:
    """Return whether fragments contain both tags of each element, both marks of each range, and no boundary."""
    kinds = Counter(each.kind for each in fragments)
    marks = Counter(each.key for each in fragments if each.kind in RANGE_MARKS)
    is_matched = 2 * len(match_tags(fragments)) == kinds[Kind.OPEN] + kinds[Kind.CLOSE]
    return is_matched and not kinds[Kind.BREAK] and all(count == 2 for count in marks.values())


_FILES = tuple(f"word/{part}" for part in ("document", "header", "footer", "footnotes", "endnotes", "comments"))
_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_MATH = ("http://schemas.openxmlformats.org/officeDocument/2006/math", "http://purl.oclc.org/ooxml/officeDocument/math")
_NAMESPACES = {**dict.fromkeys(_WORD, "w"), **dict.fromkeys(_MATH, "m")} | {
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc"
}
_PICTURE = re.compile(xml_tag("docPr"))
_PREFIX = re.compile(rf"""\sxmlns(?::([^\s=]+))?\s*=\s*["'](?:{"|".join(map(re.escape, _WORD))})["']""")
_UNIQUE = InlineElement(is_unique=True)
_ELEMENTS = {
    **dict.fromkeys(("w:ins", "w:moveTo", "w:dir", "w:bdo"), InlineElement()),
    "w:hyperlink": InlineElement(is_link=True),
    **dict.fromkeys(("w:customXml", "w:smartTag", "w:fldSimple"), _UNIQUE),
    "w:sdt": InlineElement(is_unique=True, child="w:sdtContent"),
    "mc:AlternateContent": InlineElement(is_unique=True, child="mc:Choice"),
}
_RANGE = re.compile(r"w:(bookmark|perm|commentRange|move(?:From|To)Range|customXml\w+Range)(Start|End)")
_DROPPED = ("", "w:softHyphen", "w:lastRenderedPageBreak", "w:proofErr")
"""Elements that a translation does not need. "" is white space between elements."""
_STYLED = ("w:p", "w:r", "w:pPrChange", "w:rPrChange")
"""Elements with a style, and elements with the style before a tracked change."""
_TEXT_BOX = "txbxContent"
_MAX_COPIED = 50_000_000
"""Maximum total number of characters in the start tags and styles that are repeated because runs are split."""
_MIN_COPY = 100
"""Number of characters that each split adds to this total, so that the number of splits is limited too."""
_ICON_FONTS = ("Webdings", "Wingdings")
_GAP = re.compile("([ \u00a0]{3,}|\u00a0{2,})")
"""Wide gap, such as the blank between two entries in a form."""


class _Reader(ParagraphReader):
    """Reader for the XML files in a Word document (.docx)."""

    paragraphs, untranslated, elements = ("w:p",), ("w:del", "w:moveFrom"), _ELEMENTS

    def __init__(self, prefix: str, code: Collection[str]) -> None:
        """Create a reader. `prefix` is the prefix of element names. `code` contains the names of styles for code."""
        self._prefix, self._code = prefix, code
        self._copied = 0
        """Number of characters in the start tags and styles that are repeated (see `_MAX_COPIED`)."""

    def parse(self, text: str, level: int = 1) -> list[Fragment]:
        """Return the fragments of an XML file.

        Args:
            text: Content of the XML file.
            level: Nesting level: 1 for ordinary paragraphs, 2 for paragraphs in text boxes, which are in paragraphs.

        Raises:
            ZooError: The XML is damaged, or declares entities.
        """
        if level > 1 and _TEXT_BOX not in text:
            return [Fragment(Kind.BREAK, text)]
        self._copied = 0
        return _join_fields(_wrap_runs(self.read(self._tokens(text), level)))

    def write_text(self, text: str) -> str:
        """Return a text element (`w:t`) that contains a text."""
        return f'<{self._prefix}t xml:space="preserve">{escape(text)}</{self._prefix}t>'

    def _tokens(self, text: str) -> list[Token]:
        """Return the tokens of an XML file. White space between tags is appended to the preceding token."""
        tokens, result, owner = read_tokens(text, _NAMESPACES), list[Token](), 0
        for index, token in enumerate(tokens):
            if token.kind == "text" and not token.text.strip():
                if (tokens[index - 1].kind, tokens[index + 1].kind) != ("start", "end"):
                    result[-1] = result[-1]._replace(raw=result[-1].raw + token.raw)
                    continue
            elif token.name == "w:fldSimple":
                code = local_attributes(token.raw).get("instr", "")
                name = "w:hyperlink" if _is_link(code) else token.name
                token = token._replace(name=name, role=Role.COMPUTED if _is_computed(code) else Role.TEXT)
            elif token.kind == "start" and token.name in _STYLED:
                owner = len(result)
            elif token.name in ("w:pStyle", "w:rStyle") and result[owner].name == token.name.removesuffix("Style"):
                is_code = local_attributes(token.raw).get("val") in self._code
                result[owner] = result[owner]._replace(role=Role.COPIED if is_code else result[owner].role)
            result.append(token)
        return result

    def read_leaf(self, tokens: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragments of an element in a paragraph, such as a run, that is not an inline element."""
        name, raw = tokens[0].name, join_raw(tokens)
        if name == "w:r":
            yield from self._read_run(tokens)
        elif mark := _RANGE.fullmatch(name):
            yield Fragment(Kind.START if mark[2] == "Start" else Kind.END, raw, key=_range(tokens[0]))
        elif name == "w:pPr":
            yield Fragment(Kind.BREAK, raw)
        elif name in _DROPPED:
            yield Fragment(Kind.UNIT, raw, output="")
        else:
            marks = Counter(_range(token) for token in tokens if token.kind == "start" and _RANGE.match(token.name))
            has_half = any(count == 1 for count in marks.values())
            is_visible = name in ("m:oMath", "m:oMathPara") or tokens[0].role is Role.COMPUTED
            text = (join_text(tokens) or PLACEHOLDER) if is_visible and not has_half else ""
            yield Fragment(Kind.BREAK if has_half else Kind.UNIT, raw, text)

    def _read_run(self, tokens: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragments of a run. A run without text or field parts becomes one fragment."""
        inside = list(children(tokens))
        properties = inside.pop(0) if inside and inside[0][0].name == "w:rPr" else ()
        fonts = (local_attributes(child[0].raw).get("ascii", "") for child in children(properties))
        font = next(filter(None, fonts), "")
        fragments = [fragment for child in inside for fragment in self._read_child(child)]
        kinds, raw = {fragment.kind for fragment in fragments}, join_raw(tokens)
        text = "".join(fragment.text for fragment in fragments)
        is_icon = font.startswith(_ICON_FONTS) and bool(text.strip())
        is_copied = is_icon or font == "Symbol" or tokens[0].role is Role.COPIED
        is_text = (Kind.TEXT in kinds or kinds == {Kind.LINE, Kind.UNIT}) and not is_copied
        if is_text or any(_is_part(fragment) for fragment in fragments):
            style = join_raw(properties)
            run = _Run(style, tokens[0].raw + style, tokens[-1].raw)
            yield Fragment(Kind.UNIT, run.start, output="")
            for fragment in fragments:
                for part in self._split_gaps(fragment):
                    yield self._in_run(part, run)
            yield Fragment(Kind.UNIT, run.end, output="")
        elif Kind.BREAK in kinds or is_icon:
            yield Fragment(Kind.BREAK, raw)
        elif kinds == {Kind.LINE}:
            yield Fragment(Kind.LINE, raw, " ")
        else:
            is_dropped = bool(fragments) and not any(fragment.written for fragment in fragments)
            yield Fragment(Kind.UNIT, raw, text, output="" if is_dropped else raw)

    def _in_run(self, fragment: Fragment, run: _Run) -> Fragment:
        """Assign a fragment to a run. Boundaries, such as tabs, and parts of fields get a run of their own.

        Raises:
            ZooError: The repeated start tags and styles have more than `_MAX_COPIED` characters in total.
        """
        is_divider = fragment.kind is Kind.BREAK or _is_part(fragment)
        self._copied += (len(run.start) + _MIN_COPY) * (is_divider or fragment.kind is Kind.LINE)
        if self._copied > _MAX_COPIED:
            problem = "the document has too many tabs and line breaks in text with long style definitions"
            raise ZooError(problem, hint="split the document")
        if is_divider:
            return replace(fragment, output=run.start + fragment.written + run.end.rstrip())
        return replace(fragment, key=run)

    def _split_gaps(self, fragment: Fragment) -> Iterator[Fragment]:
        """Split text at wide gaps, such as the blanks in a form. Each gap becomes a boundary. Yield all fragments."""
        is_plain = (
            fragment.kind is Kind.TEXT and fragment.raw == fragment.text and len(fragment.text) <= MAX_TEXT_LENGTH
        )
        if not (is_plain and fragment.text.strip()):
            yield fragment
            return
        for index, part in enumerate(_GAP.split(fragment.text)):
            if part:
                kind, text = (Kind.BREAK, "") if index % 2 else (Kind.TEXT, part)
                yield Fragment(kind, part, text, output=self.write_text(part))

    def _read_child(self, child: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragments of an element in a run, such as text or a line break."""
        name, raw = child[0].name, join_raw(child)
        if name == "w:t":
            text = join_text(child)
            yield Fragment(Kind.UNIT, child[0].raw, output="")
            yield Fragment(Kind.TEXT, join_raw(child[1:-1]), text, output=self.write_text(text) if text else "")
            yield Fragment(Kind.UNIT, child[-1].raw, output="")
        elif name == "w:noBreakHyphen":
            yield Fragment(Kind.TEXT, raw, "-")
        elif name in ("w:tab", "w:ptab") or (
            name == "w:br" and local_attributes(raw).get("type") in ("page", "column")
        ):
            yield Fragment(Kind.BREAK, raw)
        elif name in ("w:br", "w:cr"):
            yield Fragment(Kind.LINE, raw, " ")
        elif name == "w:fldChar":
            part = local_attributes(raw).get("fldchartype", "")
            yield Fragment(Kind.UNIT, raw, key=next((mark for mark in _FieldMark if mark.value == part), None))
        elif name == "w:instrText":
            yield Fragment(Kind.UNIT, raw, key=_FieldCode(join_text(child)))
        elif name == "w:ruby":
            base = (join_text(each) for each in children(child) if each[0].name == "w:rubyBase")
            yield Fragment(Kind.UNIT, raw, "".join(base))
        elif name == "w:object":  # a formula, for instance
            yield Fragment(Kind.UNIT, raw, PLACEHOLDER)
        else:
            yield Fragment(Kind.UNIT, raw, output="" if name in _DROPPED else None)


def _range(mark: Token) -> tuple[str, str]:
    """Return the name and the identifier of the range that a mark begins or ends."""
    return mark.name.removesuffix("Start").removesuffix("End"), local_attributes(mark.raw).get("id", "")


def _wrap_runs(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Put the content of runs into inline elements.

    Adjacent runs that have the same style become one element, because Word often splits text of one style into several
    runs. The raw text of content that the translation does not need is attached to the tags.
    """
    current: _Run | None = None
    dropped = ""
    for fragment in fragments:
        if fragment.kind is Kind.UNIT and not fragment.written and not fragment.text:
            dropped += fragment.raw
            continue
        run = fragment.key if isinstance(fragment.key, _Run) else None
        if current and run != current:
            yield Fragment(Kind.CLOSE, dropped, key=current, output=current.end)
            dropped = ""
        if run and run != current:
            yield Fragment(Kind.OPEN, dropped, key=run, output=run.start, raised="vertAlign" in run.style)
        elif dropped:
            yield Fragment(Kind.UNIT, dropped, output="")
        current, dropped = run, ""
        yield fragment


_DESCRIPTIONS = attribute_view(
    lambda text: (StartTag(match.start(), "", match[0]) for match in _PICTURE.finditer(text)),
    lambda _, attribute: attribute.name in ("descr", "title"),
)
"""Descriptions of images."""


def _format(text: str, code: Collection[str]) -> Format:
    match = _PREFIX.search(text)
    reader = _Reader(f"{match[1]}:" if match and match[1] else "", code)
    parsers = (partial(reader.parse, level=level) for level in (2, 1))
    return (_DESCRIPTIONS, *(View(parse, reader.write_text, needs_runs=True) for parse in parsers))


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    code = code_styles(*(read(name) for name in names if name == "word/styles.xml"))
    return {name: _format(read(name), code) for name in names if name.startswith(_FILES) and name.endswith(".xml")}


FORMAT: Archive = _formats
