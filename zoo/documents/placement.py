"""Placement of markup: put the markup of a segment around the words of its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise, takewhile
from operator import itemgetter

from zoo.documents.fragments import Fragment, Kind, View
from zoo.documents.segments import PLACEHOLDER, WORDS, Segment, Stack, Unit
from zoo.generation.alignment import AlignedToken

_MAX_WORD = 100
"""Maximum length of a word in which elements can start or end between characters. Elements surround longer words as a
whole, because the time grows with the square of the length."""
_Order = Sequence[tuple[int, int]]
"""Source position and index of each aligned word, in the order of the source."""


@dataclass
class _Word:
    """Word of a translation, and the markup to write around it.

    Attributes:
        start: Start position in the translation.
        end: End position in the translation.
        text: The word.
        source: Position in the segment's text that the word is aligned to, or None if the word is not aligned.
        parts: Substrings of the word, each with the markup elements around it. Empty until the elements are known.
        unit: Copied content, such as an image, that replaces the word.
        before: Start marks of ranges, such as bookmarks, to write before the word.
        ends: End marks of ranges to write after the word.
        after: Other copied content to write after the word.
    """

    start: int
    end: int
    text: str
    source: int | None = None
    parts: list[tuple[str, Stack]] = field(default_factory=list)
    unit: Unit | None = None
    before: list[Unit] = field(default_factory=list)
    ends: list[Unit] = field(default_factory=list)
    after: list[Unit] = field(default_factory=list)


def place_markup(segment: Segment, target: str, tokens: Sequence[AlignedToken], view: View) -> str:
    """Return the translation of a segment with the markup of the segment.

    Args:
        segment: The segment.
        target: The translation of the segment's text.
        tokens: The translation's tokens, aligned to the source. Ignored if the segment has no markup.
        view: The part of the file that contains the segment. It determines how text is escaped.
    """
    if not segment.needs_alignment:
        return view.escape(segment.start + target + segment.end)
    words = _read_words(segment, target, tokens)
    units = _replace_words(segment, words)
    _set_parts(segment, words, view)
    order = sorted((word.source, index) for index, word in enumerate(words) if word.source is not None)
    units += _keep_elements(segment, words, order, view)
    head = _place_units(words, order, sorted(units, key=lambda unit: unit.start), target)
    head += _place_marks(segment, words, order)
    return _write(segment, words, head, target, view)


def _read_words(segment: Segment, target: str, tokens: Sequence[AlignedToken]) -> list[_Word]:
    """Split a translation into words. The token with the highest weight in a word determines its source position."""
    words = [_Word(*match.span(), match[0]) for match in WORDS.finditer(target)] or [_Word(0, len(target), target)]
    starts, ends = [word.start for word in words], [word.end for word in words]
    weights = [0.0] * len(words)
    for token in sorted(tokens):
        for index in range(bisect_right(ends, token.target[0]), bisect_left(starts, token.target[1])):
            if words[index].source is None or token.weight > weights[index]:
                start = token.source[0]
                words[index].source = start + (segment.text[start : start + 1] == " ")
                weights[index] = token.weight
    last = words[-1]
    if segment.text.endswith(last.text) and not last.text[-1:].isalnum():
        last.source = len(segment.text) - 1  # the full stop, which models often align to another word
    return words


def _replace_words(segment: Segment, words: list[_Word]) -> list[Unit]:
    """Replace the words that stand for copied content, such as an image, with this content.

    Return the content for which the translation has no word.
    """
    visible = [unit for unit in segment.units if unit.end > unit.start]
    starts = [unit.start for unit in visible]
    found: list[list[int]] = [[] for _ in visible]
    same: dict[str, list[int]] = {}
    """Words with the text of a unit, even if the alignment assigns them to another unit."""
    for index, word in enumerate(words):
        owner = -1 if word.source is None else bisect_right(starts, word.source) - 1
        is_owned = owner >= 0 and word.source is not None and word.source < visible[owner].end
        if is_owned:
            found[owner].append(index)
        if is_owned or word.source is None or not segment.text.startswith(word.text, word.source):
            same.setdefault(PLACEHOLDER if word.text.startswith(PLACEHOLDER) else word.text, []).append(index)
    texts = [segment.text[unit.start : unit.end] for unit in visible]
    chosen = [
        next((index for index in indices if words[index].text == text), None)
        for text, indices in zip(texts, found, strict=True)
    ]
    used = set(chosen)
    candidates = {text: iter(indices) for text, indices in same.items()}
    for number, text in enumerate(texts):
        if chosen[number] is None:
            chosen[number] = next((index for index in candidates.get(text, ()) if index not in used), None)
            used.add(chosen[number])
    rest = [unit for unit in segment.units if unit.end == unit.start]
    removed = set[int]()
    for unit, first, indices in zip(visible, chosen, found, strict=True):
        replaced = [index for index in indices if index not in used] if first is None else [first]
        if not replaced:
            rest.append(unit)
            continue
        first = last = replaced[0]
        for index in replaced[1:]:
            last += index == last + 1
        words[first].unit, words[first].end = unit, words[last].end
        removed.update(range(first + 1, last + 1))
    words[:] = [word for index, word in enumerate(words) if index not in removed]
    return rest


def _set_parts(segment: Segment, words: Sequence[_Word], view: View) -> None:
    """Set the markup elements around each word. A word without an alignment gets the elements of the preceding word."""
    covered = _covered(segment)
    spans = [match.span() for match in WORDS.finditer(segment.text)]
    starts = [start for start, _ in spans]
    for word in words:
        position = word.source
        if word.unit is None and position is not None and position < len(segment.text) and not covered[position]:
            index = bisect_right(starts, position) - 1
            span = spans[index] if index >= 0 and position < spans[index][1] else (position, position + 1)
            word.parts = _word_parts(segment, word.text, position, span, view)
    current = next((word.parts[0][1] for word in words if word.parts), _first_text_stack(segment))
    for word in words:
        if word.unit is None:
            word.parts = word.parts or [(word.text, current)]
            current = word.parts[-1][1]


def _covered(segment: Segment) -> bytearray:
    """Return a mask of the segment's text: 1 for characters that stand for copied content, 0 for all others."""
    covered = bytearray(len(segment.text) + 1)
    for unit in segment.units:
        covered[unit.start : unit.end] = b"\1" * (unit.end - unit.start)
    return covered


def _first_text_stack(segment: Segment) -> Stack:
    """Return the markup elements around the first character that is neither white space nor copied content."""
    characters = zip(segment.text, segment.stacks, _covered(segment), strict=False)
    return next(stack for character, stack, is_covered in characters if character != " " and not is_covered)


def _word_parts(
    segment: Segment, text: str, position: int, span: tuple[int, int], view: View
) -> list[tuple[str, Stack]]:
    """Split a translated word if the markup changes inside its source word, which is at `span`.

    Each part gets the markup elements around the same characters in the source word.
    """
    stacks = segment.stacks[slice(*span)] if span[1] - span[0] <= _MAX_WORD else [segment.stacks[position]]
    if all(stack == stacks[0] for stack in stacks):
        return [(text, stacks[0])]
    around = max(stacks, key=stacks.count) if view.needs_runs else _common(*stacks)  # common elements include no run
    source = segment.text[slice(*span)]
    parts, rest = list[tuple[str, Stack]](), text
    for stack, run in groupby(zip(source, stacks, strict=True), itemgetter(1)):
        match = re.search(re.escape("".join(character for character, _ in run)), rest, re.IGNORECASE)
        if match and stack != around:
            parts += [(rest[: match.start()], around)] * (match.start() > 0) + [(match[0], stack)]
            rest = rest[match.end() :]
    return parts + [(rest, around)] * bool(rest)


def _keep_elements(segment: Segment, words: Sequence[_Word], order: _Order, view: View) -> list[Unit]:
    """Put each markup element that has lost its words around the nearest word with the same outer elements.

    If there is no such word, return an empty element. In Word documents, only words from runs with the least formatting
    may move to a different run, so that formatted runs do not lose their words.
    """
    starts: dict[int, int] = {}
    previous = None
    for position, stack in enumerate(segment.stacks):
        for element in stack if stack is not previous else ():
            starts.setdefault(element, position)
        previous = stack
    used = {element for word in words for _, stack in word.parts for element in stack}
    solid = _solid_elements(segment)
    used.update(each for unit in segment.units for each in unit.stack if not unit.is_space or each not in solid)
    inner = {stack[-1] for stack in segment.stacks if stack and view.needs_runs}
    runs = {run: len(segment.elements[run][0].written) for run in inner}
    shortest = min(runs.values(), default=0)
    plain = {run for run, length in runs.items() if length == shortest}
    by_stack: dict[Stack, list[tuple[int, int]]] = {}
    """Source and index of each word, in order, keyed by the elements around the word, without a plain run."""
    for source, index in order:
        if len(words[index].parts) == 1:
            stack = words[index].parts[0][1]
            by_stack.setdefault(stack[:-1] if plain.issuperset(stack[-1:]) else stack, []).append((source, index))
    empty = []
    for element in sorted(starts.keys() - used):
        start = starts[element]
        stack = segment.stacks[start]
        outer = stack[: stack.index(element)]
        is_free = element not in used and element not in plain
        if is_free and (found := _pop_nearest(by_stack.get(outer, []), start)):
            stack = stack if runs else (*outer, element)
            words[found[1]].parts = [(words[found[1]].parts[0][0], stack)]
            insort(by_stack.setdefault(stack, []), found)
            used.update(stack)
        elif element not in used:
            empty.append(Unit(start, start, (*outer, element), ""))
    return empty


def _solid_elements(segment: Segment) -> set[int]:
    """Return the indices of the markup elements that contain more than white space."""
    stacks = (stack for character, stack in zip(segment.text, segment.stacks, strict=False) if character != " ")
    units = (unit.stack for unit in segment.units if not unit.is_space)
    return {element for stack in {*stacks, *units} for element in stack}


def _pop_nearest(words: list[tuple[int, int]], start: int) -> tuple[int, int] | None:
    """Remove and return the word whose source position is nearest to `start`. In a tie, take the first word."""
    following = bisect_left(words, (start, 0))
    nearest = words[following : following + 1]
    if following:  # the first of the words that start at the nearest position before `start`
        nearest.append(words[bisect_left(words, (words[following - 1][0], 0))])
    best = min(nearest, key=lambda pair: (abs(pair[0] - start), pair[1]), default=None)
    if best is not None:
        del words[bisect_left(words, best)]
    return best


def _place_units(words: Sequence[_Word], order: _Order, units: Sequence[Unit], target: str) -> list[Unit]:
    """Put copied content after the translation of the word that precedes it. Return content before the first word."""
    starts = [source for source, _ in order]
    gaps = enumerate(target[one.end : other.start] for one, other in pairwise(words))
    spaces = [index for index, gap in gaps if " " in gap]
    good = [index for index in spaces if target[words[index + 1].start].isalnum()] or spaces or [len(words) - 1]
    head: list[Unit] = []
    for unit in units:
        preceding = bisect_left(starts, unit.start)
        place = order[preceding - 1][1] if preceding else -1
        if unit.is_space:
            place = _nearest(good, place)
        after = words[place].after if place >= 0 else head
        after.append(unit)
    return head


def _nearest(values: Sequence[int], value: int) -> int:
    """Return the element of the sorted `values` that is nearest to `value`. In a tie, return the higher element."""
    index = bisect_left(values, value)
    return min(values[max(index - 1, 0) : index + 1], key=lambda each: (abs(each - value), -each))


def _place_marks(segment: Segment, words: Sequence[_Word], order: _Order) -> list[Unit]:
    """Put the marks of each range, such as a bookmark, before its first word and after its last word.

    Return the marks that precede all words.
    """
    if not segment.marks:
        return []
    starts, indices = list(map(itemgetter(0), order)), list(map(itemgetter(1), order))
    lowest, highest = _Extremes(indices), _Extremes([-index for index in indices])
    head: list[Unit] = []
    bounds = {
        at: match.span() for match in WORDS.finditer(segment.text) for at in range(match.start() + 1, match.end())
    }
    """The word around each position inside a word, because a range contains whole words."""
    for mark in segment.marks:
        start, end = mark.start, mark.end
        if start < end:
            start, end = bounds.get(start, (start, 0))[0], bounds.get(end, (0, end))[1]
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        if first < last and mark.kind is Kind.START:
            words[lowest.find(first, last)].before.append(mark)
        elif first < last:
            words[-highest.find(first, last)].ends.append(mark)
        elif first:
            words[indices[first - 1]].after.append(mark)
        else:
            head.append(mark)
    return head


class _Extremes:
    """Sparse table, which finds the minimum of any slice of a list in constant time."""

    def __init__(self, values: Sequence[int]) -> None:
        self._levels = [list(values)]
        width = 1
        while 2 * width <= len(values):
            level = self._levels[-1]
            self._levels.append([min(pair) for pair in zip(level, level[width:], strict=False)])
            width *= 2

    def find(self, start: int, end: int) -> int:
        """Return the minimum of the list elements from index `start` to `end` - 1."""
        level = (end - start).bit_length() - 1
        values = self._levels[level]
        return min(values[start], values[end - (1 << level)])


def _write(segment: Segment, words: Sequence[_Word], head: Sequence[Unit], target: str, view: View) -> str:
    writer = _Writer(segment.elements, view)
    following = _first_stacks(segment, words)  # for each word, the elements around it or the next word with text
    solid = _solid_elements(segment)
    stacks = [word.parts[0][1] if word.parts else word.unit.stack if word.unit else () for word in words] + [()]
    for each in head:
        writer.unit(each, at_start=True)
    position = 0
    previous = following[0]
    for index, (word, stack) in enumerate(zip(words, stacks, strict=False)):
        if view.needs_runs:
            is_after_unit = index > 0 and words[index - 1].unit is not None
            plainer = min(previous, following[index], key=writer.length)  # a space in bold or in a link is visible
            writer.text(target[position : word.start], following[index] if is_after_unit else plainer)
        else:
            gap = _common(previous, stack) if index else stack
            writer.text(target[position : word.start], _common(gap, writer.stack))
        for mark in word.before:
            writer.move_to(_common(mark.stack, stack))
            writer.raw(mark.output)
        if view.needs_runs and index == 0:
            needs_space = any(each.space_after and each.end > each.start for each in head)
            writer.text(segment.start or " " * needs_space, following[0])
        if word.unit:
            writer.move_to(word.unit.stack)
            writer.raw(word.unit.output)
        for text, around in word.parts:
            writer.text(text, around)
        if word.parts or not view.needs_runs:
            previous = word.parts[-1][1] if word.parts else stack
        for each in (*word.ends, *word.after):
            if each.is_space and not view.needs_runs and solid.issuperset(each.stack):  # do not end an element for it
                each = replace(each, stack=_common(writer.stack, stacks[index + 1]))
            writer.unit(each)
        replaces_space = any(each.is_space for each in word.after)
        position = word.end + (replaces_space and target[word.end : word.end + 1] == " ")
    tail = target[position:]
    if view.needs_runs:
        writer.text(tail + segment.end, previous)
        return writer.finish()
    writer.text(tail, previous)
    has_space = any(each.space_after and each.output for each in head)
    return segment.start * (not has_space) + writer.finish() + segment.end


def _first_stacks(segment: Segment, words: Sequence[_Word]) -> list[Stack]:
    last = next((word.parts[0][1] for word in reversed(words) if word.parts), None)
    stacks, stack = list[Stack](), _first_text_stack(segment) if last is None else last
    for word in reversed(words):
        stack = word.parts[0][1] if word.parts else stack
        stacks.append(stack)
    return stacks[::-1]


class _Writer:
    """Writer for a translated segment. It opens and closes inline elements as needed."""

    def __init__(self, elements: Sequence[tuple[Fragment, Fragment]], view: View) -> None:
        self._elements, self._view = elements, view
        self._output: list[str] = []
        self._text = ""
        """Text that has not been written yet, so that adjacent texts are escaped as one."""
        self.stack: Stack = ()
        self._ends: list[str] = []
        """End tags of the open elements."""
        self._opened = set[int]()
        self._gap = False
        """Whether a space has to be written before the following text."""

    def finish(self) -> str:
        """Close all elements, and return the written text."""
        self.move_to(())
        self._flush()
        return "".join(self._output)

    def length(self, stack: Stack) -> int:
        """Return the total length of the start tags in `stack`."""
        return sum(len(self._elements[index][0].written) for index in stack)

    def move_to(self, stack: Stack) -> None:
        """Close and open elements until exactly the elements of `stack` are open."""
        if stack == self.stack:
            return
        self._flush()
        common = len(_common(self.stack, stack))
        while len(self._ends) > common:
            self._output.append(self._ends.pop())
        for index in stack[common:]:
            (start, end), again = self._elements[index], index in self._opened
            self._output.append(start.written_again if again else start.written)
            self._ends.append(end.written_again if again else end.written)
            self._opened.add(index)
        self.stack = stack

    def text(self, text: str, stack: Stack) -> None:
        """Write text inside the elements of `stack`."""
        if text:
            self._write_gap(stack)
            self.move_to(stack)
            self._text += text

    def raw(self, content: str) -> None:
        """Write content unchanged."""
        self._flush()
        self._output.append(content)

    def unit(self, content: Unit, *, at_start: bool = False) -> None:
        """Write copied content, preceded by a space if the source has one there.

        At the start of the text, write the space that follows the content in the source instead.
        """
        if content.kind is not Kind.UNIT:
            self.move_to(_common(content.stack, self.stack))
            return self.raw(content.output)
        if content.space_before and not at_start and content.output:
            self._space(content)
        self._write_gap(content.stack)
        self.move_to(content.stack)
        self.raw(content.output)
        self._gap = content.space_after and at_start and not self._view.needs_runs
        return None

    def _write_gap(self, stack: Stack) -> None:
        """Write the space between copied content and the text after it, inside the elements that enclose both."""
        if self._gap:
            self._gap = False
            self.text(" ", _common(self.stack, stack))

    def _space(self, unit: Unit) -> None:
        last = self._text or "".join(self._output[-2:])
        if last[-1:].isspace():
            return
        if not self._view.needs_runs:
            self.text(" ", _common(self.stack, unit.stack))
        elif self._text and unit.end > unit.start:  # the last text, which is in a run, continues
            self._text += " "

    def _flush(self) -> None:
        if self._text:
            self._output.append(self._view.escape(self._text))
            self._text = ""


def _common(*stacks: Stack) -> Stack:
    """Return the outer elements that all stacks share, which are their common prefix."""
    return tuple(same[0] for same in takewhile(lambda each: len({*each}) == 1, zip(*stacks, strict=False)))
