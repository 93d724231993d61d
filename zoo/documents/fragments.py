"""Fragments of documents, and their division at line breaks and at item separators such as check boxes.

Every document is read as a list of fragments, and written from such a list.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise
from xml.sax.saxutils import escape

from specs import ZooError

MAX_DEPTH = 100
"""Maximum number of inline elements around a character."""
SENTENCE_END = re.compile(r"[.!?…:;][\"'’”»)\]]*\s*$")
_MAX_MARK, _MAX_COPIED = 100, 10_000_000
"""Maximum number of characters in marks at the end of a line, and maximum number of characters in the tags that are
repeated because of item separators. A separator counts as 20 characters."""
_CHARACTER = re.compile(r"&#?\w{1,31};|\\[!-/:-@\[-`{-~]|.", re.DOTALL)
"""Character as it is written in a document: an entity, a character after a backslash, or the character itself."""
_LONG_NUMBER = re.compile("&#[0-9]{1000,};?")
DIVIDERS = (
    r"(?P<icons>[\ue000-\uf8ff\U000f0000-\U0010ffff]++)|(?:\xa0 ?){3,}"
    r"|(?:(?<!\s)\s++)?+(?:(?P<box>[☐☑☒□■]|(?<!\S)\[[ xX]\](?!\S))"
    r"|(?<!\S)\|(?!\S)(?![^(){}\[\]]{0,60}[)}\]]|[^()]{0,60}\([^()]{0,60}\)\)))\s*+"
)
"""Pattern for text that is copied within a line: icons of special fonts, and item separators.

The separators are wide gaps, check boxes, and bars. Bars in brackets, as in formulas, are not separators. The items are
translated separately.
"""


class Kind(Enum):
    """Kind of fragment in a document."""

    TEXT = auto()
    """Text to translate."""
    OPEN = auto()
    """Start tag of an inline element."""
    CLOSE = auto()
    """End tag of an inline element."""
    START = auto()
    """Start mark of a range, such as a bookmark. Ranges may overlap elements and continue in other paragraphs."""
    END = auto()
    """End mark of a range."""
    UNIT = auto()
    """Inline content that is copied, such as an image or code."""
    LINE = auto()
    """Line break inside a paragraph. It divides the paragraph if no sentence continues after it.

    An item separator, such as a check box, is a line break without text, which always divides the paragraph.
    """
    BREAK = auto()
    """Boundary between two segments, such as a paragraph tag. It is copied."""
    LANGUAGE = auto()
    """Code of the document's language. It is replaced with the code of the target language, and is also a boundary."""


BOUNDARIES = Kind.BREAK, Kind.LANGUAGE
RANGE_MARKS = Kind.START, Kind.END


@dataclass(frozen=True, slots=True)
class Fragment:
    """Fragment of a document. The joined `raw` strings of all fragments are the document.

    Attributes:
        kind: Kind of the fragment.
        raw: The fragment as it is written in the document.
        text: The characters that the translator reads. For TEXT, the text with decoded entities. For a UNIT (copied
            inline content), readable content such as code, a space for white space such as a tab, and "" otherwise.
        key: Name of the element, for OPEN and CLOSE. Identifier of the range, for START and END. The two tags of an
            element, and the two marks of a range, have equal keys.
        output: The fragment as it is written in a translated segment. If None, it is written as in the document.
        again: The OPEN or CLOSE tag as it is written when its element is repeated, for instance without an `id`. An
            element is repeated if its words are not adjacent in the translation. If None, the tag does not change.
        raised: Whether the OPEN tag begins a superscript or subscript, such as `sup` and `sub` in HTML.
        is_link: Whether the OPEN tag begins a link. A link is never repeated around words that are not adjacent.
    """

    kind: Kind
    raw: str
    text: str = ""
    key: Hashable = None
    output: str | None = None
    again: str | None = None
    raised: bool = False
    is_link: bool = False

    @property
    def written(self) -> str:
        """The fragment as it is written in a translated segment."""
        return self.raw if self.output is None else self.output

    @property
    def written_again(self) -> str:
        """The tag as it is written when its element is repeated in a translated segment (see `again`)."""
        return self.written if self.again is None else self.again


def join_fragments(fragments: Sequence[Fragment], text: str = "", kind: Kind = Kind.UNIT) -> Fragment:
    """Join several fragments into one fragment with the given attributes (see `Fragment`)."""
    raw, output = "".join(each.raw for each in fragments), "".join(each.written for each in fragments)
    return Fragment(kind, raw, text, output=output)


@dataclass(frozen=True, slots=True)
class View:
    """Part of the text in a file, such as all paragraphs or all attributes, and rules for writing its translation.

    Attributes:
        parse: Function that splits the content of a file into fragments.
        escape: Function that escapes a string with the format's entities or escape sequences.
        needs_runs: Whether all text must be in an inline element, as in Word documents.
        wraps: Whether line breaks only wrap a sentence, as in subtitles. Otherwise, a line that begins with a capital
            letter or a digit is a separate segment, as in an address.
        marks: Pattern for symbols that are copied at the start of a line, such as bullets, or dashes in a dialogue.
        end_marks: Pattern for symbols that are copied at the end of a line, such as musical notes in subtitles.
        dividers: Pattern for text that is copied within a line (see `DIVIDERS`).
        splits_menus: Whether the links of a text that consists only of links are separate segments.
        finish: Function that completes a translated document, for formats whose escapes depend on the text around them.
    """

    parse: Callable[[str], list[Fragment]]
    escape: Callable[[str], str]
    needs_runs: bool = False
    wraps: bool = False
    marks: re.Pattern[str] = re.compile(
        r"(?:[-‐-―*+]++\s++|[•▪‣●○◦∙·☐☑☒□■✓✔→⇒➤\ue000-\uf8ff]++\s*+|>++\s++|>>++|[♪♫]++\s*+"
        r"|(?:\(?(?:[a-zA-Z]|[ivx]{2,5}|\d{1,3})\)|\[\d{1,3}\])\s++)++"
    )
    end_marks: re.Pattern[str] = re.compile(r"(?:\s*+[♪♫]++)++$")
    dividers: re.Pattern[str] = re.compile(DIVIDERS)
    splits_menus: bool = True
    finish: Callable[[str], str] = str


Format = tuple[View, ...]
"""Format of a text file: its views. Each view is translated in the result of the previous view."""


Archive = Callable[[Sequence[str], Callable[[str], str]], Mapping[str, Format]]
"""Format of a zip archive: a function that returns the format of each file with text.

It is called with the names of all files, and with a function that returns the content of a file. The files are XML in
any encoding that they declare.
"""


def add_boundaries(text: str, parts: Iterable[tuple[int, Fragment]]) -> list[Fragment]:
    """Return the fragments in `parts`, with the text between these fragments as boundaries (BREAK).

    Args:
        text: The whole text.
        parts: The start position of each fragment, and the fragment, in order.
    """
    fragments, end = list[Fragment](), 0
    for start, part in parts:
        fragments += [Fragment(Kind.BREAK, text[end:start])] * (start > end) + [part]
        end = start + len(part.raw)
    return [*fragments, Fragment(Kind.BREAK, text[end:])]


def pattern_view(pattern: re.Pattern[str]) -> View:
    """Return a view of the XML text that the group `text` of a pattern matches. Other groups match language codes."""

    def find(text: str) -> Iterator[tuple[int, Fragment]]:
        for match in pattern.finditer(text):
            if match.lastgroup == "text":
                if "<" not in (value := unescape(match["text"])):  # descriptions may have markup
                    yield match.start("text"), Fragment(Kind.TEXT, match["text"], value)
            elif match.lastgroup:
                yield match.start(match.lastgroup), Fragment(Kind.LANGUAGE, match[match.lastgroup])

    return View(lambda text: add_boundaries(text, find(text)), escape)


def unescape(text: str) -> str:
    """Replace the HTML entities in a text with the characters that they represent."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))  # Python cannot convert numbers with thousands of digits


def _join_lines(fragments: Sequence[Fragment], view: View) -> list[Fragment]:
    """Replace each line break with white space if the sentence continues after it."""
    lines = [index for index, fragment in enumerate(fragments) if fragment.kind in (Kind.LINE, *BOUNDARIES)]
    bounds = pairwise([-1, *lines, len(fragments)])
    texts = ["".join(each.text for each in fragments[start + 1 : end]) for start, end in bounds]
    joined = list(fragments)
    for index, (before, after) in zip(lines, pairwise(texts), strict=True):
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
    return not after[0].islower() and (is_new or SENTENCE_END.search(end) is not None)


def _split_items(fragments: Sequence[Fragment], view: View) -> Iterator[Fragment]:
    """Split text fragments at icons and at item separators, such as check boxes, which are copied. Yield all fragments.

    Icons become UNIT fragments, and item separators become LINE fragments.
    """
    for fragment in fragments:
        parts, text = list[tuple[int, Kind]](), fragment.text if fragment.kind is Kind.TEXT else ""
        found = list(view.dividers.finditer(text))
        for match in found:
            # A check box may be a word of a sentence, unless the text begins with a separator.
            before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
            is_word = after.islower() and before and (before.isalpha() or len(found) == 1) and found[0].start()
            if not (is_word and match["box"]):
                parts += (match.start(), Kind.TEXT), (match.end(), Kind.UNIT if match["icons"] else Kind.LINE)
        yield from _split_text(fragment, [*parts, (len(text), Kind.TEXT)], view) if parts else [fragment]


def match_tags(fragments: Sequence[Fragment]) -> dict[int, int]:
    """Match start and end tags between boundaries. Return indices of end tags, keyed by the indices of start tags."""
    ends, stack = dict[int, int](), list[int]()
    for index, fragment in enumerate(fragments):
        if fragment.kind is Kind.OPEN:
            stack.append(index)
        elif fragment.kind is Kind.CLOSE and stack and fragments[stack[-1]].key == fragment.key:
            ends[stack.pop()] = index
        elif fragment.kind in (Kind.CLOSE, *BOUNDARIES):
            stack.clear()
    return ends


class Divider:
    """Object that divides fragments into segments at line breaks, item separators and unmatched tags.

    Elements around a line break are closed before the line break and opened again after the line break. Elements around
    an item separator also enclose the separator.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._result: list[Fragment] = []
        self._open: list[tuple[Fragment, Fragment]] = []
        """The tags of the open elements, as they are written if the element is opened again."""
        self._copied = 0
        """Number of characters in the tags that are repeated (see `_MAX_COPIED`)."""

    def divide(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Replace line breaks, item separators and unmatched tags with segment boundaries. Return all fragments."""
        fragments = [*_split_items(_join_lines(fragments, self._view), self._view)]
        ends = match_tags(fragments)
        matched = set(ends.values())
        for index, fragment in enumerate(fragments):
            if index in ends:
                self._open.append((fragment, fragments[ends[index]]))
                self._result.append(fragment)
            elif index in matched:
                self._close()
            elif fragment.kind is Kind.LINE:
                self._divide_at(fragment)
            else:
                is_unmatched = fragment.kind in (Kind.OPEN, Kind.CLOSE)
                self._result.append(replace(fragment, kind=Kind.BREAK) if is_unmatched else fragment)
        return self._result

    def _close(self) -> None:
        """Close the innermost element. If the element was opened again but is empty, drop its tags from the output."""
        _, end = self._open.pop()
        is_empty = self._drop_open_tag(is_reopened=True)
        self._result.append(Fragment(Kind.UNIT, end.raw, output="") if is_empty else end)

    def _divide_at(self, line: Fragment) -> None:
        """Replace a line break or item separator with a boundary. Close and reopen the elements around it."""
        if len(self._open) > MAX_DEPTH:
            raise ZooError(f"a line break is nested in more than {MAX_DEPTH} elements", hint="reduce the nesting")
        is_mark = not line.text
        count = len(self._open)
        while is_mark and self._drop_open_tag():  # the element begins with the separator
            count -= 1
        closed, begun = self._open[:count], self._open[count:]
        self._open = [(_reopened(start), _reopened(end)) for start, end in self._open]
        around = [*self._open[:count], *begun] if is_mark or self._view.needs_runs else []
        tags = "".join(start.written for start, _ in around), "".join(end.written for _, end in reversed(around))
        self._copied += (20 + len(tags[0]) + len(tags[1])) * is_mark
        if self._copied > _MAX_COPIED:
            raise ZooError("the text has too many inline symbols, such as check boxes", hint="split the document")
        self._result += (replace(end, raw="", output=end.written) for _, end in reversed(closed))
        self._result.append(Fragment(Kind.BREAK, line.raw, output=tags[0] + line.written + tags[1]))
        self._result += (replace(start, raw="") for start, _ in self._open)

    def _drop_open_tag(self, *, is_reopened: bool = False) -> bool:
        """If the last fragment that produced output is a start tag, remove it. Return whether a tag was removed.

        If `is_reopened`, a tag is removed only if it reopens an element that was split.
        """
        index = len(self._result) - 1
        while index > 0 and self._result[index].kind in (Kind.TEXT, Kind.UNIT) and not self._result[index].written:
            index -= 1
        found = index >= 0 and self._result[index].kind is Kind.OPEN and not (is_reopened and self._result[index].raw)
        if found:
            self._result[index] = Fragment(Kind.UNIT, self._result[index].raw, output="")
        return found


def _reopened(tag: Fragment) -> Fragment:
    return replace(tag, output=tag.written_again)


def copy_marks(run: list[Fragment], view: View) -> None:
    """Split marks that are copied, such as dashes and musical notes, off both ends of a segment, in place."""
    solid = [index for index, each in enumerate(run) if each.text.strip()]
    if not solid:
        return
    first, last = solid[0], solid[-1] - len(run)
    text = run[first].text
    start = view.marks.match(text, len(text) - len(text.lstrip()))
    if start and run[first].kind is Kind.TEXT:
        run[first : first + 1] = _split_text(run[first], [(start.end(), Kind.UNIT), (len(text), Kind.TEXT)], view)
    text = run[last].text
    end = view.end_marks.search(text, max(len(text) - _MAX_MARK, 0))
    if end and end.start() > 0 and run[last].kind is Kind.TEXT:
        run[last : last + 1 or None] = _split_text(run[last], [(end.start(), Kind.TEXT), (len(text), Kind.UNIT)], view)


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
