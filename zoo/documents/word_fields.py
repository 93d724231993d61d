"""Fields of Word documents, such as links, page numbers and tables of contents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.documents.fragments import Fragment, Kind, join_fragments
from zoo.documents.segments import PLACEHOLDER

PARTS = _BEGIN, _SEPARATE, _END = "begin", "separate", "end"
"""Names of the fragments that mark a field."""
CODE = "code "
"""Prefix of the name of a fragment with a field code. The code follows the prefix."""
_MAX_CODE = 100
"""Maximum number of characters that are read of a field code."""
_COMPUTED = re.compile(
    "=|(?:PAGE|NUMPAGES|SECTION|SECTIONPAGES|PAGEREF|REF|NOTEREF|FTNREF|STYLEREF|SEQ|LISTNUM|AUTONUM|DATE|TIME|CREATEDATE"
    "|SAVEDATE|PRINTDATE|EDITTIME|CITATION|BIBLIOGRAPHY|FILENAME|FILESIZE|TITLE|SUBJECT|AUTHOR|KEYWORDS|COMMENTS|INFO"
    "|LASTSAVEDBY|USERNAME|USERINITIALS|USERADDRESS|TEMPLATE|DOCPROPERTY|DOCVARIABLE|MERGEFIELD|MERGEREC|MERGESEQ|REVNUM"
    r"|NUMCHARS|NUMWORDS|SYMBOL|EQ|ADDIN|BARCODE|DISPLAYBARCODE)\b",
    re.IGNORECASE,
)
"""Fields whose result Word or a reference manager computes."""

_ONE_FIELD = re.compile("b?c*s?|e|bc*s?e")
"""First letters of the names of the parts that are all before the result, or after it, or a whole field."""


@dataclass
class _Field:
    """Field whose end has not been read yet.

    Attributes:
        begin: Index of its first fragment.
        place: Index of the element around it, and number of boundaries before it.
        is_inside: Whether it is part of the code of another field, or of a result that is copied.
        code: The start of its code.
        separate: Index of the fragment before its result. -1 if it has none.
        is_whole: Whether its code contains no part of another element.
    """

    begin: int
    place: tuple[int, int]
    is_inside: bool
    code: str = ""
    separate: int = -1
    is_whole: bool = True

    @property
    def hides(self) -> bool:
        """Whether fields at this position are part of it."""
        return self.is_inside or self.separate < 0 or is_computed(self.code)


def is_part(fragment: Fragment) -> bool:
    """Return whether a fragment is a part of a field."""
    return fragment.kind is Kind.UNIT and bool(fragment.name)


def is_computed(code: str) -> bool:
    """Return whether Word computes the result of a field from its code, so that it is not translated."""
    return _COMPUTED.match(code.strip()) is not None


def _widen_parts(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments, with elements that contain only parts of a field as parts. An example is a tracked link."""
    result, index = list[Fragment](), 0
    while index < len(fragments):
        end = index + 1
        while fragments[index].kind is Kind.OPEN and end < len(fragments) and _is_in_part(fragments[end]):
            end += 1
        inside = fragments[index : end + 1]
        parts = [place for place, each in enumerate(inside) if is_part(each)]
        kinds = "".join(inside[place].name[0] for place in parts)  # of begin, code, separate and end
        if parts and inside[0].kind is Kind.OPEN and inside[-1].kind is Kind.CLOSE and _ONE_FIELD.fullmatch(kinds):
            first, last = parts[0], parts[-1]
            inside = [*inside[:last], _widened(inside[last], inside[last:])]
            result += [_widened(inside[first], inside[: first + 1]), *inside[first + 1 :]]
            end += 1
        else:
            result += fragments[index:end]
        index = end
    return result


def _widened(part: Fragment, fragments: Sequence[Fragment]) -> Fragment:
    joined = join_fragments(fragments)
    return replace(part, raw=joined.raw, output=joined.output)


def _is_in_part(fragment: Fragment) -> bool:
    return is_part(fragment) or (fragment.kind is Kind.UNIT and not fragment.written and not fragment.text)


def join_fields(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments, with each field as an element around its result, or as a unit if the result is computed.

    The parts of a field that begins and ends in different paragraphs or elements become boundaries.
    """
    fragments = _widen_parts(fragments)
    fields, elements, breaks = list[_Field](), [-1], 0
    joined: dict[int, tuple[int, Fragment]] = {}
    for index, fragment in enumerate(fragments):
        place = elements[-1], breaks
        if fragment.kind is Kind.OPEN:
            elements.append(index)
        elif fragment.kind is Kind.CLOSE and len(elements) > 1:
            elements.pop()
        elif fragment.kind is Kind.BREAK:
            breaks += 1
        elif fragment.name == _BEGIN:
            fields.append(_Field(index, place, bool(fields) and fields[-1].hides))
        elif fields and fragment.name.startswith(CODE) and fields[-1].separate < 0:
            fields[-1].code = (fields[-1].code + fragment.name.removeprefix(CODE))[:_MAX_CODE]
        elif fields and fragment.name == _SEPARATE and fields[-1].separate < 0:
            fields[-1].separate, fields[-1].is_whole = index, place == fields[-1].place
        elif fields and fragment.name == _END:
            field = fields.pop()
            if not field.is_inside:
                is_whole = field.is_whole and place == field.place
                breaks += not is_whole
                joined |= _join(fragments, field, index, is_whole=is_whole)
        elif fragment.name in (_SEPARATE, _END):
            breaks += 1
    return _replaced(fragments, joined)


def _join(fragments: Sequence[Fragment], field: _Field, end: int, *, is_whole: bool) -> dict[int, tuple[int, Fragment]]:
    """Return replacements for the parts of a field: the index of the first fragment -> the last index, new fragment."""
    if field.separate < 0 or is_computed(field.code):
        parts = fragments[field.begin : end + 1]
        marks = Counter(part.name for part in parts if part.kind in (Kind.START, Kind.END))
        is_whole = is_whole and all(count == 2 for count in marks.values())  # no half of a range
        text = "".join(part.text for part in parts)
        if is_computed(field.code):
            text = text or PLACEHOLDER  # Word computes the result when it opens the document
        text, kind = (text, Kind.UNIT) if is_whole else ("", Kind.BREAK)
        return {field.begin: (end, join_fragments(parts, text, kind))}
    again = None if field.code.strip().upper().startswith("HYPERLINK") else ""
    kinds = (Kind.OPEN, Kind.CLOSE) if is_whole else (Kind.BREAK, Kind.BREAK)
    head = join_fragments(fragments[field.begin : field.separate + 1], "", kinds[0], "field", again)
    tail = join_fragments(fragments[end : end + 1], "", kinds[1], "field", again)
    return {field.begin: (field.separate, head), end: (end, tail)}


def _replaced(fragments: Sequence[Fragment], joined: dict[int, tuple[int, Fragment]]) -> list[Fragment]:
    """Return the fragments with the results of `_join`. Parts of incomplete fields become boundaries."""
    result, index = list[Fragment](), 0
    while index < len(fragments):
        fragment = fragments[index]
        if index in joined:
            index, fragment = joined[index]
        elif fragment.name in PARTS:
            fragment = replace(fragment, kind=Kind.BREAK)
        result.append(fragment)
        index += 1
    return result
