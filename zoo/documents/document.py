"""Documents in all formats: find the segments to translate, and write the document with their translations."""

from __future__ import annotations

import io
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import islice
from pathlib import Path, PurePath

from specs import ZooError
from zoo.documents import epub, html, markdown, open_document, text, word
from zoo.documents.fragments import Archive, Format, Fragment, Kind, View
from zoo.documents.placement import place_markup
from zoo.documents.segments import Segment, split_segments
from zoo.files.reading import read_bytes
from zoo.generation.alignment import AlignedToken
from zoo.text.lines import decoded_lines

MAX_DOCUMENT_BYTES = 500_000_000
"""Maximum size of a document after decompression."""
MAX_TEXT_BYTES = 50_000_000
"""Maximum total size of the text files in a document after decompression."""
_MAX_ENTRIES = 10_000
_ENTRY_MARK = b"PK\x01\x02"  # precedes each entry in the table of contents of a zip archive
_OFFICE_MARK = b"\xd0\xcf\x11\xe0"  # begins encrypted documents, and documents in the formats before Office 2007
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_ENCODING = re.compile(rb"""^<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, OSError, EOFError, ValueError)
"""Errors that zipfile raises if an archive is damaged, encrypted or not supported."""


class TextArchive:
    """Zip archive whose XML files are read as text.

    Attributes:
        names: The names of all files, without duplicates.
    """

    def __init__(self, content: bytes, name: str) -> None:
        """Open an archive.

        Raises:
            ZooError: The archive is damaged or encrypted, or is too large after decompression.
        """
        self._content, self._name = content, name
        self._texts, self._encodings = dict[str, str](), dict[str, str]()
        self._read = 0
        if content.count(_ENTRY_MARK) > _MAX_ENTRIES:
            raise ZooError(f"`{name}` contains more than {_MAX_ENTRIES:,} files", hint="split the document")
        if content.startswith(_OFFICE_MARK):
            suffix = PurePath(name).suffix
            problem = f"`{name}` is encrypted, or has an old format such as `.doc`"
            raise ZooError(problem, hint=f"open the document, and save it as `{suffix}` without a password")
        with _reported_damage(name):
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        entries = self._archive.infolist()
        _require_size(sum(entry.file_size for entry in entries), MAX_DOCUMENT_BYTES, f"`{name}`")
        self._entries = {entry.filename: entry for entry in entries}
        """The entry of each file. If a file has several entries, the last entry is used, as in office programs."""
        self.names = list(self._entries)

    def read(self, name: str) -> str:
        """Return the text of a file in the archive. A byte order mark or XML declaration can specify the encoding.

        The default encoding is UTF-8.

        Raises:
            ZooError: The file is damaged, its encoding is unknown, or the files are too large in total.
        """
        if name in self._texts:
            return self._texts[name]
        self._read += self._entries[name].file_size
        _require_size(self._read, MAX_TEXT_BYTES, f"the text of `{self._name}`")
        with _reported_damage(self._name):
            content = self._archive.read(self._entries[name])
        start = next((mark for mark in _BYTE_ORDER_MARKS if content.startswith(mark)), b"")
        declared = _ENCODING.match(content)
        encoding = _BYTE_ORDER_MARKS.get(start) or (declared[1].decode() if declared else "utf-8")
        try:
            text = content.decode(encoding)
        except (LookupError, UnicodeError):
            problem = f"`{self._name}/{name}` cannot be decoded as {encoding.upper()}"
            raise ZooError(problem, hint="open the document and save it again") from None
        self._texts[name], self._encodings[name] = text, encoding
        return text

    def replace(self, texts: Mapping[str, str]) -> bytes:
        """Return the bytes of the archive with new texts for some of its files. Call `read` for these files first.

        If no text changes, return the original bytes.
        """
        texts = {name: text for name, text in texts.items() if text != self._texts[name]}
        if not texts:
            return self._content
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as target:
            target.comment = self._archive.comment
            for entry in self._entries.values():
                with _reported_damage(self._name), target.open(copy(entry), "w") as copied:
                    if entry.filename in texts:
                        encoding = self._encodings[entry.filename]
                        copied.write(texts[entry.filename].encode(encoding, "xmlcharrefreplace"))
                    else:
                        with self._archive.open(entry) as source:
                            shutil.copyfileobj(source, copied)
        return written.getvalue()


@contextmanager
def _reported_damage(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open the document and save it again") from None


def _require_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise ZooError(f"{name} has more than {limit:,} bytes after decompression", hint="split the document")


MAX_ELEMENTS = 500_000
"""Maximum number of tags and lines in a document."""

Translations = Iterator[tuple[str, list[AlignedToken]]]
"""Translations in the order of the segments, each with its token alignment.

Translations have no white space at either end: in Markdown, it could begin a code block. The alignment may be empty for
segments without markup.
"""
DocumentSource = tuple[bytes, str, html.ElementRoles | None]
"""Arguments for `Document`: content, name and element roles."""
SegmentText = tuple[str, bool]
"""The text of a segment, and whether the segment has markup. If it has markup, its translation must be aligned."""

FORMATS: Mapping[str, Format | Archive] = {
    ".txt": text.TEXT,
    ".md": markdown.FORMAT,
    ".html": html.FORMAT,
    ".htm": html.FORMAT,
    ".srt": text.SUBTITLES,
    ".docx": word.FORMAT,
    ".odt": open_document.FORMAT,
    ".epub": epub.FORMAT,
}
"""Formats, keyed by the suffix of the file name in lower case."""


class TextFile:
    """Text file, split into segments according to its format.

    Attributes:
        segments: The texts to translate, in the order in which `render` expects their translations.
        language: The language code in the text, such as the `lang` attribute in HTML, or an empty string.
    """

    def __init__(self, text: str, form: Format = html.FORMAT) -> None:
        """Split a text into segments.

        Raises:
            ZooError: The text is damaged, or has too many elements.
        """
        self._text = text.removeprefix("\ufeff")  # the byte order mark
        self._mark, self._format = text[: len(text) - len(self._text)], form
        self._views = [list(split_segments(self._text, view)) for view in form]
        self.segments = [part for parts in self._views for part in parts if isinstance(part, Segment)]
        fragments = (part for parts in self._views for part in parts if isinstance(part, Fragment))
        self.language = next((part.raw for part in fragments if part.kind is Kind.LANGUAGE), "")

    def render(self, translations: Translations, language: str | None = None) -> str:
        """Return the text with each segment replaced by the next translation.

        Args:
            translations: Iterator from which one translation per segment is taken. Later translations remain in it.
            language: Code of the target language. If None, the language codes in the document do not change.
        """
        text = self._text
        for view, parts in zip(self._format, self._views, strict=True):
            current = parts if text == self._text else list(split_segments(text, view))
            text = _render(text, current, view, translations, language)
        return self._mark + text


def _render(
    text: str, parts: Sequence[Fragment | Segment], view: View, translations: Translations, language: str | None
) -> str:
    """Replace the segments of one view (see `View`) with their translations, and return the whole text."""
    texts = [part.text for part in parts if isinstance(part, Segment)]
    chosen = list(islice(translations, len(texts)))
    if len(chosen) < len(texts):
        raise ValueError("there are fewer translations than segments")
    kinds = {part.kind for part in parts if isinstance(part, Fragment)}
    if [target for target, _ in chosen] == texts and not (language and Kind.LANGUAGE in kinds):
        return text
    following = iter(chosen)
    return view.finish("".join(_write(part, following, view, language) for part in parts))


def _write(part: Fragment | Segment, translations: Translations, view: View, language: str | None) -> str:
    """Return the output for one part: a fragment, or a segment with the next translation."""
    if isinstance(part, Fragment):
        return language if language and part.kind is Kind.LANGUAGE else part.written
    target, tokens = next(translations)
    if target == part.text:
        return "".join(fragment.written for fragment in part.fragments)
    return place_markup(part, target, tokens, view)


class Document:
    """Document with segments of text to translate. Everything else is copied byte for byte.

    Attributes:
        name: The name of the file.
        segments: The segments, in the order in which `render` expects their translations.
        language: The language code in the document, such as the `lang` attribute in HTML, or an empty string.
    """

    def __init__(self, content: bytes, name: str, roles: html.ElementRoles | None = None) -> None:
        """Read a document.

        Args:
            content: The bytes of the file.
            name: The name of the file. Its suffix selects the format.
            roles: Roles of XML or HTML elements. If given, the document is read as XML or HTML, whatever its suffix.

        Raises:
            ZooError: The format is unknown, or the document is damaged, too large, too complex or not UTF-8.
        """
        form = format_of(name) if roles is None else html.format_with(roles)
        self._archive: TextArchive | None = None
        if isinstance(form, tuple):
            formats: Mapping[str, Format] = {name: form}
        else:
            self._archive = TextArchive(content, name)
            formats = form(self._archive.names, self._archive.read)
        texts = {file: self._archive.read(file) if self._archive else _decode(content, name) for file in formats}
        elements = sum(text.count("<") + text.count("\n") for text in texts.values())
        if elements > MAX_ELEMENTS:
            problem = f"`{name}` has {elements:,} tags and lines; the maximum is {MAX_ELEMENTS:,}"
            raise ZooError(problem, hint="split the document")
        try:
            self._files = {file: TextFile(text, formats[file]) for file, text in texts.items()}
        except ZooError as error:
            raise ZooError(f"`{name}` cannot be read: {error.summary}", hint=error.hint) from None
        self.name = name
        self.segments = [segment for file in self._files.values() for segment in file.segments]
        self.language = next((file.language for file in self._files.values() if file.language), "")

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a document from a file. Raise the same errors as `Document` and `read_bytes`."""
        return cls(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))

    def render(self, translations: Translations, language: str | None = None) -> bytes:
        """Return the translated document. If no text changes, return the original bytes.

        Args:
            translations: Iterator from which one translation per segment is taken. Later translations remain in it.
            language: Code of the target language. If None, the language codes in the document do not change.
        """
        texts = {name: file.render(translations, language) for name, file in self._files.items()}
        return self._archive.replace(texts) if self._archive else texts[self.name].encode()


def read_texts(sources: Sequence[DocumentSource]) -> list[list[SegmentText]]:
    """Return a list per document, with the text of each segment and whether the segment has markup."""
    return [[(each.text, each.needs_alignment) for each in Document(*source).segments] for source in sources]


def write_documents(
    sources: Sequence[DocumentSource],
    translations: Sequence[str],
    alignments: Sequence[list[AlignedToken]],
    language: str | None = None,
) -> list[bytes]:
    """Return the content of each document with its segments replaced by translations (see `Translations`).

    Args:
        sources: Content, name and element roles of each document.
        translations: The translation of each segment in all documents, in order.
        alignments: The token alignment of each translation. It may be empty for segments without markup.
        language: Code of the target language. If None, the language codes in the documents do not change.

    Raises:
        ValueError: The numbers of translations, alignments and segments differ.
    """
    following = zip(translations, alignments, strict=True)
    contents = [Document(*source).render(following, language) for source in sources]
    if next(following, None) is not None:
        raise ValueError("there are more translations than segments")
    return contents


def format_of(name: str) -> Format | Archive:
    """Return the format for a file name. Raise ZooError if its suffix is unknown."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise ZooError(f"`{name}` has an unknown format", hint=f"supported formats: {', '.join(FORMATS)}")
    return FORMATS[suffix]


def _decode(content: bytes, name: str) -> str:
    with suppress(UnicodeDecodeError):
        return content.decode()
    return "\n".join(decoded_lines(io.BytesIO(content), name))  # raises an error with the line number
