"""Segments: the texts to translate, which are formed from a document's fragments, and the positions of their markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind, View, join_fragments, unescape
from zoo.text.lines import INVISIBLE
from zoo.text.sentences import MAX_TEXT_LENGTH

MAX_DEPTH = 100
"""Maximum number of inline elements around a character."""
WORDS = re.compile(r"\w[\w.+-]{0,63}@\w[\w.-]*\w|\w+(?:['’-]\w+|(?<=\d)[.,:/]\d\w*)*|[^\w\s]")
_WORD_START = re.compile(r"['’-]?\w")
_WORD_END = re.compile(r"\w['’-]?$")
PLACEHOLDER = "Foo"
"""The word that the translator reads in place of copied content. Models copy names, but translate `ls` or `X`."""
Stack = tuple[int, ...]
"""Indices of the inline elements around a character, outermost first."""
RANGE_MARKS = (Kind.START, Kind.END)
_BOUNDARIES = (Kind.BREAK, Kind.LANGUAGE)
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
_Test = Callable[[str, str, str, bool], str | None]
"""Function that returns the text of an element that is copied, or None if the element is not copied.

Its arguments are the last characters before the element, the element's text, the text after the element, and whether
the element is raised or lowered. Raised digits do not continue a number before them.
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Inline item that is not translated: content such as an image, or a mark at an end of a range such as a bookmark.

    Attributes:
        start: Position in the text of the segment. For a mark, the start of the range, or 0 if the range starts in an
            earlier segment.
        end: End of the placeholder word that the model reads instead of the content. If there is no placeholder, equal
            to `start`. For a mark, the end of the range, or the length of the text if the range ends in a later
            segment.
        stack: Indices of the inline elements around the content, outermost first.
        output: The content to write to the translated document.
        space_before: Whether the source has a space before the content.
        space_after: Whether the source has a space after the content.
        is_space: Whether the content replaces a space, as a line break does.
        kind: UNIT for content, START or END for a mark.
    """

    start: int
    end: int
    stack: Stack
    output: str
    space_before: bool = False
    space_after: bool = False
    is_space: bool = False
    kind: Kind = Kind.UNIT


@dataclass(frozen=True)
class Segment:
    """Text between two boundaries, such as paragraph tags. It is translated as a whole.

    Attributes:
        fragments: The fragments of the document between the boundaries.
        text: The text that the translator reads, without markup. White space is collapsed to single spaces.
        start: White space before the text.
        end: White space after the text.
        stacks: For each character of `text`, the indices of the inline elements around it, outermost first.
        elements: The start tag and the end tag of each inline element.
        units: Inline content that is copied, such as images, in order.
        marks: Start and end marks of ranges, such as bookmarks, in order.
    """

    fragments: list[Fragment]
    text: str
    start: str
    end: str
    stacks: list[Stack]
    elements: list[tuple[Fragment, Fragment]]
    units: list[Unit]
    marks: list[Unit]

    @property
    def needs_alignment(self) -> bool:
        """Whether the segment has markup. If so, its translation must be aligned to the source."""
        return bool(self.elements or self.units or self.marks)


class _Reader:
    """Reader for the fragments of a segment. Positions are character offsets before white space is collapsed."""

    def __init__(self, fragments: list[Fragment]) -> None:
        self._fragments = fragments
        self._elements: list[tuple[Fragment, Fragment]] = []
        self._characters: list[str] = []
        self._stacks: list[Stack] = []
        self._stack: Stack = ()
        self._units: list[tuple[int, int, Stack, Fragment]] = []
        self._marks: list[tuple[int, Stack, Fragment]] = []
        self._used: set[int] = set()
        self._closes_word = False
        """Whether the last character belongs to a unit. A letter after it then begins a new word."""

    def read(self) -> Segment:
        """Return the segment that the fragments form."""
        for fragment in self._fragments:
            if fragment.kind is Kind.OPEN:
                self._stack = (*self._stack, len(self._elements))
                self._elements.append((fragment, fragment))  # `_close` sets the end tag
            elif fragment.kind is Kind.CLOSE:
                self._close(fragment)
            elif fragment.kind in RANGE_MARKS:
                self._marks.append((len(self._characters), self._stack, fragment))
            elif fragment.kind is Kind.TEXT:
                if self._closes_word and _WORD_START.match(fragment.text):
                    self._add(" ")
                self._closes_word = self._closes_word and not fragment.text
                self._add(INVISIBLE.sub("", fragment.text))
                if fragment.text.strip():
                    self._used.update(self._stack)
            elif fragment.written or fragment.text:
                self._unit(fragment)
            if len(self._stack) > MAX_DEPTH or len(self._characters) > MAX_TEXT_LENGTH:
                limits = f"{MAX_TEXT_LENGTH:,} characters or {MAX_DEPTH} nested inline elements"
                hint = "split the paragraph, or remove some of its markup"
                raise ZooError(f"a paragraph has more than {limits}", hint=hint)
        return self._segment()

    def _close(self, fragment: Fragment) -> None:
        closed = self._stack[-1]
        if closed not in self._used:  # an element without words, such as an anchor
            self._units.append((len(self._characters), len(self._characters), self._stack, Fragment(Kind.UNIT, "")))
        self._stack = self._stack[:-1]
        start, _ = self._elements[closed]
        self._elements[closed] = (start, fragment)

    def _unit(self, fragment: Fragment) -> None:
        text = fragment.text
        if text.strip():
            is_name = WORDS.fullmatch(text) and not text[0].islower() and text[0].isalnum()
            text = text if is_name else PLACEHOLDER
            if self._closes_word or _WORD_END.search("".join(self._characters[-2:])):
                self._add(" ")
        start = len(self._characters)
        self._add(text)
        self._closes_word = bool(text.strip()) or (self._closes_word and not text)
        self._units.append((start, len(self._characters), self._stack, fragment))
        self._used.update(self._stack)

    def _add(self, text: str) -> None:
        self._characters += text
        self._stacks += [self._stack] * len(text)  # one tuple for all characters, to save memory

    def _segment(self) -> Segment:
        """Return the segment. Collapse the white space in its text, and convert all positions to this text."""
        characters, positions, kept, stacks = self._characters, list[int](), list[str](), list[Stack]()
        for character, stack in zip(characters, self._stacks, strict=True):
            positions.append(len(kept))
            is_space = character.isspace()
            if not is_space or (kept and kept[-1] != " "):
                kept.append(" " if is_space else character)
                stacks.append(stack)
        positions.append(len(kept))
        text, units, marks = "".join(kept).rstrip(), list[Unit](), list[Unit]()
        for start, end, stack, fragment in self._units:
            is_space = bool(fragment.text) and not fragment.text.strip()
            before = not is_space and start > 0 and characters[start - 1].isspace()
            after = not is_space and end < len(characters) and characters[end].isspace()
            position = positions[start]
            last = position if is_space else position + end - start
            units.append(Unit(position, last, stack, fragment.written, before, after, is_space))
        starts = {mark.key: positions[at] for at, _, mark in self._marks if mark.kind is Kind.START}
        ends = {mark.key: positions[at] for at, _, mark in self._marks if mark.kind is Kind.END}
        for _, stack, mark in self._marks:
            bounds = starts.get(mark.key, 0), ends.get(mark.key, len(text))
            marks.append(Unit(*bounds, stack, mark.written, kind=mark.kind))
        whole = "".join(fragment.text for fragment in self._fragments)
        outer = whole[: len(whole) - len(whole.lstrip())], whole[len(whole.rstrip()) :]
        return Segment(self._fragments, text, *outer, stacks, self._elements, units, marks)


def split_segments(fragments: Sequence[Fragment], view: View) -> Iterator[Fragment | Segment]:
    """Group fragments into segments. Yield the segments that contain words, and all other fragments, in order."""
    run: list[Fragment] = []
    for fragment in [*_divide([*_split_items(_join_lines(fragments, view), view)], view), Fragment(Kind.BREAK, "")]:
        if fragment.kind not in _BOUNDARIES:
            run.append(fragment)
            continue
        before, middle, after = _trim(_copy_elements(_copy_marks(run, view), _wordless_text))
        yield from before
        if any(each.kind is Kind.TEXT and any(map(str.isalpha, each.text)) for each in middle):
            yield _Reader(_copy_elements(middle, _reference_text)).read()
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


def _divide(fragments: Sequence[Fragment], view: View) -> list[Fragment]:
    """Replace line breaks and unmatched tags with boundaries between segments, and return all fragments.

    Elements around a line break are closed before the line break and reopened after it. Marks between items keep their
    elements.
    """
    ends = match_tags(fragments)
    matched = set(ends.values())
    result, opened, copied = list[Fragment](), list[tuple[Fragment, Fragment]](), 0
    """The divided fragments, the tags of the open elements, as they are written if the element is opened again, and
    the number of characters in the tags that are repeated (see `_MAX_COPIED`)."""
    for index, fragment in enumerate(fragments):
        if index in ends:
            opened.append((fragment, fragments[ends[index]]))
        elif index in matched:
            fragment = replace(fragment, output=opened.pop()[1].written)
            if _drop_open_tag(result, is_reopened=True):  # the element ends with a mark between items
                fragment = Fragment(Kind.UNIT, fragment.raw, output="")
        elif fragment.kind in (Kind.OPEN, Kind.CLOSE):
            fragment = replace(fragment, kind=Kind.BREAK)
        if fragment.kind is not Kind.LINE:
            result.append(fragment)
            continue
        if len(opened) > MAX_DEPTH:
            raise ZooError(f"a line break is nested in more than {MAX_DEPTH} elements", hint="reduce the nesting")
        count = len(opened)
        while not fragment.text and _drop_open_tag(result):  # the element begins with the mark
            count -= 1
        result += (replace(end, raw="", output=end.written) for _, end in reversed(opened[:count]))
        first, opened = opened[count:], [(_reopened(start), _reopened(end)) for start, end in opened]
        around = [*opened[:count], *first] if view.needs_runs or not fragment.text else []
        tags = "".join(start.written for start, _ in around), "".join(end.written for _, end in reversed(around))
        copied += 0 if fragment.text else 20 + len(tags[0]) + len(tags[1])
        if copied > _MAX_COPIED:
            raise ZooError("the text has too many marks between items, such as check boxes", hint="split the document")
        result.append(Fragment(Kind.BREAK, fragment.raw, output=tags[0] + fragment.written + tags[1]))
        result += (replace(start, raw="") for start, _ in opened)
    return result


def _drop_open_tag(fragments: list[Fragment], *, is_reopened: bool = False) -> bool:
    """If the last fragment is a start tag, remove the tag from the output. Return whether a tag was removed.

    Trailing fragments without output are ignored. If `is_reopened`, only a tag that is not in the document is removed.
    """
    index = len(fragments) - 1
    while index > 0 and fragments[index].kind in (Kind.TEXT, Kind.UNIT) and not fragments[index].written:
        index -= 1
    found = index >= 0 and fragments[index].kind is Kind.OPEN and not (is_reopened and fragments[index].raw)
    if found:
        fragments[index] = Fragment(Kind.UNIT, fragments[index].raw, output="")
    return found


def _reopened(tag: Fragment) -> Fragment:
    return replace(tag, output=tag.written_again)


def _copy_marks(run: list[Fragment], view: View) -> list[Fragment]:
    """Split marks such as dashes off the start and end of a segment, so that they are copied. Return all fragments."""
    texts = [index for index, fragment in enumerate(run) if fragment.kind is Kind.TEXT and fragment.text.strip()]
    if not texts:
        return run
    first = run[texts[0]]
    indent = len(first.text) - len(first.text.lstrip())
    start = view.marks.match(first.text, indent)
    is_first = not any(each.text.strip() for each in run[: texts[0]])  # no copied word precedes the text
    if start and indent < start.end() and is_first:
        cut = _split_text(first, [(start.end(), Kind.UNIT), (len(first.text), Kind.TEXT)], view)
        run = [*run[: texts[0]], *cut, *run[texts[0] + 1 :]]
        texts[-1] += len(cut) - 1
    last = run[texts[-1]]
    end = view.end_marks.search(last.text, max(len(last.text) - _MAX_MARK, 0))
    is_last = not any(each.text.strip() for each in run[texts[-1] + 1 :])
    if end and is_last and end.start() > 0:
        cut = _split_text(last, [(end.start(), Kind.TEXT), (len(last.text), Kind.UNIT)], view)
        run = [*run[: texts[-1]], *cut, *run[texts[-1] + 1 :]]
    return run


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


def _copy_elements(run: Sequence[Fragment], test: _Test) -> list[Fragment]:
    """Merge each short element for which `test` returns text into a UNIT fragment, which is copied.

    Return all fragments of the segment.
    """
    result, before, index = list[Fragment](), "", 0
    while index < len(run):
        end = _element_end(run, index) if run[index].kind is Kind.OPEN else index
        text = None
        if end > index:
            content = "".join(each.text for each in run[index:end])
            after = next((each.text for each in run[end : end + _MAX_REFERENCE] if each.text), "")
            text = test(before, content, after, any(each.raised for each in run[index:end]))
        if text is not None:
            result.append(join_fragments(run[index:end], text))
            index = end
        else:
            result.append(run[index])
            for count in (2, 3):
                if run[index].kind is Kind.UNIT and _is_glued(result[-count:]):
                    result[-count:] = [join_fragments(result[-count:], "".join(each.text for each in result[-count:]))]
            before = run[index].text[-3:] or before
            index += 1
    return result


def _is_glued(parts: Sequence[Fragment]) -> bool:
    """Return whether the fragments are two copied elements that are adjacent or separated by a sign such as "+"."""
    kinds, first, last = [each.kind for each in parts], parts[0], parts[-1]
    if not first.text.strip() or not (last.text.strip() or not last.written):
        return False
    is_joined = kinds == [Kind.UNIT, Kind.TEXT, Kind.UNIT] and _GLUE.fullmatch(parts[1].text) is not None
    return is_joined or kinds == [Kind.UNIT, Kind.UNIT]


def _element_end(run: Sequence[Fragment], start: int) -> int:
    """Return the index after the element at `start`. Return 0 if the element is too long or contains a range mark."""
    depth = 0
    for index in range(start, min(start + _MAX_REFERENCE, len(run))):
        depth += {Kind.OPEN: 1, Kind.CLOSE: -1}.get(run[index].kind, 0)
        if depth == 0:
            return index + 1
        if run[index].kind in RANGE_MARKS:
            break
    return 0


def _wordless_text(before: str, content: str, after: str, is_raised: bool) -> str | None:
    """Return the text that the translator reads for an element without words, or None if the element has words.

    Elements without words are white space, symbols such as the arrow back from a footnote, and the numbers of notes
    and verses.
    """
    if not before.strip() and is_raised and _is_number(content, after):
        return ""
    if not _SYMBOLS.fullmatch(content.strip()):
        return None
    return " " if content.isspace() else ""


def _reference_text(before: str, content: str, after: str, is_raised: bool) -> str | None:
    """Return the text that the translator reads for a reference, such as a footnote number, or None for other elements.

    A reference has no letters and directly follows a word, or it is a superscript number after a sentence.
    """
    is_sign = _REFERENCE.fullmatch(content) and not any(map(str.isalpha, content)) and not after[:1].isalnum()
    if is_sign and _GLUED_BEFORE.search(before) and (is_raised or not (before[-1].isdigit() and content[0].isdigit())):
        return ""
    if is_raised and _SENTENCE_END.search(before) and before[-1].isspace() and _is_number(content, after):
        return content
    return None


def _is_number(content: str, after: str) -> bool:
    """Return whether a superscript is the number of the verse or note that follows."""
    return content.isdigit() and _AFTER_NUMBER.match(after) is not None


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
