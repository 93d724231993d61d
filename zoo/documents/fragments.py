"""Fragments of documents. Every format is read as a list of fragments, and written from such a list."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from xml.sax.saxutils import escape

_LONG_NUMBER = re.compile("&#[0-9]{1000,};?")
DIVIDERS = (
    r"(?P<icons>[\ue000-\uf8ff\U000f0000-\U0010ffff]++)|(?:\xa0 ?){3,}"
    r"|(?:(?<!\s)\s++)?+(?:(?P<box>[☐☑☒□■]|(?<!\S)\[[ xX]\](?!\S))"
    r"|(?<!\S)\|(?!\S)(?![^(){}\[\]]{0,60}[)}\]]|[^()]{0,60}\([^()]{0,60}\)\)))\s*+"
)
"""Pattern for text to copy within a line: icons of special fonts, and marks between items.

The marks are wide gaps, check boxes, and bars that are not in brackets, as in formulas. The items are translated
separately.
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

    A mark between items, such as a check box, is a line break without text, which always divides.
    """
    BREAK = auto()
    """Boundary between two segments, such as a paragraph tag. It is copied."""
    LANGUAGE = auto()
    """Code of the document's language. It is replaced with the code of the target language, and is also a boundary."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Fragment of a document. The joined `raw` strings of all fragments are the document.

    Attributes:
        kind: Kind of the fragment.
        raw: The fragment as it is written in the document.
        text: The characters that the translator reads. For TEXT, the text with decoded entities. For a UNIT (copied
            inline content), its readable content such as code, a space for white space such as a tab, or "" otherwise.
        key: Name of the element, for OPEN and CLOSE. Identifier of the range, for START and END. The two tags of an
            element, and the two marks of a range, have equal keys.
        output: The fragment as it is written in a translated segment. If None, it is written as in the document.
        again: The OPEN or CLOSE tag for repetitions of its element. An element is repeated if its words are not
            adjacent in the translation. For instance, the repeated start tag has no `id`. If None, the tag does not
            change.
        raised: Whether the OPEN tag raises or lowers its text, as `sup` and `sub` do in HTML.
    """

    kind: Kind
    raw: str
    text: str = ""
    key: Hashable = None
    output: str | None = None
    again: str | None = None
    raised: bool = False

    @property
    def written(self) -> str:
        """The fragment as it is written in a translated segment."""
        return self.raw if self.output is None else self.output

    @property
    def written_again(self) -> str:
        """The tag as it is written if its element is repeated in a translated segment."""
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
        marks: Pattern for symbols to copy at the start of a line, such as bullets, or dashes in a dialogue.
        end_marks: Pattern for symbols to copy at the end of a line, such as musical notes in subtitles.
        dividers: Pattern for text to copy within a line (see `DIVIDERS`).
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
    finish: Callable[[str], str] = str


Format = tuple[View, ...]
"""Format of a text file: its views. Each view is translated in the result of the previous view."""


Archive = Callable[[Sequence[str], Callable[[str], str]], Mapping[str, Format]]
"""Format of a zip archive: a function that returns the format of each file with text.

It is called with the names of all files, and with a function that returns the content of a file. The files are XML in
any encoding that they declare.
"""


def add_boundaries(text: str, parts: Iterable[tuple[int, Fragment]]) -> list[Fragment]:
    """Return the fragments in `parts`, with the text between them as boundaries.

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
    """Return a view of the XML text that the pattern's group `text` matches. Other groups match language codes."""

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
