"""Documents in all formats: find the segments to translate, and write the document with their translations."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from specs import ZooError
from zoo.documents import html, markdown, office, plain
from zoo.documents.markup import Fragment, Kind, Segment, Syntax, split_segments
from zoo.generation.alignment import AlignedToken

MAX_DOCUMENT_BYTES = 500_000_000
"""Maximum size of a document after decompression."""
_BYTE_ORDER_MARK = "\ufeff"
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(RuntimeError, NotImplementedError, OSError, EOFError, ValueError),
)
"""Errors that zipfile raises if an archive is damaged, encrypted or of an unknown kind."""

Translate = Callable[[list[str]], list[str]]
"""Function that translates texts."""
Align = Callable[[list[str], list[str]], list[list[AlignedToken]]]
"""Function that aligns the tokens of translations to those of texts, as `Translator.align` does."""


@dataclass(frozen=True)
class Format:
    """How the text of a file is read and written.

    Attributes:
        parse: Function that returns the fragments of a text.
        syntax: How the format writes text.
    """

    parse: Callable[[str], list[Fragment]]
    syntax: Syntax


@dataclass(frozen=True)
class Archive:
    """Format of a zip archive, in which some files have text.

    Attributes:
        parse: Function that returns the fragments of a file, from its content and its name.
        syntax: How these files write text.
        has_text: Function that returns whether the file with a name has text.
    """

    parse: Callable[[bytes, str], list[Fragment]]
    syntax: Syntax
    has_text: Callable[[str], bool]


HTML = Format(html.parse, html.SYNTAX)
XML = Format(html.parse_xml, html.SYNTAX)
_WORD_PARTS = ("word/document", "word/header", "word/footer", "word/footnotes", "word/endnotes")
FORMATS: Mapping[str, Format | Archive] = {
    ".txt": Format(plain.parse_text, plain.SYNTAX),
    ".md": Format(markdown.parse, markdown.SYNTAX),
    ".html": HTML,
    ".htm": HTML,
    ".srt": Format(plain.parse_subtitles, plain.SYNTAX),
    ".docx": Archive(
        office.parse_word, office.WORD_SYNTAX, lambda name: name.startswith(_WORD_PARTS) and name.endswith(".xml")
    ),
    ".odt": Archive(
        office.parse_open_document, office.OPEN_DOCUMENT_SYNTAX, lambda name: name in ("content.xml", "styles.xml")
    ),
    ".epub": Archive(
        lambda content, name: html.parse(_decode(content, name)),
        html.SYNTAX,
        lambda name: name.lower().endswith((".xhtml", ".html", ".htm", ".ncx")),
    ),
}
"""Formats by the suffix of the file name, in lower case."""


class Markup:
    """Text with markup, split into segments."""

    def __init__(self, fragments: Sequence[Fragment], syntax: Syntax) -> None:
        self._parts, self._syntax = list(split_segments(fragments)), syntax
        self.segments = [part for part in self._parts if isinstance(part, Segment)]

    @classmethod
    def parse(cls, text: str, form: Format = HTML) -> Markup:
        """Return the segments of a text in a format."""
        content = text.removeprefix(_BYTE_ORDER_MARK)
        mark = Fragment(Kind.BREAK, text[: len(text) - len(content)])
        return cls([mark, *form.parse(content)], form.syntax)

    def render(self, translations: Iterator[str], alignments: Iterator[list[AlignedToken]]) -> str:
        """Return the text with the next translations and alignments in place of its segments."""
        return "".join(
            part if isinstance(part, str) else part.render(next(translations), next(alignments), self._syntax)
            for part in self._parts
        )


class Document:
    """Document, of which only the text of its segments is translated. Everything else is copied byte for byte.

    Attributes:
        segments: The segments, in order.
    """

    def __init__(self, content: bytes, name: str) -> None:
        """Read a document.

        Args:
            content: The bytes of the file.
            name: The name of the file. Its suffix selects the format.

        Raises:
            ZooError: The format is unknown, or the document is damaged, too large or not UTF-8.
        """
        self.name, self._content = name, content
        form = format_of(name)
        self._parts: dict[str, Markup] = {}
        if isinstance(form, Format):
            self._parts[name] = Markup.parse(_decode(content, name), form)
        else:
            with _open_archive(content, name) as archive:
                for entry in archive.infolist():
                    if form.has_text(entry.filename):
                        fragments = form.parse(_read_entry(archive, entry, name), f"{name}/{entry.filename}")
                        self._parts[entry.filename] = Markup(fragments, form.syntax)
        self.segments = [segment for part in self._parts.values() for segment in part.segments]

    def render(self, translations: Sequence[str], alignments: Sequence[list[AlignedToken]]) -> bytes:
        """Return the translated document. If no text changes, the result is the document itself.

        Args:
            translations: The translation of each segment.
            alignments: Its alignment. May be empty for segments without markup.
        """
        rest = iter(translations), iter(alignments)
        parts = {name: part.render(*rest).encode() for name, part in self._parts.items()}
        if isinstance(format_of(self.name), Format):
            return parts[self.name]
        if all(target == segment.text for target, segment in zip(translations, self.segments, strict=True)):
            return self._content
        written = io.BytesIO()
        with _open_archive(self._content, self.name) as archive, zipfile.ZipFile(written, "w") as target_archive:
            target_archive.comment = archive.comment
            for entry in archive.infolist():
                content = parts.get(entry.filename) or _read_entry(archive, entry, self.name)
                target_archive.writestr(entry, content, entry.compress_type)
        return written.getvalue()


def translate_document(content: bytes, name: str, translate: Translate, align: Align) -> bytes:
    """Return the translation of a document (see `Document`)."""
    document = Document(content, name)
    translations = translate([segment.text for segment in document.segments])
    return document.render(translations, align_segments(document.segments, translations, align))


def align_segments(segments: Sequence[Segment], translations: Sequence[str], align: Align) -> list[list[AlignedToken]]:
    """Return the alignments of all segments. Those without markup need none, so theirs are empty."""
    needed = [index for index, segment in enumerate(segments) if segment.needs_alignment]
    alignments: list[list[AlignedToken]] = [[] for _ in segments]
    if needed:
        found = align([segments[index].text for index in needed], [translations[index] for index in needed])
        for index, tokens in zip(needed, found, strict=True):
            alignments[index] = tokens
    return alignments


def format_of(name: str) -> Format | Archive:
    """Return the format of a file name. Raise ZooError if it is unknown."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise ZooError(f"`{name}` has no suffix of a known format", hint=f"the formats are {known}")
    return FORMATS[suffix]


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ZooError(f"`{name}` is not UTF-8", hint="save it with the encoding UTF-8") from None


def _open_archive(content: bytes, name: str) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except _DAMAGE as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open and save the document again") from None
    if sum(entry.file_size for entry in archive.infolist()) > MAX_DOCUMENT_BYTES:
        raise ZooError(f"`{name}` has more than {MAX_DOCUMENT_BYTES:,} bytes after decompression", hint="split it")
    return archive


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    try:
        return archive.read(entry)
    except _DAMAGE as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open and save the document again") from None
