"""Division of a document into segments: at boundaries, line breaks and marks between items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind, View, join_fragments, unescape
from zoo.documents.segments import MAX_DEPTH, RANGE_MARKS, Segment, SegmentReader

_BOUNDARIES = Kind.BREAK, Kind.LANGUAGE
_SENTENCE_END = re.compile(r"[.!?…:;][\"'’”»)\]]*\s*$")
_GLUED_BEFORE = re.compile(r"[\w,.;:!?)\]}»”’\"'%]$")
_REFERENCE = re.compile(r"(?=[^\w\s]*[\d*†‡§¶#↩↑^¹²³⁰-⁹₀-₉])\S+")
"""Content without letters that belongs to the word before it, such as a footnote number or an arrow to the text."""
_SYMBOLS = re.compile("[\u2190-\u21ff\u2300-\u2bff\U0001f000-\U0001faff\u200d\ufe0e\ufe0f]*")
_GLUE = re.compile(r"[-+/&=:.~]{1,2}")
"""Text between two copied elements, such as the "+" in Ctrl+C. It is also copied."""
_AFTER_NUMBER = re.compile(r"\s|[^\W\d_]{2}|[\"'“„‘‚«»(\[]")
"""Text that may follow the number of a verse or a note. It excludes single letters, as in chemical formulas, and "/",
as in fractions."""
_MAX_MARK, _MAX_REFERENCE, _MAX_COPIED = 100, 12, 10_000_000
"""Maximum number of characters in marks at the end of a line, maximum number of fragments in a reference, and maximum
number of characters in the tags that are repeated because of marks between items. A mark counts as 20 characters."""
_CHARACTER = re.compile(r"&#?\w{1,31};|\\[!-/:-@\[-`{-~]|.", re.DOTALL)
"""Character as it is written in a document: an entity, a character after a backslash, or the character itself."""


def split_segments(fragments: Sequence[Fragment], view: View) -> Iterator[Fragment | Segment]:
    """Group fragments into segments. Yield the segments that contain words, and all other fragments, in order."""
    divided = _Divider(view).divide([*_split_items(_join_lines(fragments, view), view)])
    run: list[Fragment] = []
    for fragment in [*divided, Fragment(Kind.BREAK, "")]:
        if fragment.kind not in _BOUNDARIES:
            run.append(fragment)
            continue
        marked = _copy_end_marks(_copy_start_marks(run, view), view)
        before, middle, after = _trim(_copy_elements(marked, _Element.wordless_text))
        yield from before
        if any(each.kind is Kind.TEXT and any(map(str.isalpha, each.text)) for each in middle):
            yield SegmentReader(_copy_elements(middle, _Element.reference_text)).read()
        else:
            yield from middle
        yield from after
        yield fragment
        run = []


def _join_lines(fragments: Sequence[Fragment], view: View) -> list[Fragment]:
    """Replace each line break with white space if the sentence continues after it."""
    lines, texts = list[int](), [list[str]()]
    """Indices of the line breaks and boundaries, and the texts before, between and after them."""
    for index, fragment in enumerate(fragments):
        if fragment.kind in _BOUNDARIES or fragment.kind is Kind.LINE:
            lines.append(index)
            texts.append([])
        else:
            texts[-1].append(fragment.text)
    joined = list(fragments)
    for index, (before, after) in zip(lines, pairwise("".join(parts) for parts in texts), strict=True):
        line = fragments[index]
        if line.kind is Kind.LINE and line.text and not _begins_sentence(before.strip(), after.strip(), view):
            joined[index] = replace(line, kind=Kind.UNIT, text=" ")
    return joined


def _begins_sentence(before: str, after: str, view: View) -> bool:
    """Return whether the line `after` begins a new sentence instead of continuing the line `before`."""
    end = before[-_MAX_MARK:]
    if not end or not after or view.marks.match(after) or view.end_marks.search(end):
        return True
    is_new = not view.wraps and after[0].isalnum()
    return not after[0].islower() and (is_new or _SENTENCE_END.search(end) is not None)


def _split_items(fragments: Sequence[Fragment], view: View) -> Iterator[Fragment]:
    """Split text at symbols that are copied. Icons become UNIT fragments, and marks between items become line breaks.

    Yield all fragments.
    """
    for fragment in fragments:
        parts, text = list[tuple[int, Kind]](), fragment.text if fragment.kind is Kind.TEXT else ""
        found = list(view.dividers.finditer(text))
        for match in found:
            # A check box may be a word of a sentence, unless the text begins with a mark.
            before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
            is_word = after.islower() and before and (before.isalpha() or len(found) == 1) and found[0].start()
            if not (is_word and match["box"]):
                parts += (match.start(), Kind.TEXT), (match.end(), Kind.UNIT if match["icons"] else Kind.LINE)
        yield from _split_text(fragment, [*parts, (len(text), Kind.TEXT)], view) if parts else [fragment]


def match_tags(fragments: Sequence[Fragment]) -> dict[int, int]:
    """Match tags between boundaries. Return the index of each end tag, keyed by the index of its start tag."""
    ends, stack = dict[int, int](), list[int]()
    for index, fragment in enumerate(fragments):
        if fragment.kind is Kind.OPEN:
            stack.append(index)
        elif fragment.kind is Kind.CLOSE and stack and fragments[stack[-1]].key == fragment.key:
            ends[stack.pop()] = index
        elif fragment.kind in (Kind.CLOSE, *_BOUNDARIES):
            stack.clear()
    return ends


class _Divider:
    """Divider of text at line breaks, marks between items, and unmatched tags.

    Elements around a line break are closed before the line break and opened again after it. Elements around a mark
    between items also enclose the mark.
    """

    def __init__(self, view: View) -> None:
        self._needs_runs = view.needs_runs
        self._result: list[Fragment] = []
        self._open: list[tuple[Fragment, Fragment]] = []
        """The tags of the open elements, as they are written if the element is opened again."""
        self._copied = 0
        """Number of characters in the tags that are repeated (see `_MAX_COPIED`)."""

    def divide(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Replace line breaks and unmatched tags with boundaries between segments, and return all fragments."""
        ends = match_tags(fragments)
        matched = set(ends.values())
        for index, fragment in enumerate(fragments):
            if index in ends:
                self._open.append((fragment, fragments[ends[index]]))
                self._result.append(fragment)
            elif index in matched:
                self._close(fragment)
            elif fragment.kind is Kind.LINE:
                self._divide_at(fragment)
            else:
                is_unmatched = fragment.kind in (Kind.OPEN, Kind.CLOSE)
                self._result.append(replace(fragment, kind=Kind.BREAK) if is_unmatched else fragment)
        return self._result

    def _close(self, end: Fragment) -> None:
        """Close the last element. If the element ends with a mark between items, it is not opened again."""
        _, again = self._open.pop()
        is_empty = self._drop_open_tag(is_reopened=True)
        self._result.append(Fragment(Kind.UNIT, end.raw, output="") if is_empty else replace(end, output=again.written))

    def _divide_at(self, line: Fragment) -> None:
        """Replace a line break, or a mark between items, with a boundary. Close and reopen the elements around it."""
        if len(self._open) > MAX_DEPTH:
            raise ZooError(f"a line break is nested in more than {MAX_DEPTH} elements", hint="reduce the nesting")
        is_mark = not line.text
        count = len(self._open)
        while is_mark and self._drop_open_tag():  # the element begins with the mark
            count -= 1
        closed, begun = self._open[:count], self._open[count:]
        self._open = [(_reopened(start), _reopened(end)) for start, end in self._open]
        around = [*self._open[:count], *begun] if is_mark or self._needs_runs else []
        tags = "".join(start.written for start, _ in around), "".join(end.written for _, end in reversed(around))
        self._copied += (20 + len(tags[0]) + len(tags[1])) * is_mark
        if self._copied > _MAX_COPIED:
            raise ZooError("the text has too many marks between items, such as check boxes", hint="split the document")
        self._result += (replace(end, raw="", output=end.written) for _, end in reversed(closed))
        self._result.append(Fragment(Kind.BREAK, line.raw, output=tags[0] + line.written + tags[1]))
        self._result += (replace(start, raw="") for start, _ in self._open)

    def _drop_open_tag(self, *, is_reopened: bool = False) -> bool:
        """If the last fragment is a start tag, remove the tag from the output. Return whether a tag was removed.

        Trailing fragments without output are ignored. If `is_reopened`, only a tag that is not in the document is
        removed.
        """
        index = len(self._result) - 1
        while index > 0 and self._result[index].kind in (Kind.TEXT, Kind.UNIT) and not self._result[index].written:
            index -= 1
        last = self._result[index] if index >= 0 else None
        if last is None or last.kind is not Kind.OPEN or (is_reopened and last.raw):
            return False
        self._result[index] = Fragment(Kind.UNIT, last.raw, output="")
        return True


def _reopened(tag: Fragment) -> Fragment:
    return replace(tag, output=tag.written_again)


def _copy_start_marks(run: list[Fragment], view: View) -> list[Fragment]:
    """Split marks such as dashes off the start of a segment, so that they are copied. Return all fragments."""
    index = next((index for index, each in enumerate(run) if each.text.strip()), None)
    if index is None or run[index].kind is not Kind.TEXT:
        return run
    text = run[index].text
    indent = len(text) - len(text.lstrip())
    marks = view.marks.match(text, indent)
    if marks is None or marks.end() == indent:
        return run
    cut = _split_text(run[index], [(marks.end(), Kind.UNIT), (len(text), Kind.TEXT)], view)
    return [*run[:index], *cut, *run[index + 1 :]]


def _copy_end_marks(run: list[Fragment], view: View) -> list[Fragment]:
    """Split marks such as musical notes off the end of a segment, so that they are copied. Return all fragments."""
    index = next((index for index in reversed(range(len(run))) if run[index].text.strip()), None)
    if index is None or run[index].kind is not Kind.TEXT:
        return run
    text = run[index].text
    marks = view.end_marks.search(text, max(len(text) - _MAX_MARK, 0))
    if marks is None or marks.start() == 0:
        return run
    cut = _split_text(run[index], [(marks.start(), Kind.TEXT), (len(text), Kind.UNIT)], view)
    return [*run[:index], *cut, *run[index + 1 :]]


def _split_text(text: Fragment, parts: Sequence[tuple[int, Kind]], view: View) -> list[Fragment]:
    """Split a text fragment. `parts` contains the end position and the kind of each new fragment.

    Text is not split if the positions of its characters in the document are unknown, as in a CDATA section.
    """
    raw: Sequence[str] = text.raw if text.raw == text.text else _CHARACTER.findall(text.raw)
    if raw is not text.raw and [unescape(each) if each[0] == "&" else each[-1] for each in raw] != [*text.text]:
        return [text]
    result, start = list[Fragment](), 0
    for end, kind in parts:
        part = text.text[start:end]
        output = None if text.output is None or not part else view.escape(part)
        result.append(Fragment(kind, "".join(raw[start:end]), part if kind is Kind.TEXT else "", output=output))
        start = end
    return result


class _Element(NamedTuple):
    """Short element of a segment, and the text around it.

    Attributes:
        before: The last characters before the element.
        text: The text of the element.
        after: The text after the element.
        is_raised: Whether the element is raised or lowered. Raised digits do not continue a number before them.
    """

    before: str
    text: str
    after: str
    is_raised: bool

    def wordless_text(self) -> str | None:
        """Return the text that the translator reads for an element without words, or None if the element has words.

        Elements without words are white space, symbols such as the arrow back from a footnote, and the numbers of notes
        and verses.
        """
        if not self.before.strip() and self.is_raised and self._is_number():
            return ""
        if not _SYMBOLS.fullmatch(self.text.strip()):
            return None
        return " " if self.text.isspace() else ""

    def reference_text(self) -> str | None:
        """Return the text that the translator reads for a reference such as a footnote number. None: no reference.

        A reference has no letters and directly follows a word, or it is a superscript number after a sentence.
        """
        before, text = self.before, self.text
        is_sign = _REFERENCE.fullmatch(text) and not any(map(str.isalpha, text)) and not self.after[:1].isalnum()
        is_new = self.is_raised or not (before[-1:].isdigit() and text[:1].isdigit())  # not the rest of a number
        if is_sign and is_new and _GLUED_BEFORE.search(before):
            return ""
        if self.is_raised and _SENTENCE_END.search(before) and before[-1].isspace() and self._is_number():
            return text
        return None

    def _is_number(self) -> bool:
        """Return whether the element is the number of the verse or note that follows."""
        return self.text.isdigit() and _AFTER_NUMBER.match(self.after) is not None


def _copy_elements(run: Sequence[Fragment], text_of: Callable[[_Element], str | None]) -> list[Fragment]:
    """Merge each short element for which `text_of` returns text into a UNIT fragment, which is copied.

    Return all fragments of the segment.
    """
    result, before, index = list[Fragment](), "", 0
    while index < len(run):
        inside = run[index : _element_end(run, index)] if run[index].kind is Kind.OPEN else []
        text = None
        if inside:
            end = index + len(inside)
            after = next((each.text for each in run[end : end + _MAX_REFERENCE] if each.text), "")
            content, is_raised = "".join(each.text for each in inside), any(each.raised for each in inside)
            text = text_of(_Element(before, content, after, is_raised))
        if text is not None:
            result.append(join_fragments(inside, text))
            index += len(inside)
        else:
            result.append(run[index])
            if run[index].kind is Kind.UNIT:
                _join_glued(result)
            before = run[index].text[-3:] or before
            index += 1
    return result


def _join_glued(fragments: list[Fragment]) -> None:
    """Join copied elements at the end, in place, if they are adjacent or separated by a sign such as "+"."""
    for count in (2, 3):
        parts = fragments[-count:]
        kinds, first, last = [each.kind for each in parts], parts[0], parts[-1]
        is_sign = kinds == [Kind.UNIT, Kind.TEXT, Kind.UNIT] and _GLUE.fullmatch(parts[1].text) is not None
        is_glued = (is_sign or kinds == [Kind.UNIT, Kind.UNIT]) and bool(first.text.strip())
        if is_glued and (last.text.strip() or not last.written):
            fragments[-count:] = [join_fragments(parts, "".join(each.text for each in parts))]


def _element_end(run: Sequence[Fragment], start: int) -> int:
    """Return the index after the element at `start`.

    Return 0 if no element starts there, or if the element is too long or contains a range mark.
    """
    depth = 0
    for index in range(start, min(start + _MAX_REFERENCE, len(run))):
        depth += {Kind.OPEN: 1, Kind.CLOSE: -1}.get(run[index].kind, 0)
        if depth <= 0 or run[index].kind in RANGE_MARKS:
            return index + 1 if index > start and depth == 0 else 0
    return 0


def _trim(run: Sequence[Fragment]) -> tuple[Sequence[Fragment], Sequence[Fragment], Sequence[Fragment]]:
    """Split copied content and white space off both ends of a segment. Return the start, the text and the end.

    Content that the translator reads as a word, and marks of ranges that contain words, stay in the text.
    """
    kept = [index for index, each in enumerate(run) if each.text.strip() or each.kind in (Kind.OPEN, Kind.CLOSE)]
    first, last = (kept[0], kept[-1] + 1) if kept else (len(run), len(run))
    starts = {each.key: index for index, each in enumerate(run) if each.kind is Kind.START}
    ends = {each.key: index for index, each in enumerate(run) if each.kind is Kind.END}
    first = min((index for key, index in starts.items() if index < first <= ends.get(key, -1)), default=first)
    last = max((index + 1 for key, index in ends.items() if index >= last > starts.get(key, last)), default=last)
    return run[:first], run[first:last], run[last:]
