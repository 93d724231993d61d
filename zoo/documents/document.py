"""Documents in all formats: find the segments to translate, and write the document with their translations."""

from __future__ import annotations

import io
import lzma
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from specs import ZooError
from zoo.documents import html, markdown, office, plain
from zoo.documents.markup import Fragment, Kind, Segment, Syntax, split_segments
from zoo.generation.alignment import AlignedToken

MAX_DOCUMENT_BYTES = 500_000_000
"""Maximum size of a document after decompression."""
MAX_TEXT_BYTES = 50_000_000
"""Maximum size of the files with text in a document after decompression."""
MAX_ELEMENTS = 500_000
"""Maximum number of tags and lines in a document."""
_MAX_ENTRIES = 10_000
_ENTRY_MARK = b"PK\x01\x02"  # precedes each entry in the table of contents of a zip archive
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
DocumentSource = tuple[bytes, str, html.XmlTags | None]
"""Arguments of `Document`."""
SegmentText = tuple[str, bool]
"""The text of a segment, and whether the segment has markup, so that its translation must be aligned."""


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
        """Return the segments of a text in a format.

        Raises:
            ZooError: The text has too many elements.
        """
        _require_few_elements(text.count("<") + text.count("\n"), "the text")
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

    def __init__(self, content: bytes, name: str, tags: html.XmlTags | None = None) -> None:
        """Read a document.

        Args:
            content: The bytes of the file.
            name: The name of the file. Its suffix selects the format.
            tags: Roles of the elements of XML. If given, the document is XML.

        Raises:
            ZooError: The format is unknown, or the document is damaged, too large or too complex, or not UTF-8.
        """
        self.name, self._content = name, content
        form = format_of(name) if tags is None else Format(partial(html.parse_xml, tags=tags), XML.syntax)
        self._parts: dict[str, Markup] = {}
        if isinstance(form, Format):
            self._parts[name] = Markup.parse(_decode(content, name), form)
        else:
            with _open_archive(content, name) as archive:
                entries = [entry for entry in archive.infolist() if form.has_text(entry.filename)]
                _require_size(sum(entry.file_size for entry in entries), MAX_TEXT_BYTES, f"the text of `{name}`")
                contents = [_read_entry(archive, entry, name) for entry in entries]
            _require_few_elements(sum(part.count(b"<") + part.count(b"\n") for part in contents), f"`{name}`")
            for entry, part in zip(entries, contents, strict=True):
                self._parts[entry.filename] = Markup(form.parse(part, f"{name}/{entry.filename}"), form.syntax)
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
                if content := parts.get(entry.filename):
                    target_archive.writestr(entry, content, entry.compress_type)
                else:
                    _copy_entry(archive, entry, target_archive, self.name)
        return written.getvalue()


def read_texts(sources: Sequence[DocumentSource]) -> list[list[SegmentText]]:
    """Return the segments of each document."""
    documents = (Document(*source) for source in sources)
    return [[(segment.text, segment.needs_alignment) for segment in document.segments] for document in documents]


def write_documents(
    sources: Sequence[DocumentSource], translations: Sequence[str], alignments: Sequence[list[AlignedToken]]
) -> list[bytes]:
    """Return the documents with the translations of all segments."""
    written, start = [], 0
    for document in (Document(*source) for source in sources):
        segments = slice(start, start := start + len(document.segments))
        written.append(document.render(translations[segments], alignments[segments]))
    return written


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
    if content.count(_ENTRY_MARK) > _MAX_ENTRIES:
        raise ZooError(f"`{name}` contains more than {_MAX_ENTRIES:,} files", hint="split the document")
    with _reported_damage(name):
        archive = zipfile.ZipFile(io.BytesIO(content))
    _require_size(sum(entry.file_size for entry in archive.infolist()), MAX_DOCUMENT_BYTES, f"`{name}`")
    return archive


def _copy_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: zipfile.ZipFile, name: str) -> None:
    with _reported_damage(name), archive.open(entry) as source, target.open(copy(entry), "w") as written:
        shutil.copyfileobj(source, written)


@contextmanager
def _reported_damage(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open and save the document again") from None


def _require_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise ZooError(f"{name} has more than {limit:,} bytes after decompression", hint="split the document")


def _require_few_elements(elements: int, name: str) -> None:
    if elements > MAX_ELEMENTS:
        raise ZooError(f"{name} has {elements:,} tags and lines; the maximum is {MAX_ELEMENTS:,}", hint="split it")


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    with _reported_damage(name):
        return archive.read(entry)
