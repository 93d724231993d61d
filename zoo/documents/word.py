"""Word documents (.docx). Everything but the text of paragraphs is copied. A run is an inline element."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from xml.sax.saxutils import escape

from specs import ZooError
from zoo.documents.fragments import Archive, Format, Fragment, Kind, View, join_fragments
from zoo.documents.segments import PLACEHOLDER
from zoo.documents.tags import (
    Token,
    attribute_view,
    children,
    code_styles,
    join_raw,
    join_text,
    local_attributes,
    paragraph_fragments,
    read_tokens,
)
from zoo.text.sentences import MAX_TEXT_LENGTH

_PARTS = _BEGIN, _SEPARATE, _END = "begin", "separate", "end"
"""Names of the fragments that mark a field."""
_FIELD_CODE = "code "
"""Prefix of the name of a fragment with a field code. The code follows the prefix."""
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
        place: Index of the element that contains the field, and number of segment boundaries before the field.
        is_inside: Whether the field is inside the code of another field, or inside a result that is copied.
        code: The start of the field's code.
        separate: Index of the fragment that precedes the field's result. -1 if the field has no result.
        is_whole: Whether the field's code begins and ends in the same element and segment.
    """

    begin: int
    place: tuple[int, int]
    is_inside: bool
    code: str = ""
    separate: int = -1
    is_whole: bool = True

    @property
    def hides(self) -> bool:
        """Whether a field that begins at the current position is in this field's code or in a result that is copied."""
        return self.is_inside or self.separate < 0 or _is_computed(self.code)


def _is_part(fragment: Fragment) -> bool:
    """Return whether a fragment is part of a Word field: the code, or a mark such as the beginning of the field."""
    return fragment.kind is Kind.UNIT and bool(fragment.name)


def _is_computed(code: str) -> bool:
    """Return whether Word computes the result of a field from its code. Such results are not translated."""
    return _COMPUTED_CODE.match(code.strip()) is not None


def _join_fields(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Join the parts of each field, and return all fragments.

    A field whose result Word computes becomes a UNIT fragment, which is copied. Any other field becomes an inline
    element around its result. If a field begins and ends in different paragraphs or elements, its parts become
    boundaries between segments.
    """
    fields, elements, breaks = list[_Field](), [-1], 0
    result = list[Fragment]()
    for index, fragment in enumerate(fragments):
        place = elements[-1], breaks
        result.append(fragment)
        if fragment.kind is Kind.OPEN:
            elements.append(index)
        elif fragment.kind is Kind.CLOSE and len(elements) > 1:
            elements.pop()
        elif fragment.kind is Kind.BREAK:
            breaks += 1
        elif fragment.name == _BEGIN:
            fields.append(_Field(len(result) - 1, place, bool(fields) and fields[-1].hides))
        elif fields and fragment.name.startswith(_FIELD_CODE) and fields[-1].separate < 0:
            fields[-1].code = (fields[-1].code + fragment.name.removeprefix(_FIELD_CODE))[:_MAX_CODE]
        elif fields and fragment.name == _SEPARATE and fields[-1].separate < 0:
            fields[-1].separate, fields[-1].is_whole = len(result) - 1, place == fields[-1].place
        elif fields and fragment.name == _END:
            field = fields.pop()
            if not field.is_inside:
                is_whole = field.is_whole and place == field.place
                breaks += not is_whole
                _join(result, field, is_whole=is_whole)
        elif fragment.name in (_SEPARATE, _END):
            breaks += 1
    # The remaining parts belong to incomplete fields.
    return [replace(each, kind=Kind.BREAK) if each.name in _PARTS else each for each in result]


def _join(fragments: list[Fragment], field: _Field, *, is_whole: bool) -> None:
    """Join the last fragments, which form a field, in place.

    The fragments become one UNIT fragment, which is copied, if Word computes the field's result, if there is no result,
    or if the field is a blank in a form. Otherwise, the fragments before and after the result become the tags of an
    inline element. Without `is_whole`, boundaries between segments take the place of the UNIT fragment or the tags.
    """
    again = None if field.code.strip().upper().startswith("HYPERLINK") else ""
    parts = fragments[field.begin :]
    is_blank = again is not None and not any(character.isalpha() for part in parts for character in part.text)
    if field.separate < 0 or is_blank or _is_computed(field.code):
        marks = Counter(part.name for part in parts if part.kind in (Kind.START, Kind.END))
        is_whole = is_whole and all(count == 2 for count in marks.values())  # both marks of each range
        text = "".join(part.text for part in parts)
        if text or _is_computed(field.code):
            text = text if text.strip() else PLACEHOLDER  # a blank of a form, or Word computes the result later
        text, kind = (text, Kind.UNIT) if is_whole else ("", Kind.BREAK)
        fragments[field.begin :] = [join_fragments(parts, text, kind)]
        return
    kinds = (Kind.OPEN, Kind.CLOSE) if is_whole else (Kind.BREAK, Kind.BREAK)
    fragments[-1] = join_fragments(fragments[-1:], "", kinds[1], "field", again)
    before = slice(field.begin, field.separate + 1)
    fragments[before] = [join_fragments(fragments[before], "", kinds[0], "field", again)]


_FILES = tuple(f"word/{part}" for part in ("document", "header", "footer", "footnotes", "endnotes", "comments"))
_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_MATH = ("http://schemas.openxmlformats.org/officeDocument/2006/math", "http://purl.oclc.org/ooxml/officeDocument/math")
_NAMESPACES = {**dict.fromkeys(_WORD, "w"), **dict.fromkeys(_MATH, "m")} | {
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc"
}
_PICTURE = re.compile(r"""<(?:[\w.-]++:)?docPr\s(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>""")
_PREFIX = re.compile(rf"""\sxmlns(?::([^\s=]+))?\s*=\s*["'](?:{"|".join(map(re.escape, _WORD))})["']""")
_CODE = "code"
_COPIED = ("w:del", "w:moveFrom", _CODE)
_ELEMENTS = {
    **dict.fromkeys(("w:hyperlink", "w:ins", "w:moveTo", "w:dir", "w:bdo")),
    **dict.fromkeys(("w:customXml", "w:smartTag", "w:fldSimple"), ""),
    "w:sdt": "w:sdtContent",
    "mc:AlternateContent": "mc:Choice",
}
_COMPUTED = "computed field"
_RANGE = re.compile(r"w:(bookmark|perm|commentRange|move(?:From|To)Range|customXml\w+Range)(Start|End)")
_DROPPED = ("", "w:softHyphen", "w:lastRenderedPageBreak", "w:proofErr")
"""Elements that a translation does not need. "" is white space between elements."""
_STYLED = ("w:p", "w:r", "w:pPrChange", "w:rPrChange")
"""Elements with a style, and elements with the style before a tracked change."""
_TEXT_BOX = "txbxContent"
_RUN = "w:r "
"""Prefix of the names of runs. The style follows it, so that runs with the same style have the same name."""
_MAX_COPIED = 50_000_000
"""Maximum total number of characters in the start tags and styles that are repeated because runs are split."""
_MIN_COPY = 100
"""Number of characters that each split adds to this total, so that the number of splits is limited too."""
_NAME = re.compile(r"<([^\s/>]+)")
_ICON_FONTS = ("Webdings", "Wingdings")
_GAP = re.compile("([ \u00a0]{3,}|\u00a0{2,})")
"""Wide gap, such as the blank between two entries of a form."""


def _parse(text: str, prefix: str, code: Collection[str], level: int = 1) -> list[Fragment]:
    """Return the fragments of an XML file in a Word document (.docx).

    Args:
        text: The XML.
        prefix: Prefix of the element names.
        code: Names of the styles for code.
        level: Nesting level: 1 for ordinary paragraphs, 2 for paragraphs in text boxes, which are inside paragraphs.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    if level > 1 and _TEXT_BOX not in text:
        return [Fragment(Kind.BREAK, text)]
    leaf = partial(_leaf, prefix=prefix)
    fragments = paragraph_fragments(_read(text, code), ("w:p",), _COPIED, level, _ELEMENTS, leaf)
    return list(_join_runs(_join_fields(list(_split_runs(fragments)))))


def _read(text: str, code: Collection[str]) -> list[Token]:
    """Return the tokens of an XML file. White space between tags is appended to the preceding token.

    Paragraphs and runs with a code style get the name `_CODE`.
    """
    tokens, result, owner = read_tokens(text, _NAMESPACES), list[Token](), 0
    for index, token in enumerate(tokens):
        if token.kind == "text" and not token.text.strip():
            is_content = tokens[index - 1].kind == "start" and tokens[index + 1].kind == "end"
            if not is_content:
                result[-1] = result[-1]._replace(raw=result[-1].raw + token.raw)
                continue
        elif token.name == "w:fldSimple" and _is_computed(local_attributes(token.raw).get("instr", "")):
            token = token._replace(name=_COMPUTED)
        elif token.kind == "start" and token.name in _STYLED:
            owner = len(result)
        elif token.name in ("w:pStyle", "w:rStyle") and result[owner].name == token.name.removesuffix("Style"):
            is_code = local_attributes(token.raw).get("val") in code
            result[owner] = result[owner]._replace(name=_CODE if is_code else result[owner].name)
        result.append(token)
    return result


def _leaf(tokens: Sequence[Token], prefix: str) -> Iterator[Fragment]:
    """Yield the fragments of a part of a paragraph, such as a run, that is not an inline element in `_ELEMENTS`."""
    name, raw = tokens[0].name, join_raw(tokens)
    if name in ("w:r", _CODE):
        yield from _run(tokens, prefix)
    elif mark := _RANGE.fullmatch(name):
        yield Fragment(Kind.START if mark[2] == "Start" else Kind.END, raw, name=_range_name(tokens[0]))
    elif name == "w:pPr":
        yield Fragment(Kind.BREAK, raw)
    elif name in _DROPPED:
        yield Fragment(Kind.UNIT, raw, output="")
    else:
        marks = Counter(_range_name(token) for token in tokens if token.kind == "start" and _RANGE.match(token.name))
        has_half = any(count == 1 for count in marks.values())
        is_visible = name in (_COMPUTED, "m:oMath", "m:oMathPara") and not has_half
        yield Fragment(Kind.BREAK if has_half else Kind.UNIT, raw, (join_text(tokens) or PLACEHOLDER) * is_visible)


def _range_name(mark: Token) -> str:
    """Return a name for a range, such as a bookmark. Its start mark and end mark get the same name."""
    return f"{mark.name.removesuffix('Start').removesuffix('End')} {local_attributes(mark.raw).get('id', '')}"


def _run(tokens: Sequence[Token], prefix: str) -> Iterator[Fragment]:
    """Yield the fragments of a run (text with one style). A run without text or field parts becomes one fragment."""
    inside = list(children(tokens))
    properties = inside.pop(0) if inside and inside[0][0].name == "w:rPr" else ()
    style = join_raw(properties)
    fonts = (local_attributes(child[0].raw).get("ascii", "") for child in children(properties))
    font = next(filter(None, fonts), "")
    fragments = [fragment for child in inside for fragment in _child(child, prefix)]
    kinds, raw = {fragment.kind for fragment in fragments}, join_raw(tokens)
    text = "".join(fragment.text for fragment in fragments)
    is_icon = font.startswith(_ICON_FONTS) and bool(text.strip())
    is_copied = is_icon or font == "Symbol" or tokens[0].name == _CODE
    is_text = (Kind.TEXT in kinds or kinds == {Kind.LINE, Kind.UNIT}) and not is_copied
    if is_text or any(_is_part(fragment) for fragment in fragments):
        yield Fragment(Kind.OPEN, tokens[0].raw + style, name=_RUN + style, raised="vertAlign" in style)
        for fragment in fragments:
            yield from _split_gaps(fragment, prefix)
        yield Fragment(Kind.CLOSE, tokens[-1].raw, name=_RUN + style)
    elif Kind.BREAK in kinds or is_icon:
        yield Fragment(Kind.BREAK, raw)
    elif kinds == {Kind.LINE}:
        yield Fragment(Kind.LINE, raw, " ")
    else:
        is_dropped = bool(fragments) and not any(fragment.written for fragment in fragments)
        yield Fragment(Kind.UNIT, raw, text, output="" if is_dropped else raw)


def _split_gaps(fragment: Fragment, prefix: str) -> Iterator[Fragment]:
    """Split text at wide gaps, such as the blanks in a form. Each gap becomes a boundary. Yield all fragments."""
    is_plain = fragment.kind is Kind.TEXT and fragment.raw == fragment.text and len(fragment.text) <= MAX_TEXT_LENGTH
    if not (is_plain and fragment.text.strip()):
        yield fragment
        return
    for index, part in enumerate(_GAP.split(fragment.text)):
        if part or not fragment.text:
            kind, text = (Kind.BREAK, "") if index % 2 else (Kind.TEXT, part)
            yield Fragment(kind, part, text, output=_text(part, prefix) if part else "")


def _child(child: Sequence[Token], prefix: str) -> Iterator[Fragment]:
    """Yield the fragments of an element in a run, such as text or a line break."""
    name, raw = child[0].name, join_raw(child)
    if name == "w:t":
        text = join_text(child)
        yield Fragment(Kind.UNIT, child[0].raw, output="")
        yield Fragment(Kind.TEXT, join_raw(child[1:-1]), text, output=_text(text, prefix) if text else "")
        yield Fragment(Kind.UNIT, child[-1].raw, output="")
    elif name == "w:noBreakHyphen":
        yield Fragment(Kind.TEXT, raw, "-")
    elif name in ("w:tab", "w:ptab") or (name == "w:br" and local_attributes(raw).get("type") in ("page", "column")):
        yield Fragment(Kind.BREAK, raw)
    elif name in ("w:br", "w:cr"):
        yield Fragment(Kind.LINE, raw, " ")
    elif name == "w:fldChar":
        part = local_attributes(raw).get("fldchartype", "")
        yield Fragment(Kind.UNIT, raw, name=part if part in _PARTS else "")
    elif name == "w:instrText":
        yield Fragment(Kind.UNIT, raw, name=_FIELD_CODE + join_text(child))
    elif name == "w:ruby":
        base = (join_text(each) for each in children(child) if each[0].name == "w:rubyBase")
        yield Fragment(Kind.UNIT, raw, "".join(base))
    elif name == "w:object":  # a formula, for instance
        yield Fragment(Kind.UNIT, raw, PLACEHOLDER)
    else:
        yield Fragment(Kind.UNIT, raw, output="" if name in _DROPPED else None)


_DESCRIPTIONS = attribute_view(
    lambda text: ((match.start(), "", match[0]) for match in _PICTURE.finditer(text)),
    lambda _name, _tag, attribute: attribute.name in ("descr", "title"),
)
"""Descriptions of images."""


def _split_runs(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Split runs at boundaries, such as tabs, and at parts of fields. Each part is written in its own run.

    Raises:
        ZooError: The repeated start tags and styles have more than `_MAX_COPIED` characters in total.
    """
    run: Fragment | None = None
    copied = 0
    is_empty = False
    """Whether the start of the run has not been written yet."""
    for fragment in fragments:
        is_run = fragment.name.startswith(_RUN)
        is_end = is_run and fragment.kind is Kind.CLOSE
        is_divider = fragment.kind is Kind.BREAK or _is_part(fragment)
        if run and (is_divider or fragment.kind is Kind.LINE):
            copied += len(run.written) + _MIN_COPY
            if copied > _MAX_COPIED:
                problem = "the text has too many tabs and line breaks in runs with long style definitions"
                raise ZooError(problem, hint="split the document")
        if is_run and not is_end:
            run, is_empty = fragment, True
        elif run and is_empty and _is_dropped(fragment):
            run = replace(run, raw=run.raw + fragment.raw, output=run.written)
        elif run and is_divider:
            end = f"</{match[1]}>" if (match := _NAME.match(run.written)) else ""
            if not is_empty:
                yield Fragment(Kind.CLOSE, "", name=run.name, output=end)
            raw = run.raw + fragment.raw if is_empty else fragment.raw
            yield replace(fragment, raw=raw, output=run.written + fragment.written + end)
            run, is_empty = replace(run, raw="", output=run.written), True
        elif run and is_empty and is_end:
            yield Fragment(Kind.UNIT, run.raw + fragment.raw, output="")
        else:
            if run and is_empty:
                yield run
            is_empty = False
            yield fragment
        if is_end:
            run = None


def _join_runs(fragments: Sequence[Fragment]) -> Iterator[Fragment]:
    """Join adjacent runs that have the same style. Word often splits text of one style into several runs."""
    index = 0
    while index < len(fragments):
        fragment, following = fragments[index], index + 1
        if fragment.kind is Kind.CLOSE and fragment.name.startswith(_RUN):
            while following < len(fragments) and _is_dropped(fragments[following]):
                following += 1
            next_one = fragments[following] if following < len(fragments) else fragment
            if next_one.kind is Kind.OPEN and next_one.name == fragment.name:
                raw = "".join(each.raw for each in fragments[index : following + 1])
                fragment, index = Fragment(Kind.UNIT, raw, output=""), following
        yield fragment
        index += 1


def _is_dropped(fragment: Fragment) -> bool:
    return fragment.kind is Kind.UNIT and not fragment.written and not fragment.text


def _text(text: str, prefix: str) -> str:
    return f'<{prefix}t xml:space="preserve">{escape(text)}</{prefix}t>'


def _format(text: str, code: Collection[str]) -> Format:
    match = _PREFIX.search(text)
    prefix = f"{match[1]}:" if match and match[1] else ""
    write = partial(_text, prefix=prefix)
    parsers = (partial(_parse, prefix=prefix, code=code, level=level) for level in (2, 1))
    return (_DESCRIPTIONS, *(View(parse, write, needs_runs=True) for parse in parsers))


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    code = code_styles(*(read(name) for name in names if name == "word/styles.xml"))
    return {name: _format(read(name), code) for name in names if name.startswith(_FILES) and name.endswith(".xml")}


FORMAT: Archive = _formats
