"""Segments: the texts to translate, which are formed from a document's fragments, and the positions of their markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from specs import ZooError
from zoo.documents.fragments import (
    BOUNDARIES,
    MAX_DEPTH,
    RANGE_MARKS,
    SENTENCE_END,
    Divider,
    Fragment,
    Kind,
    View,
    copy_marks,
    join_fragments,
    match_tags,
)
from zoo.text.lines import INVISIBLE
from zoo.text.sentences import MAX_TEXT_LENGTH

WORDS = re.compile(r"\w[\w.+-]{0,63}@\w[\w.-]*\w|\w+(?:['’-]\w+|(?<=\d)[.,:/]\d\w*)*|[^\w\s]")
_SPACES = re.compile(r"\s{2,}|[^\S ]")
_WORD_START = re.compile(r"['’-]?\w")
_WORD_END = re.compile(r"\w['’-]?$")
PLACEHOLDER = "Foo"
"""The word that the translator reads in place of copied content. Models copy names, but translate `ls` or `X`."""
Stack = tuple[int, ...]
"""Indices of the inline elements around a character, outermost first."""
_GLUED_BEFORE = re.compile(r"[\w,.;:!?)\]}»”’\"'%]$")
_REFERENCE = re.compile(r"(?=[^\w\s]*[\d*†‡§¶#↩↑^¹²³⁰-⁹₀-₉])\S+")
"""Content without letters that belongs to the word before it, such as a footnote number or an arrow to the text."""
_SYMBOLS = re.compile("[\u2190-\u21ff\u2300-\u2bff\U0001f000-\U0001faff\u200d\ufe0e\ufe0f]*")
_GLUE = re.compile(r"[-+/&=:.~]{1,2}")
"""Text between two copied elements, such as the "+" in Ctrl+C. It is also copied."""
_AFTER_NUMBER = re.compile(r"\s|[^\W\d_]{2}|[\"'“„‘‚«»(\[]")
"""Text that may follow the number of a verse or a note. It excludes single letters, as in chemical formulas, and "/",
as in fractions."""
_BEFORE_ITEM = " \t\r\n\"'“„‘‚«»‹([¿¡"
"""Characters that may precede the first word of a menu item."""
_MAX_REFERENCE = 12
"""Maximum number of fragments in a reference."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Inline content that is not translated, such as an image.

    Attributes:
        start: Position in the text of the segment.
        end: End of the placeholder word that the model reads instead of the content. If there is no placeholder, equal
            to `start`.
        stack: Indices of the inline elements around the content, outermost first.
        output: The content to write to the translated document.
        space_before: Whether the source has a space before the content.
        space_after: Whether the source has a space after the content.
        is_space: Whether the content replaces a space, as a line break does.
    """

    start: int
    end: int
    stack: Stack
    output: str
    space_before: bool = False
    space_after: bool = False
    is_space: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark at the start or end of a range, such as a bookmark.

    Attributes:
        is_start: Whether the mark is at the start of the range.
        start: Start of the range in the text of the segment, or 0 if the range starts in an earlier segment.
        end: End of the range, or the length of the text if the range ends in a later segment.
        stack: Indices of the inline elements around the mark, outermost first.
        output: The mark to write to the translated document.
    """

    is_start: bool
    start: int
    end: int
    stack: Stack
    output: str


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
    marks: list[Mark]

    @property
    def needs_alignment(self) -> bool:
        """Whether the segment has markup. If so, its translation must be aligned to the source."""
        return bool(self.elements or self.units or self.marks)

    @cached_property
    def is_copied(self) -> bytearray:
        """Mask over the text: 1 for each character of copied content and for the end, 0 for all other characters."""
        mask = bytearray(len(self.text)) + b"\1"
        for unit in self.units:
            mask[unit.start : unit.end] = b"\1" * (unit.end - unit.start)
        return mask

    @property
    def text_stacks(self) -> list[Stack]:
        """The inline elements around each character that is neither white space nor copied content."""
        characters = zip(self.text, self.stacks, self.is_copied, strict=False)
        return [stack for character, stack, is_copied in characters if character != " " and not is_copied]

    def link_stack(self, stack: Stack) -> Stack:
        """Return the elements of `stack` up to the outermost link, or an empty tuple if there is no link."""
        return next((stack[:end] for end, each in enumerate(stack, 1) if self.elements[each][0].is_link), ())

    @cached_property
    def solid_elements(self) -> set[int]:
        """Indices of the inline elements that contain more than white space."""
        stacks = (stack for character, stack in zip(self.text, self.stacks, strict=False) if character != " ")
        units = (unit.stack for unit in self.units if not unit.is_space)
        return {element for stack in {*stacks, *units} for element in stack}


class SegmentReader:
    """Reader for the fragments of a segment. It collapses white space in the text to single spaces."""

    def __init__(self, fragments: list[Fragment]) -> None:
        self._fragments = fragments
        self._elements: list[tuple[Fragment, Fragment]] = []
        self._characters: list[str] = []
        self._stacks: list[Stack] = []
        self._stack: Stack = ()
        self._units: list[Unit] = []
        self._marks: list[tuple[int, Stack, Fragment]] = []
        self._used: set[int] = set()
        self._length = 0
        """Number of characters before white space is collapsed."""
        self._followed = 0
        """Number of units that are followed by a character."""
        self._closes_word = False
        """Whether the last character belongs to a unit. A letter after it then begins a new word."""

    def read(self) -> Segment:
        """Create the segment from the fragments."""
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
                self._read_unit(fragment)
            if len(self._stack) > MAX_DEPTH or self._length > MAX_TEXT_LENGTH:
                limits = f"{MAX_TEXT_LENGTH:,} characters or {MAX_DEPTH} nested inline elements"
                hint = "split the paragraph, or remove some of its markup"
                raise ZooError(f"a paragraph has more than {limits}", hint=hint)
        return self._segment()

    def _close(self, fragment: Fragment) -> None:
        closed = self._stack[-1]
        if closed not in self._used:  # an element without words, such as an anchor
            self._add_unit("", "")
        self._stack = self._stack[:-1]
        self._elements[closed] = self._elements[closed][0], fragment

    def _read_unit(self, fragment: Fragment) -> None:
        text = fragment.text
        if text.strip():
            is_name = WORDS.fullmatch(text) and not text[0].islower() and text[0].isalnum()
            text = text if is_name else PLACEHOLDER
            if self._closes_word or _WORD_END.search("".join(self._characters[-2:])):
                self._add(" ")
        self._closes_word = bool(text.strip()) or (self._closes_word and not text)
        self._add_unit(text, fragment.written)
        self._used.update(self._stack)

    def _add_unit(self, text: str, output: str) -> None:
        start, is_space = len(self._characters), text.isspace()
        space_before = self._characters[-1:] == [" "] and not is_space
        self._add(text)
        end = start if is_space else len(self._characters)
        self._units.append(Unit(start, end, self._stack, output, space_before, False, is_space))

    def _add(self, text: str) -> None:
        if not text:
            return
        if text[0].isspace() and self._followed < len(self._units):
            followed = (replace(unit, space_after=not unit.is_space) for unit in self._units[self._followed :])
            self._units[self._followed :] = followed
        self._followed = len(self._units)
        self._length += len(text)
        collapsed = _SPACES.sub(" ", text)
        if not self._characters or self._characters[-1] == " ":
            collapsed = collapsed.removeprefix(" ")
        self._characters += collapsed
        self._stacks += [self._stack] * len(collapsed)  # one tuple for all characters, to save memory

    def _segment(self) -> Segment:
        text, whole = "".join(self._characters).rstrip(), "".join(fragment.text for fragment in self._fragments)
        outer = whole[: len(whole) - len(whole.lstrip())], whole[len(whole.rstrip()) :]
        bounds = {(mark.kind, mark.key): position for position, _, mark in self._marks}
        marks = list[Mark]()
        for _, stack, mark in self._marks:
            start, end = bounds.get((Kind.START, mark.key), 0), bounds.get((Kind.END, mark.key), len(text))
            marks.append(Mark(mark.kind is Kind.START, start, end, stack, mark.written))
        return Segment(self._fragments, text, *outer, self._stacks, self._elements, self._units, marks)


def split_segments(text: str, view: View) -> Iterator[Fragment | Segment]:
    """Split a text into segments. Yield the segments that contain words, and the fragments between them, in order."""
    run: list[Fragment] = []
    for fragment in [*Divider(view).divide(view.parse(text)), Fragment(Kind.BREAK, "")]:
        if fragment.kind not in BOUNDARIES:
            run.append(fragment)
            continue
        for part in _split_menu(run, view) if view.splits_menus else [run]:
            copy_marks(part, view)
            before, middle, after = _trim(_copy_elements(part, _Element.wordless_text))
            yield from before
            if any(each.kind is Kind.TEXT and any(map(str.isalpha, each.text)) for each in middle):
                yield SegmentReader(_copy_elements(middle, _Element.reference_text)).read()
            else:
                yield from middle
            yield from after
        yield fragment
        run = []


def _split_menu(run: list[Fragment], view: View) -> list[list[Fragment]]:
    """Split a text that consists only of links and spaces, such as a menu, into its links and the parts between them.

    The links may be inside other elements, such as spans. Return the whole text as one part if it has other words, or a
    link that does not begin with a capital, a digit or a bullet. Such a link may continue a sentence.
    """
    ends, bounds, index, space = match_tags(run), [0], 0, " "
    while index < len(run):
        start, index = index, (ends[index] if run[index].is_link else index) + 1
        text = "".join(fragment.text for fragment in run[start:index])
        if run[start].is_link:
            mark = view.marks.match(text.lstrip())
            first = text.lstrip()[mark.end() if mark else 0 :].lstrip(_BEFORE_ITEM)[:1]
            if first and not (space and (mark or first.isupper() or first.isdigit())):
                return [run]
            bounds += start, index
            space = "" if first else space
        elif text.strip():
            return [run]
        else:
            space += text
    return [run[start:end] for start, end in pairwise([*bounds, len(run)])] if len(bounds) > 3 else [run]


class _Element(NamedTuple):
    """Short element without letters, and the text around it.

    Attributes:
        end: Index of the fragment after the element.
        before: The last characters before the element.
        text: The text of the element.
        after: The text after the element.
        is_raised: Whether the element is a superscript or subscript, so its digits do not continue a number before it.
    """

    end: int
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
        """Return the text that the translator reads for a reference, such as a footnote number. Otherwise, return None.

        A reference directly follows a word, or it is a superscript number after a sentence.
        """
        before, text = self.before, self.text
        is_new = self.is_raised or not (before[-1:].isdigit() and text[:1].isdigit())  # not the rest of a number
        if _REFERENCE.fullmatch(text) and not self.after[:1].isalnum() and is_new and _GLUED_BEFORE.search(before):
            return ""
        is_verse = self.is_raised and SENTENCE_END.search(before) and before[-1].isspace() and self._is_number()
        return text if is_verse else None

    def _is_number(self) -> bool:
        """Return whether the element is the number of the verse or note that follows."""
        return self.text.isdigit() and _AFTER_NUMBER.match(self.after) is not None


def _copy_elements(run: Sequence[Fragment], text_of: Callable[[_Element], str | None]) -> list[Fragment]:
    """Merge each short element for which `text_of` returns a string into a UNIT fragment, which is copied.

    Return all fragments of the segment.
    """
    result, before, end = list[Fragment](), "", 0
    for index, fragment in enumerate(run):
        if index < end:  # inside the last merged element
            continue
        element = _read_element(run, index, before) if fragment.kind is Kind.OPEN else None
        text = text_of(element) if element else None
        if element and text is not None:
            end = element.end
            result.append(join_fragments(run[index:end], text))
            continue
        result.append(fragment)
        if fragment.kind is Kind.UNIT:
            _join_glued(result)
        before = fragment.text[-3:] or before
    return result


def _read_element(run: Sequence[Fragment], start: int, before: str) -> _Element | None:
    """Read the inline element that starts at index `start`, preceded by the text `before`.

    Return None if the element has too many fragments, or contains a letter, or a start or end mark of a range.
    """
    depth = 0
    for end, fragment in enumerate(run[start : start + _MAX_REFERENCE], start + 1):
        depth += (fragment.kind is Kind.OPEN) - (fragment.kind is Kind.CLOSE)
        if fragment.kind in RANGE_MARKS or any(map(str.isalpha, fragment.text)):
            return None
        if depth == 0:
            inside = run[start:end]
            after = next((each.text for each in run[end : end + _MAX_REFERENCE] if each.text), "")
            text, is_raised = "".join(each.text for each in inside), any(each.raised for each in inside)
            return _Element(end, before, text, after, is_raised)
    return None


def _join_glued(fragments: list[Fragment]) -> None:
    """Join the last two copied elements of a list in place, if at most a sign such as "+" is between them."""
    for count in range(2, min(len(fragments), 3) + 1):
        first, last = fragments[-count], fragments[-1]
        is_word = first.kind is Kind.UNIT and first.text.strip() and (last.text.strip() or not last.written)
        if is_word and all(sign.kind is Kind.TEXT and _GLUE.fullmatch(sign.text) for sign in fragments[1 - count : -1]):
            parts = fragments[-count:]
            fragments[-count:] = [join_fragments(parts, "".join(each.text for each in parts))]
            return


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
