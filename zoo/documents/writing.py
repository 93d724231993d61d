"""Writing of translated segments: words, copied content and marks, with the tags of the inline elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from zoo.documents.fragments import View
from zoo.documents.segments import Mark, Segment, Stack, Unit


@dataclass
class Word:
    """Word of a translation, and the markup to write around it.

    Attributes:
        start: Start position in the translation.
        end: End position in the translation.
        text: The word.
        source: Position in the segment's text that the word is aligned to, or None if the word is not aligned.
        parts: Substrings of the word, each with the markup elements around it. Empty until the elements are known.
        unit: Copied content, such as an image, that replaces the word.
        starts: Start marks of ranges, such as bookmarks, to write before the word.
        ends: End marks of ranges to write after the word.
        units: Other copied content to write after the word and these marks.
        marks: Marks of ranges without words, to write after this content.
    """

    start: int
    end: int
    text: str
    source: int | None = None
    parts: list[tuple[str, Stack]] = field(default_factory=list)
    unit: Unit | None = None
    starts: list[Mark] = field(default_factory=list)
    ends: list[Mark] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def first_stack(self) -> Stack:
        """The elements around the start of the word or of the content that replaces it."""
        return self.parts[0][1] if self.parts else self.unit.stack if self.unit else ()

    @property
    def last_stack(self) -> Stack:
        """The elements around the end of the word or of the content that replaces it."""
        return self.parts[-1][1] if self.parts else self.first_stack


class Writer:
    """Writer for a translated segment. It opens and closes inline elements as needed."""

    def __init__(self, segment: Segment, words: Sequence[Word], target: str, view: View) -> None:
        """Create a writer for a translation (`target`). The first of its words is empty and represents its start."""
        self._segment, self._words, self._target, self._view = segment, words, target, view
        self._output: list[str] = []
        self._text = ""
        """Text that has not been written yet, so that adjacent texts are escaped as one."""
        self._stack: Stack = ()
        self._ends: list[str] = []
        """End tags of the open elements."""
        self._opened = set[int]()
        self._owes_space = False
        """Whether a space has to be written before the following text."""

    def write(self) -> str:
        """Return the translated segment."""
        position = 0
        for unit in self._words[0].units:
            self._write_content(unit)
            self._owes_space = unit.space_after
        self._write_marks(self._words[0].marks)
        for index, word in enumerate(self._words[1:], 1):
            self._write_gap(index, self._target[position : word.start])
            for mark in word.starts:
                self._write_raw(mark.output, common(mark.stack, word.first_stack))
            if index == 1:
                self._write_start()
            if word.unit:
                self._write_raw(word.unit.output, word.unit.stack)
            for part, stack in word.parts:
                self._write_text(part, stack)
            self._write_marks(word.ends)
            following = self._words[index + 1].first_stack if index + 1 < len(self._words) else ()
            for unit in word.units:
                if unit.space_before and unit.output and not (self._text or "".join(self._output[-2:]))[-1:].isspace():
                    self._write_space(unit)
                self._write_unit(unit, following)
            self._write_marks(word.marks)
            replaces_space = any(unit.is_space for unit in word.units)
            position = word.end + (replaces_space and self._target[word.end : word.end + 1] == " ")
        return self._finish(self._target[position:])

    def _write_start(self) -> None:
        """Write white space after the start marks of the first word."""

    def _write_gap(self, index: int, gap: str) -> None:
        """Write the text between two words, inside the elements that enclose both words."""
        self._write_text(gap, common(self._words[index - 1].last_stack, self._words[index].first_stack, self._stack))

    def _write_unit(self, unit: Unit, following: Stack) -> None:
        """Write copied content after a word. `following` are the elements around the next word."""
        if unit.is_space and self._segment.solid_elements.issuperset(unit.stack):  # do not end an element for it
            unit = replace(unit, stack=common(self._stack, following))
        self._write_content(unit)

    def _write_space(self, unit: Unit) -> None:
        """Write the space before copied content."""
        self._write_text(" ", common(self._stack, unit.stack))

    def _finish(self, tail: str) -> str:
        """Write the text after the last word, close all elements, and return the whole text."""
        self._write_text(tail, self._words[-1].last_stack)
        self._write_raw(self._segment.end, ())
        has_space = any(unit.space_after and unit.output for unit in self._words[0].units)
        return self._segment.start * (not has_space) + "".join(self._output)

    def _write_content(self, unit: Unit) -> None:
        self._write_owed_space(unit.stack)
        self._write_raw(unit.output, unit.stack)

    def _write_marks(self, marks: Sequence[Mark]) -> None:
        for mark in marks:
            self._write_raw(mark.output, common(mark.stack, self._stack))

    def _write_text(self, text: str, stack: Stack) -> None:
        """Write text inside the elements of `stack`."""
        if text:
            self._write_owed_space(stack)
            self._move_to(stack)
            self._text += text

    def _write_owed_space(self, stack: Stack) -> None:
        """Write the space between the first copied content and the text, inside the elements that enclose both."""
        if self._owes_space:
            self._owes_space = False
            self._write_text(" ", common(self._stack, stack))

    def _write_raw(self, content: str, stack: Stack) -> None:
        """Write content unchanged inside the elements of `stack`."""
        self._move_to(stack)
        self._flush()
        self._output.append(content)

    def _move_to(self, stack: Stack) -> None:
        """Close and open elements until exactly the elements of `stack` are open."""
        if stack == self._stack:
            return
        self._flush()
        shared = len(common(self._stack, stack))
        while len(self._ends) > shared:
            self._output.append(self._ends.pop())
        for index in stack[shared:]:
            (start, end), again = self._segment.elements[index], index in self._opened
            self._output.append(start.written_again if again else start.written)
            self._ends.append(end.written_again if again else end.written)
            self._opened.add(index)
        self._stack = stack

    def _flush(self) -> None:
        if self._text:
            self._output.append(self._view.escape(self._text))
            self._text = ""


class RunWriter(Writer):
    """Writer for formats in which all text must be in an inline element, as in Word documents."""

    def __init__(self, segment: Segment, words: Sequence[Word], target: str, view: View) -> None:
        """Create a writer (see `Writer`)."""
        super().__init__(segment, words, target, view)
        following = [next((word.first_stack for word in reversed(words) if word.parts), segment.text_stacks[0])]
        for word in reversed(words):
            following.append(word.first_stack if word.parts else following[-1])
        self._following = following[:0:-1]
        """The elements around each word, or around the next word with text."""
        self._preceding = following[-1:]
        """The elements around the last word with text before each word, and before the end."""
        for word in words:
            self._preceding.append(word.last_stack if word.parts else self._preceding[-1])

    def _write_start(self) -> None:
        needs_space = any(unit.space_after and unit.end > unit.start for unit in self._words[0].units)
        self._write_text(self._segment.start or " " * needs_space, self._following[1])

    def _write_gap(self, index: int, gap: str) -> None:
        before, after = self._preceding[index], self._following[index]
        is_clear = before == after or self._words[index - 1].unit is not None
        # A space in bold or in a link is visible.
        self._write_text(gap, after if is_clear else min(before, after, key=self._length))

    def _write_owed_space(self, stack: Stack) -> None:
        """Write nothing, because the space is a part of the text after the content (see `_write_start`)."""

    def _length(self, stack: Stack) -> int:
        """Return the total length of the start tags in `stack`."""
        return sum(len(self._segment.elements[index][0].written) for index in stack)

    def _write_unit(self, unit: Unit, following: Stack) -> None:
        self._write_content(unit)

    def _write_space(self, unit: Unit) -> None:
        if self._text and unit.end > unit.start:
            self._text += " "  # the last text, which is in a run, continues

    def _finish(self, tail: str) -> str:
        self._write_text(tail + self._segment.end, self._preceding[-1])
        self._write_raw("", ())
        return "".join(self._output)


def common(*stacks: Stack) -> Stack:
    """Return the outer elements that all stacks share, which are their common prefix."""
    if min(stacks) == max(stacks):
        return stacks[0]
    return tuple(same[0] for same in takewhile(lambda each: len({*each}) == 1, zip(*stacks, strict=False)))
