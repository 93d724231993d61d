"""Text with markup: split it into segments, and put the markup of each segment around the words of its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind, Syntax
from zoo.generation.alignment import AlignedToken
from zoo.text.sentences import MAX_TEXT_LENGTH

MAX_DEPTH = 100
"""Maximum number of inline elements around a character."""
_WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_Stack = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Inline content without text. It follows the translation of the word that ends at or before `position`."""

    position: int
    stack: _Stack
    output: str
    space_before: bool = False
    space_after: bool = False
    is_space: bool = False
    """Whether it stands for a space, as a line break does."""


@dataclass
class Segment:
    """Text between two boundaries, which is translated as a whole.

    Attributes:
        fragments: The fragments, without boundaries.
        text: The text without markup. Each run of white space is one space.
        stacks: For each character of `text`, the indices of the inline elements around it, outermost first.
        tags: Start and end tag of each inline element.
        units: Inline content that is copied.
    """

    fragments: list[Fragment]
    text: str = ""
    stacks: list[_Stack] = field(default_factory=list)
    tags: list[tuple[str, str]] = field(default_factory=list)
    units: list[_Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        characters: list[str] = []
        stacks: list[_Stack] = []
        units: list[tuple[int, _Stack, str, bool]] = []
        stack: _Stack = ()
        used: set[int] = set()
        for fragment in self.fragments:
            if fragment.kind is Kind.OPEN:
                stack = (*stack, len(self.tags))
                self.tags.append((fragment.written, ""))
            elif fragment.kind is Kind.CLOSE:
                if (closed := stack[-1]) not in used:  # an element without words, such as an anchor
                    units.append((len(characters), stack, "", False))
                stack = stack[:-1]
                self.tags[closed] = (self.tags[closed][0], fragment.written)
            else:
                if fragment.kind is Kind.UNIT and (fragment.written or fragment.text):
                    units.append((len(characters), stack, fragment.written, bool(fragment.text)))
                characters += fragment.text
                stacks += [stack] * len(fragment.text)  # one tuple for all characters, to save memory
                if fragment.kind is Kind.UNIT or fragment.text.strip():
                    used.update(stack)
            if len(stack) > MAX_DEPTH or len(characters) > MAX_TEXT_LENGTH:
                limits = f"{MAX_TEXT_LENGTH:,} characters, or than {MAX_DEPTH} inline elements inside of each other"
                raise ZooError(f"a paragraph has more than {limits}", hint="split it, or remove some of its markup")
        self._normalise(characters, stacks, units)

    def _normalise(
        self, characters: list[str], stacks: list[_Stack], units: list[tuple[int, _Stack, str, bool]]
    ) -> None:
        """Set the text with single spaces, and convert the positions of the units."""
        positions, kept = [], list[str]()
        for character, stack in zip(characters, stacks, strict=True):
            positions.append(len(kept))
            if not character.isspace():
                kept.append(character)
                self.stacks.append(stack)
            elif kept and kept[-1] != " ":
                kept.append(" ")
                self.stacks.append(stack)
        positions.append(len(kept))
        self.text = "".join(kept).rstrip()
        for position, stack, output, is_space in units:
            before = not is_space and position > 0 and characters[position - 1].isspace()
            after = not is_space and position < len(characters) and characters[position].isspace()
            self.units.append(_Unit(positions[position], stack, output, before, after, is_space))

    @property
    def raw(self) -> str:
        """The segment as the document spells it."""
        return "".join(fragment.raw for fragment in self.fragments)

    @property
    def needs_alignment(self) -> bool:
        """Whether the segment has markup."""
        return bool(self.tags or self.units)

    def render(self, target: str, tokens: Sequence[AlignedToken], syntax: Syntax) -> str:
        """Return the translated segment with its markup.

        A translation that equals the text gives the segment as the document spells it.

        Args:
            target: The translation of `text`.
            tokens: Alignment of its tokens. Ignored if `needs_alignment` is False.
            syntax: How the format writes text.
        """
        if target == self.text:
            return self.raw
        whole = "".join(fragment.text for fragment in self.fragments)
        start, end = whole[: len(whole) - len(whole.lstrip())], whole[len(whole.rstrip()) :]
        if not self.needs_alignment:
            return start + syntax.escape(target) + end
        words = [match.span() for match in _WORDS.finditer(target)] or [(0, len(target))]
        sources = _word_sources(words, tokens)
        stacks = _inherit([None if source is None else self._stack_of(source) for source in sources])
        writer = _Writer(self.tags, syntax)
        units = self._units_by_word([*self.units, *self._keep_elements(stacks, sources)], sources)
        if syntax.needs_runs:
            writer.text(start, stacks[0])
        else:
            writer.output.append(start)
        for unit in units[0]:
            writer.unit(unit, space_after=unit.space_after)
        position = 0
        for index, (first, last) in enumerate(words):
            previous = stacks[max(index - 1, 0)]
            gap = previous if syntax.needs_runs else _common(previous, stacks[index])
            writer.text(target[position:first], gap)
            writer.text(target[first:last], stacks[index])
            for unit in units[index + 1]:
                writer.unit(unit, space_before=unit.space_before)
            replaces_space = any(unit.is_space for unit in units[index + 1]) and target[last : last + 1] == " "
            position = last + replaces_space
        tail = target[position:] + (end if syntax.needs_runs else "")
        writer.text(tail, stacks[-1])
        writer.move_to(())
        return "".join(writer.output) + ("" if syntax.needs_runs else end)

    def _stack_of(self, source: tuple[int, int]) -> _Stack:
        """Return the elements around the first character of a source token that is not a space."""
        first = next((index for index in range(*source) if not self.text[index].isspace()), source[0])
        return self.stacks[first] if first < len(self.stacks) else ()

    def _keep_elements(self, stacks: list[_Stack], sources: Sequence[tuple[int, int] | None]) -> Iterator[_Unit]:
        """Give each element without a target word the word nearest to it. If there is none, yield an empty element."""
        starts: dict[int, int] = {}
        previous = None
        for position, stack in enumerate(self.stacks):
            for element in stack if stack is not previous else ():
                starts.setdefault(element, position)
            previous = stack
        used = {element for stack in stacks for element in stack}
        words: dict[_Stack, list[tuple[int, int]]] = {}
        """Start of the source and number of each word, in order, by the elements around the word."""
        for start, word in sorted((source[0], word) for word, source in enumerate(sources) if source is not None):
            words.setdefault(stacks[word], []).append((start, word))
        for element in sorted(starts.keys() - used):
            start = starts[element]
            stack = self.stacks[start][: self.stacks[start].index(element) + 1]
            if found := _pop_nearest(words.get(stack[:-1], []), start):
                stacks[found[1]] = stack
                insort(words.setdefault(stack, []), found)
            else:
                yield _Unit(start, stack, "")

    def _units_by_word(self, found: Sequence[_Unit], sources: Sequence[tuple[int, int] | None]) -> list[list[_Unit]]:
        """Return the units that follow each target word. The first list precedes all words."""
        units: list[list[_Unit]] = [[] for _ in range(len(sources) + 1)]
        aligned = sorted((source[0], index) for index, source in enumerate(sources, start=1) if source is not None)
        starts = [start + (self.text[start : start + 1] == " ") for start, _ in aligned]
        for unit in found:
            preceding = bisect_left(starts, unit.position)
            place = aligned[preceding - 1][1] if preceding else 0
            if unit.is_space and place == len(sources) > 1:
                place -= 1  # a line break or tab between two words, rather than after the last one
            units[place].append(unit)
        return units


def _pop_nearest(words: list[tuple[int, int]], start: int) -> tuple[int, int] | None:
    """Remove and return the word whose source starts nearest to a position, the first one of several."""
    following = bisect_left(words, (start, 0))
    nearest = words[following : following + 1]
    if following:  # the first of the words that start at the nearest position before `start`
        nearest.append(words[bisect_left(words, (words[following - 1][0], 0))])
    best = min(nearest, key=lambda pair: (abs(pair[0] - start), pair[1]), default=None)
    if best is not None:
        del words[bisect_left(words, best)]
    return best


class _Writer:
    """Writes text inside of inline elements, and opens and closes them as needed."""

    def __init__(self, tags: Sequence[tuple[str, str]], syntax: Syntax) -> None:
        self.output: list[str] = []
        self._tags, self._syntax, self._stack = tags, syntax, ()

    _stack: _Stack

    def move_to(self, stack: _Stack) -> None:
        """Close and open elements until exactly those of `stack` are open."""
        common = len(_common(self._stack, stack))
        self.output += [self._tags[element][1] for element in reversed(self._stack[common:])]
        self.output += [self._tags[element][0] for element in stack[common:]]
        self._stack = stack

    def text(self, text: str, stack: _Stack) -> None:
        """Write a text inside of the elements."""
        if text:
            self.move_to(stack)
            self.output.append(self._syntax.escape(text))

    def unit(self, unit: _Unit, *, space_before: bool = False, space_after: bool = False) -> None:
        """Write content that is copied. Add the space before or after it that the source has."""
        if space_before and unit.output:
            self._space(unit)
        self.move_to(unit.stack)
        self.output.append(unit.output)
        if space_after and unit.output:
            self._space(unit)

    def _space(self, unit: _Unit) -> None:
        if not self._syntax.needs_runs and not "".join(self.output[-2:])[-1:].isspace():
            self.move_to(_common(self._stack, unit.stack))
            self.output.append(" ")


def _common(one: _Stack, other: _Stack) -> _Stack:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _word_sources(words: Sequence[tuple[int, int]], tokens: Sequence[AlignedToken]) -> list[tuple[int, int] | None]:
    """Return the source span of the token with the highest weight in each word. None for a word without tokens."""
    best: list[AlignedToken | None] = [None] * len(words)
    index = 0
    for token in sorted(tokens):
        while index < len(words) and words[index][1] <= token.target[0]:
            index += 1
        for overlapping in range(index, len(words)):
            if words[overlapping][0] >= token.target[1]:
                break
            known = best[overlapping]
            if known is None or token.weight > known.weight:
                best[overlapping] = token
    return [None if token is None else token.source for token in best]


def _inherit(stacks: Sequence[_Stack | None]) -> list[_Stack]:
    """Give each word without an alignment the elements of the word before it, or of the first aligned word."""
    current = next((stack for stack in stacks if stack is not None), ())
    result = []
    for stack in stacks:
        current = current if stack is None else stack
        result.append(current)
    return result


def balance(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments with every inline tag as a boundary that has no partner within its segment."""
    stack, matched = list[int](), set[int]()
    for index, fragment in enumerate(fragments):
        if fragment.kind is Kind.OPEN:
            stack.append(index)
        elif fragment.kind is Kind.CLOSE and stack and fragments[stack[-1]].name == fragment.name:
            matched |= {stack.pop(), index}
        elif fragment.kind in (Kind.CLOSE, Kind.BREAK):
            stack.clear()
    tags = (Kind.OPEN, Kind.CLOSE)
    return [
        replace(fragment, kind=Kind.BREAK) if fragment.kind in tags and index not in matched else fragment
        for index, fragment in enumerate(fragments)
    ]


def split_segments(fragments: Sequence[Fragment], syntax: Syntax) -> Iterator[Fragment | Segment]:
    """Yield the segments that have a word, and the other fragments, in order."""
    run: list[Fragment] = []
    for fragment in [*balance(fragments), Fragment(Kind.BREAK, "")]:
        if fragment.kind not in (Kind.BREAK, Kind.LANGUAGE):
            run.append(fragment)
            continue
        before, middle, after = _trim(run)
        yield from before
        if any(character.isalpha() for each in middle if each.kind is Kind.TEXT for character in each.text):
            yield Segment(middle)
        else:
            yield from middle
        yield from after
        yield fragment
        run = []


def _trim(run: list[Fragment]) -> tuple[list[Fragment], list[Fragment], list[Fragment]]:
    """Split copied content and white space off both ends of a segment, so that they keep their place."""
    first, last = 0, len(run)
    while first < last and (run[first].kind is Kind.UNIT or _is_blank(run[first])):
        first += 1
    while last > first and (run[last - 1].kind is Kind.UNIT or _is_blank(run[last - 1])):
        last -= 1
    return run[:first], run[first:last], run[last:]


def _is_blank(fragment: Fragment) -> bool:
    return fragment.kind is Kind.TEXT and not fragment.text.strip()
