"""Write translated segments: words, copied content and marks, with the tags of the inline elements around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from operator import attrgetter

from zoo.documents.fragments import View
from zoo.documents.segments import Mark, Segment, Stack, Unit

_MAX_GAP = 10
"""Maximum number of parts, such as words and marks, between two words of a link over which the link may extend."""


@dataclass
class Word:
    """Word in a translation, and the markup to write around it.

    Attributes:
        start: Start position in the translation.
        end: End position in the translation.
        text: Characters of the word.
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
        """The markup elements around the first character of the word, or around the content that replaces the word."""
        return self.parts[0][1] if self.parts else self.unit.stack if self.unit else ()

    @property
    def last_stack(self) -> Stack:
        """The markup elements around the last character of the word, or around the content that replaces the word."""
        return self.parts[-1][1] if self.parts else self.first_stack


@dataclass
class _Part:
    """Part of a translated segment.

    Attributes:
        content: Text, or copied content.
        stack: The markup elements around the part.
        is_text: Whether the content is text, which must be escaped.
        is_bridge: Whether a link may extend over the part: white space, a mark, or a word.
    """

    content: str
    stack: Stack
    is_text: bool = False
    is_bridge: bool = False


class Writer:
    """Writer for a translated segment. It opens and closes inline elements as needed."""

    def __init__(self, segment: Segment, words: Sequence[Word], target: str, view: View) -> None:
        """Create a writer for a translation (`target`). The first word is empty, and stands for its start."""
        self._segment, self._words, self._target, self._view = segment, words, target, view
        self._parts = [_Part("", ())]
        self._runs = set[int]()
        """The elements that contain text directly, in Word documents."""
        self._outer_run: Stack = ()
        """The run for text that leaves a link."""
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
                self._write_raw(mark.output, common(mark.stack, word.first_stack), is_bridge=True)
            if index == 1:
                self._write_start()
            if word.unit:
                self._write_raw(word.unit.output, word.unit.stack)
            for part, stack in word.parts:
                self._write_text(part, stack)
            self._write_marks(word.ends)
            following = self._words[index + 1].first_stack if index + 1 < len(self._words) else ()
            for unit in word.units:
                if unit.space_before and unit.output and not self._parts[-1].content[-1:].isspace():
                    self._write_space(unit)
                self._write_unit(unit, following)
            self._write_marks(word.marks)
            replaces_space = any(unit.is_space for unit in word.units)
            position = word.end + (replaces_space and self._target[word.end : word.end + 1] == " ")
        return self._finish(self._target[position:])

    def _write_start(self) -> None:
        """Write white space after the start marks of the first word. By default, write nothing."""

    def _write_gap(self, index: int, gap: str) -> None:
        """Write the text between two words, inside the elements that enclose both words."""
        around = common(self._words[index - 1].last_stack, self._words[index].first_stack)
        self._write_text(gap, common(around, self._parts[-1].stack))

    def _write_unit(self, unit: Unit, following: Stack) -> None:
        """Write copied content after a word. `following` are the elements around the next word."""
        # Do not end an element for a space. In Word documents, it may be in a run, or have a run of its own.
        if unit.is_space and not self._runs and self._segment.solid_elements.issuperset(unit.stack):
            unit = replace(unit, stack=common(self._parts[-1].stack, following))
        self._write_content(unit)

    def _write_space(self, unit: Unit) -> None:
        """Write the space before copied content."""
        self._write_text(" ", common(self._parts[-1].stack, unit.stack))

    def _finish(self, tail: str) -> str:
        """Write the text after the last word, close all elements, and return the whole text."""
        self._write_text(tail, self._words[-1].last_stack)
        self._write_raw(self._segment.end, ())
        has_space = any(unit.space_after and unit.output for unit in self._words[0].units)
        return self._segment.start * (not has_space) + self._join()

    def _write_content(self, unit: Unit) -> None:
        self._write_owed_space(unit.stack)
        self._write_raw(unit.output, unit.stack, is_bridge=unit.is_space)

    def _write_marks(self, marks: Sequence[Mark]) -> None:
        for mark in marks:
            self._write_raw(mark.output, common(mark.stack, self._parts[-1].stack), is_bridge=True)

    def _write_text(self, text: str, stack: Stack) -> None:
        """Write text inside the elements of `stack`."""
        if text:
            self._write_owed_space(stack)
            self._parts.append(_Part(text, stack, is_text=True, is_bridge=True))

    def _write_owed_space(self, stack: Stack) -> None:
        """Write the pending space between leading copied content and the text, inside their common elements."""
        if self._owes_space:
            self._owes_space = False
            self._write_text(" ", common(self._parts[-1].stack, stack))

    def _write_raw(self, content: str, stack: Stack, *, is_bridge: bool = False) -> None:
        """Write content unchanged inside the elements of `stack`. If `is_bridge`, a link may extend over it."""
        self._parts.append(_Part(content, stack, is_bridge=is_bridge))

    def _join(self) -> str:
        """Join the parts of the segment, and add the tags of the markup elements around them.

        The tags of a link are written only once, around the first group of its words.
        """
        self._keep_links_whole()
        output, ends, opened, current = list[str](), list[str](), set[int](), Stack()
        for (stack, is_text), group in groupby([*self._parts, _Part("", ())], attrgetter("stack", "is_text")):
            shared = len(common(current, stack))
            while len(ends) > shared:
                output.append(ends.pop())
            for index in stack[shared:]:
                (start, end), again = self._segment.elements[index], index in opened
                is_written = not (again and start.is_link)
                output.append((start.written_again if again else start.written) * is_written)
                ends.append((end.written_again if again else end.written) * is_written)
                opened.add(index)
            content = "".join(part.content for part in group)  # adjacent texts are escaped as one
            output.append(self._view.escape(content) if is_text else content)
            current = stack
        return "".join(output)

    def _keep_links_whole(self) -> None:
        """Keep each link only around its longest group of adjacent parts.

        Between two parts of a group, there may be white space, marks, and one word without an element of its own. They
        become part of the link. Parts in shorter groups are removed from the link. In Word documents, their text gets
        the run with the least formatting outside links, if there is one.
        """
        parts, link_stack, groups = self._parts, self._segment.link_stack, defaultdict[Stack, list[range]](list)
        for place, part in enumerate(parts):
            if link := link_stack(part.stack):
                last = groups[link].pop() if groups[link] else range(place, place)
                is_joined = place - last.stop <= _MAX_GAP and self._is_gap(parts[last.stop : place], link)
                groups[link] += [range(last.start, place + 1)] if is_joined else [last, range(place, place + 1)]
        for link, found in groups.items():
            longest = max(found, key=lambda group: sum(len(parts[i].content) * parts[i].is_text for i in group))
            for part in (parts[place] for group in found for place in group if group is not longest):
                if link_stack(part.stack) == link:
                    run = self._outer_run if part.is_text else ()
                    part.stack = link[:-1] + part.stack[len(link) : len(part.stack) - len(run)] + run
            for part in (parts[place] for place in longest):
                if link_stack(part.stack) != link:
                    part.stack = link + tuple(each for each in part.stack if each not in link)

    def _is_gap(self, parts: Sequence[_Part], link: Stack) -> bool:
        """Return whether a link may extend over these parts."""
        words = sum(each.is_text and not each.content.isspace() for each in parts)
        return words <= 1 and all(each.is_bridge and {*each.stack} - self._runs <= {*link} for each in parts)


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

        stacks = dict.fromkeys(segment.text_stacks)
        self._runs.update(stack[-1] for stack in stacks)
        outer = (stack[-1:] for stack in stacks if not segment.link_stack(stack))
        self._outer_run = min(outer, key=self._length, default=())

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
        """Return the total length of the start tags of the elements in `stack`."""
        return sum(len(self._segment.elements[index][0].written) for index in stack)

    def _write_space(self, unit: Unit) -> None:
        if self._parts[-1].is_text and unit.end > unit.start:
            self._parts[-1].content += " "  # the last text, which is in a run, continues

    def _finish(self, tail: str) -> str:
        self._write_text(tail + self._segment.end, self._preceding[-1])
        return self._join()


def common(*stacks: Stack) -> Stack:
    """Return the outer elements that all stacks share, which are their common prefix."""
    if min(stacks) == max(stacks):
        return stacks[0]
    return tuple(same[0] for same in takewhile(lambda each: len({*each}) == 1, zip(*stacks, strict=False)))
