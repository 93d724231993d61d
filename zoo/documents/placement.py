"""Place markup: put the markup of a segment around the words in its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter

import numpy as np
from jaxtyping import Int64

from zoo.documents.fragments import View
from zoo.documents.segments import PLACEHOLDER, WORDS, Segment, Stack, Unit
from zoo.documents.writing import RunWriter, Word, Writer, common
from zoo.generation.alignment import AlignedToken

_MAX_WORD = 100
"""Maximum length of a word in which elements can start or end between characters. Elements surround longer words as a
whole, because the time grows with the square of the length."""


def place_markup(segment: Segment, target: str, tokens: Sequence[AlignedToken], view: View) -> str:
    """Return the translation of a segment, with the segment's markup around the corresponding words.

    Args:
        segment: Segment of the source document.
        target: Translation of the segment's text.
        tokens: The translation's tokens, aligned to the source. Ignored if the segment has no markup.
        view: The view of the file that contains the segment. It determines how text is escaped (see `View`).
    """
    if not segment.needs_alignment:
        return view.escape(segment.start + target + segment.end)
    words = _read_words(segment, target, tokens)
    units = _replace_words(segment, words)
    _set_parts(segment, words, view)
    order = _SourceOrder(words)
    units += _keep_elements(segment, words, order, view)
    _place_units(segment, words, order, sorted(units, key=lambda unit: unit.start), target)
    _place_marks(words, order, segment)
    return (RunWriter if view.needs_runs else Writer)(segment, words, target, view).write()


class _SourceOrder:
    """Words in a translation that are aligned to the source, sorted by source position.

    Attributes:
        pairs: Source position and index of each aligned word. The first pair stands for the start of the translation.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        aligned = ((word.source, index) for index, word in enumerate(words) if word.source is not None)
        self.pairs = [(-1, 0), *sorted(aligned)]

    def preceding(self, position: int) -> int:
        """Return the index of the last translated word that is aligned to a source word before `position`.

        If there is no such word, return 0, the index of the start of the translation.
        """
        return self.pairs[bisect_left(self.pairs, (position, 0)) - 1][1]

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the pairs whose source positions are in `[start, end)`."""
        return self.pairs[bisect_left(self.pairs, (start, 0)) : bisect_left(self.pairs, (end, 0))]

    def outermost(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the lowest and highest index of the words with source positions in `[start, end)`, if any."""
        first, last = bisect_left(self.pairs, (start, 0)), bisect_left(self.pairs, (end, 0))
        if first >= last:
            return None
        level = (last - first).bit_length() - 1
        lowest, negated = self._extremes[level][:, [first, last - (1 << level)]].min(axis=1)
        return int(lowest), -int(negated)

    @cached_property
    def _extremes(self) -> list[Int64[np.ndarray, "2 slices"]]:
        """Sparse table: the lowest index, and the lowest negated index, of each slice of 1, 2, 4, 8 ... pairs."""
        indices = np.array([index for _, index in self.pairs])
        levels = [np.stack([indices, -indices])]
        while (width := 1 << (len(levels) - 1)) < levels[-1].shape[1]:
            levels.append(np.minimum(levels[-1][:, :-width], levels[-1][:, width:]))
        return levels


def _read_words(segment: Segment, target: str, tokens: Sequence[AlignedToken]) -> list[Word]:
    """Split a translation into words. The first word is empty, and represents the start of the translation.

    The source position of a word is that of its token with the highest alignment weight.
    """
    words = [Word(*match.span(), match[0]) for match in WORDS.finditer(target)] or [Word(0, len(target), target)]
    words.insert(0, Word(0, 0, ""))
    starts, ends = [word.start for word in words], [word.end for word in words]
    for token in sorted(sorted(tokens, reverse=True), key=attrgetter("weight")):  # in a tie, the first token is chosen
        start = token.source[0]
        for index in range(bisect_right(ends, token.target[0]), bisect_left(starts, token.target[1])):
            words[index].source = start + (segment.text[start : start + 1] == " ")
    last = words[-1]
    if segment.text.endswith(last.text) and not last.text[-1:].isalnum():
        last.source = len(segment.text) - 1  # the full stop, which models often align to another word
    return words


def _replace_words(segment: Segment, words: list[Word]) -> list[Unit]:
    """Replace the words that stand for copied content, such as an image, with the content itself.

    Return the content that has no word in the translation.
    """
    visible = [unit for unit in segment.units if unit.end > unit.start]
    rest = [unit for unit in segment.units if unit.end == unit.start]
    if not visible:
        return rest
    order = _SourceOrder(words)
    aligned = [sorted([index for _, index in order.between(unit.start, unit.end)]) for unit in visible]
    texts = [segment.text[unit.start : unit.end] for unit in visible]
    chosen = _choose_words(segment.text, texts, aligned, words)
    used, removed = set(chosen), set[int]()
    for unit, first, indices in zip(visible, chosen, aligned, strict=True):
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


def _choose_words(source: str, texts: list[str], aligned: list[list[int]], words: list[Word]) -> list[int | None]:
    """Choose a word in the translation to replace with each unit, and return the indices of these words.

    The word has the same text as the unit, which is given in `texts`. If there is no such word, the index is None. If
    possible, the word is aligned to the unit. A word that corresponds to the same word in ordinary source text is
    never chosen.
    """
    named = [[each for each in found if words[each].text == text] for text, found in zip(texts, aligned, strict=True)]
    chosen = [found[0] if found else None for found in named]
    owned = {index for indices in aligned for index in indices}
    same: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        is_ordinary = word.source is not None and source.startswith(word.text, word.source)
        if index in owned or not is_ordinary:
            same.setdefault(PLACEHOLDER if word.text.startswith(PLACEHOLDER) else word.text, []).append(index)
    used = set(chosen)
    candidates = {text: iter(indices) for text, indices in same.items()}
    for number, text in enumerate(texts):
        if chosen[number] is None:
            chosen[number] = next((index for index in candidates.get(text, ()) if index not in used), None)
            used.add(chosen[number])
    return chosen


def _set_parts(segment: Segment, words: Sequence[Word], view: View) -> None:
    """Set the markup elements around each word. A word without an alignment gets the elements of the preceding word."""
    spans = [match.span() for match in WORDS.finditer(segment.text)]
    starts = [start for start, _ in spans]
    for word in words:
        position = word.source
        if word.unit is None and position is not None and not segment.is_copied[position]:
            index = bisect_right(starts, position) - 1
            span = spans[index] if index >= 0 and position < spans[index][1] else (position, position + 1)
            word.parts = _word_parts(segment, word.text, position, slice(*span), view)
    current = next((word.parts[0][1] for word in words if word.parts), segment.text_stacks[0])
    for word in words[1:]:
        if word.unit is None:
            word.parts = word.parts or [(word.text, current)]
            current = word.parts[-1][1]


def _word_parts(segment: Segment, text: str, position: int, span: slice, view: View) -> list[tuple[str, Stack]]:
    """Split a translated word if the markup changes inside its source word, which is at `span`.

    Each part gets the markup elements around the same characters in the source word.
    """
    stacks = segment.stacks[span] if span.stop - span.start <= _MAX_WORD else [segment.stacks[position]]
    if all(stack == stacks[0] for stack in stacks):
        return [(text, stacks[0])]
    around = max(stacks, key=stacks.count) if view.needs_runs else common(*stacks)  # common elements include no run
    parts, rest = list[tuple[str, Stack]](), text
    for stack, run in groupby(zip(segment.text[span], stacks, strict=True), itemgetter(1)):
        match = re.search(re.escape("".join(character for character, _ in run)), rest, re.IGNORECASE)
        if match and stack != around:
            parts += [(rest[: match.start()], around)] * (match.start() > 0) + [(match[0], stack)]
            rest = rest[match.end() :]
    return parts + [(rest, around)] * bool(rest)


def _keep_elements(segment: Segment, words: Sequence[Word], order: _SourceOrder, view: View) -> list[Unit]:
    """Put each markup element that contains no translated word around the nearest word with the same outer elements.

    If there is no such word, return an empty element. In Word documents, only words from runs with the least formatting
    may move to a different run. Thus, formatted runs do not lose their words.
    """
    starts: dict[int, int] = {}
    # White space may be in no run, such as a line break with a run of its own.
    visible = (index for index, character in enumerate(segment.text) if character != " ")
    for stack, positions in groupby(visible, segment.stacks.__getitem__):
        start = next(positions)
        starts.update((element, start) for element in stack if element not in starts)
    solid = segment.solid_elements
    used = {element for word in words for _, stack in word.parts for element in stack}
    used.update(each for unit in segment.units for each in unit.stack if not unit.is_space or each not in solid)
    runs = {stack[-1]: segment.elements[stack[-1]][0].written for stack in segment.stacks if stack and view.needs_runs}
    shortest = min(map(len, runs.values()), default=0)
    plain = {run for run, start_tag in runs.items() if len(start_tag) == shortest}
    free, empty = _FreeWords(words, order, plain), list[Unit]()
    for element in sorted(starts.keys() - used):
        if element in used:  # it surrounds the new word of an outer element
            continue
        start = starts[element]
        stack = segment.stacks[start]
        around = stack[: stack.index(element) + 1]
        stack = stack if view.needs_runs else around
        if element not in plain and free.surround_nearest(around[:-1], start, stack):
            used.update(stack)
        else:
            empty.append(Unit(start, start, around, ""))
    return empty


class _FreeWords:
    """Words around which more markup elements can be put, grouped by the current elements around each word."""

    def __init__(self, words: Sequence[Word], order: _SourceOrder, plain: set[int]) -> None:
        """Group the words. The runs in `plain` do not count as elements around a word."""
        self._words = words
        self._groups: dict[Stack, list[tuple[int, int]]] = {}
        for source, index in order.pairs:
            if len(words[index].parts) == 1:
                stack = words[index].first_stack
                is_plain = plain.issuperset(stack[-1:])
                self._groups.setdefault(stack[:-1] if is_plain else stack, []).append((source, index))

    def surround_nearest(self, outer: Stack, start: int, stack: Stack) -> bool:
        """Put the elements of `stack` around a free word whose current elements are `outer`.

        Choose the word whose source position is nearest to `start` or, in a tie, the first word. Return whether there
        is such a word.
        """
        group = self._groups.get(outer, [])
        following = bisect_left(group, (start, 0))
        nearest = group[following : following + 1]
        if following:  # the first of the words that start at the nearest position before `start`
            nearest.append(group[bisect_left(group, (group[following - 1][0], 0))])
        if not nearest:
            return False
        best = min(nearest, key=lambda pair: (abs(pair[0] - start), pair[1]))
        del group[bisect_left(group, best)]
        insort(self._groups.setdefault(stack, []), best)
        word = self._words[best[1]]
        word.parts = [(word.text, stack)]
        return True


def _place_units(segment: Segment, words: Sequence[Word], order: _SourceOrder, units: list[Unit], target: str) -> None:
    """Put copied content after the translation of the source word that precedes the content.

    Content outside a link is put after the link instead of between two words of the link.
    """
    gaps = enumerate(target[one.end : other.start] for one, other in pairwise(words))
    spaces = [index for index, gap in gaps if " " in gap]
    good = [index for index in spaces if target[words[index + 1].start].isalnum()] or spaces or [len(words) - 1]
    ends = list(range(len(words)))  # the last word of the link that each word is in
    for index in reversed(ends[:-1]):
        link = segment.link_stack(words[index].last_stack)
        if link and link == segment.link_stack(words[index + 1].first_stack):
            ends[index] = ends[index + 1]
    for unit in units:
        place = order.preceding(unit.start)
        if unit.is_space:  # it replaces the nearest space or, in a tie, the later one
            index = bisect_left(good, place)
            place = min(good[max(index - 1, 0) : index + 1], key=lambda each: (abs(each - place), -each))
        elif segment.link_stack(words[place].last_stack) != segment.link_stack(unit.stack):
            place = ends[place]
        words[place].units.append(unit)


def _place_marks(words: Sequence[Word], order: _SourceOrder, segment: Segment) -> None:
    """Put the marks of each range, such as a bookmark, before its first word and after its last word."""
    text = segment.text if segment.marks else ""
    spans = (match.span() for match in WORDS.finditer(text))
    bounds = {position: span for span in spans for position in range(span[0] + 1, span[1])}
    """The word around each position inside a word, because a range contains whole words."""
    for mark in segment.marks:
        start, end = mark.start, mark.end
        if start < end:
            start, end = bounds.get(start, (start, 0))[0], bounds.get(end, (0, end))[1]
        found = order.outermost(start, end)
        if found is None:
            words[order.preceding(start)].marks.append(mark)
        elif mark.is_start:
            words[found[0]].starts.append(mark)
        else:
            words[found[1]].ends.append(mark)
