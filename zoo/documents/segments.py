"""Segments: the texts to translate, which are formed from a document's fragments, and the positions of their markup."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind
from zoo.text.lines import INVISIBLE
from zoo.text.sentences import MAX_TEXT_LENGTH

MAX_DEPTH = 100
"""Maximum number of inline elements around a character."""
WORDS = re.compile(r"\w[\w.+-]{0,63}@\w[\w.-]*\w|\w+(?:['’-]\w+|(?<=\d)[.,:/]\d\w*)*|[^\w\s]")
_SPACES = re.compile(r"\s+")
_WORD_START = re.compile(r"['’-]?\w")
_WORD_END = re.compile(r"\w['’-]?$")
PLACEHOLDER = "Foo"
"""The word that the translator reads in place of copied content. Models copy names, but translate `ls` or `X`."""
Stack = tuple[int, ...]
"""Indices of the inline elements around a character, outermost first."""
RANGE_MARKS = Kind.START, Kind.END


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
        """Mask of the text: 1 for characters that stand for copied content and for the end, 0 for all others."""
        mask = bytearray(len(self.text)) + b"\1"
        for unit in self.units:
            mask[unit.start : unit.end] = b"\1" * (unit.end - unit.start)
        return mask

    @property
    def first_stack(self) -> Stack:
        """The inline elements around the first character that is neither white space nor copied content."""
        characters = zip(self.text, self.stacks, self.is_copied, strict=False)
        return next(stack for character, stack, is_copied in characters if character != " " and not is_copied)

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
        self._followed = 0
        """Number of units that are followed by a character."""
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
                self._read_unit(fragment)
            if len(self._stack) > MAX_DEPTH or len(self._characters) > MAX_TEXT_LENGTH:
                limits = f"{MAX_TEXT_LENGTH:,} characters or {MAX_DEPTH} nested inline elements"
                hint = "split the paragraph, or remove some of its markup"
                raise ZooError(f"a paragraph has more than {limits}", hint=hint)
        return self._segment()

    def _close(self, fragment: Fragment) -> None:
        closed = self._stack[-1]
        if closed not in self._used:  # an element without words, such as an anchor
            self._add_unit("", "")
        self._stack = self._stack[:-1]
        start, _ = self._elements[closed]
        self._elements[closed] = (start, fragment)

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
        if text[0].isspace():
            followed = (replace(unit, space_after=not unit.is_space) for unit in self._units[self._followed :])
            self._units[self._followed :] = followed
        self._followed = len(self._units)
        collapsed = _SPACES.sub(" ", text)
        if not self._characters or self._characters[-1] == " ":
            collapsed = collapsed.removeprefix(" ")
        self._characters += collapsed
        self._stacks += [self._stack] * len(collapsed)  # one tuple for all characters, to save memory

    def _segment(self) -> Segment:
        text, whole = "".join(self._characters).rstrip(), "".join(fragment.text for fragment in self._fragments)
        outer = whole[: len(whole) - len(whole.lstrip())], whole[len(whole.rstrip()) :]
        starts = {mark.key: position for position, _, mark in self._marks if mark.kind is Kind.START}
        ends = {mark.key: position for position, _, mark in self._marks if mark.kind is Kind.END}
        marks = [
            Mark(mark.kind is Kind.START, starts.get(mark.key, 0), ends.get(mark.key, len(text)), stack, mark.written)
            for _, stack, mark in self._marks
        ]
        return Segment(self._fragments, text, *outer, self._stacks, self._elements, self._units, marks)
