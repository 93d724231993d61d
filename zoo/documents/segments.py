"""Segments: the texts to translate, without their markup, and the place of all markup in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind
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
_MARKS = (Kind.START, Kind.END)


@dataclass(frozen=True, slots=True)
class Unit:
    """Inline content that is copied.

    Attributes:
        start: Position in the text of the segment.
        end: End of the word that the translator reads in place of the content. Equals `start` if it reads nothing.
        stack: The elements around it.
        output: The content as it is written.
        space_before: Whether the source has a space before it.
        space_after: Whether the source has a space after it.
        is_space: Whether it replaces a space, as a line break does.
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
    """Start or end mark of a range.

    Attributes:
        is_start: Whether it is the start mark.
        start: Start of the range in the text of the segment. 0 if the range starts in an earlier segment.
        end: End of the range. The length of the text if the range ends in a later segment.
        stack: The elements around the mark.
        output: The mark as it is written.
    """

    is_start: bool
    start: int
    end: int
    stack: Stack
    output: str


@dataclass(frozen=True, slots=True)
class Element:
    """Inline element.

    Attributes:
        open: Start tag.
        close: End tag.
        open_again: Start tag if the element is opened a second time.
        close_again: Its end tag.
    """

    open: str
    close: str
    open_again: str
    close_again: str


@dataclass
class Segment:
    """Text between two boundaries, which is translated as a whole.

    Attributes:
        fragments: The fragments, without boundaries.
        text: The text that the translator reads, without markup. Each run of white space is one space.
        start: White space before the text.
        end: White space after the text.
        stacks: For each character of `text`, the elements around it.
        elements: The inline elements.
        units: Inline content that is copied, in order.
        marks: Marks of ranges, in order.
    """

    fragments: list[Fragment]
    text: str = ""
    start: str = ""
    end: str = ""
    stacks: list[Stack] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def __post_init__(self) -> None:
        _Reader(self).read()

    @property
    def raw(self) -> str:
        """The segment as the document spells it."""
        return "".join(fragment.raw for fragment in self.fragments)

    @property
    def needs_alignment(self) -> bool:
        """Whether the segment has markup."""
        return bool(self.elements or self.units or self.marks)


class _Reader:
    """Reads the fragments of a segment. Positions count characters before white space is normalised."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._characters: list[str] = []
        self._stacks: list[Stack] = []
        self._stack: Stack = ()
        self._units: list[tuple[int, int, Stack, Fragment]] = []
        self._marks: list[tuple[int, Stack, Fragment]] = []
        self._used: set[int] = set()
        self._closes_word = False
        """Whether the last character belongs to a unit, so that a letter after it begins a new word."""

    def read(self) -> None:
        """Set the attributes of the segment."""
        for fragment in self._segment.fragments:
            if fragment.kind is Kind.OPEN:
                self._open(fragment)
            elif fragment.kind is Kind.CLOSE:
                self._close(fragment)
            elif fragment.kind in _MARKS:
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
                limits = f"{MAX_TEXT_LENGTH:,} characters, or than {MAX_DEPTH} inline elements inside of each other"
                raise ZooError(f"a paragraph has more than {limits}", hint="split it, or remove some of its markup")
        self._normalise()

    def _open(self, fragment: Fragment) -> None:
        self._stack = (*self._stack, len(self._segment.elements))
        again = fragment.written if fragment.again is None else fragment.again
        self._segment.elements.append(Element(fragment.written, "", again, ""))

    def _close(self, fragment: Fragment) -> None:
        closed = self._stack[-1]
        if closed not in self._used:  # an element without words, such as an anchor
            self._units.append((len(self._characters), len(self._characters), self._stack, Fragment(Kind.UNIT, "")))
        self._stack = self._stack[:-1]
        again = fragment.written if fragment.again is None else fragment.again
        element = self._segment.elements[closed]
        self._segment.elements[closed] = replace(element, close=fragment.written, close_again=again)

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

    def _normalise(self) -> None:
        """Set the text with single spaces, and convert positions."""
        segment, characters = self._segment, self._characters
        positions, kept = [], list[str]()
        for character, stack in zip(characters, self._stacks, strict=True):
            positions.append(len(kept))
            if not character.isspace():
                kept.append(character)
                segment.stacks.append(stack)
            elif kept and kept[-1] != " ":
                kept.append(" ")
                segment.stacks.append(stack)
        positions.append(len(kept))
        segment.text = "".join(kept).rstrip()
        whole = "".join(fragment.text for fragment in segment.fragments)
        segment.start, segment.end = whole[: len(whole) - len(whole.lstrip())], whole[len(whole.rstrip()) :]
        for start, end, stack, fragment in self._units:
            is_space = bool(fragment.text) and not fragment.text.strip()
            before = not is_space and start > 0 and characters[start - 1].isspace()
            after = not is_space and end < len(characters) and characters[end].isspace()
            position = positions[start]
            last = position if is_space else position + end - start
            segment.units.append(Unit(position, last, stack, fragment.written, before, after, is_space))
        starts = {mark.name: positions[at] for at, _, mark in self._marks if mark.kind is Kind.START}
        ends = {mark.name: positions[at] for at, _, mark in self._marks if mark.kind is Kind.END}
        for _, stack, mark in self._marks:
            bounds = starts.get(mark.name, 0), ends.get(mark.name, len(segment.text))
            segment.marks.append(Mark(mark.kind is Kind.START, *bounds, stack, mark.written))
