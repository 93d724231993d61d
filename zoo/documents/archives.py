"""Zip archives, such as Word documents: read their texts within limits, and replace the files with text."""

from __future__ import annotations

import io
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy

from specs import ZooError

MAX_DOCUMENT_BYTES = 500_000_000
"""Maximum size of a document after decompression."""
MAX_TEXT_BYTES = 50_000_000
"""Maximum size of the files with text in a document after decompression."""
_MAX_ENTRIES = 10_000
_ENTRY_MARK = b"PK\x01\x02"  # precedes each entry in the table of contents of a zip archive
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_ENCODING = re.compile(rb"""^<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(RuntimeError, NotImplementedError, OSError, EOFError, ValueError),
)
"""Errors that zipfile raises if an archive is damaged, encrypted or of an unknown kind."""


class TextArchive:
    """Zip archive whose XML files are read as text.

    Attributes:
        names: The names of all files, without duplicates.
    """

    def __init__(self, content: bytes, name: str) -> None:
        """Open an archive.

        Raises:
            ZooError: The archive is damaged, or is too large after decompression.
        """
        self._content, self._name = content, name
        self._texts, self._encodings = dict[str, str](), dict[str, str]()
        self._read = 0
        if content.count(_ENTRY_MARK) > _MAX_ENTRIES:
            raise ZooError(f"`{name}` contains more than {_MAX_ENTRIES:,} files", hint="split the document")
        with _reported_damage(name):
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        entries = self._archive.infolist()
        _require_size(sum(entry.file_size for entry in entries), MAX_DOCUMENT_BYTES, f"`{name}`")
        self._entries = {entry.filename: entry for entry in entries}
        """The entry of each file. Of several with the same name, office programs read the last one, too."""
        self.names = list(self._entries)

    def read(self, name: str) -> str:
        """Return the text of a file. It may have any encoding that XML declares.

        Raises:
            ZooError: The file does not exist or is damaged, its encoding is unknown, or the files are too large.
        """
        if name in self._texts:
            return self._texts[name]
        if name not in self._entries:
            raise ZooError(f"`{self._name}` has no file `{name}`", hint="open and save the document again")
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
            where = f"{self._name}/{name}"
            raise ZooError(f"`{where}` is not {encoding.upper()}", hint="open and save the document again") from None
        self._texts[name], self._encodings[name] = text, encoding
        return text

    def replace(self, texts: Mapping[str, str]) -> bytes:
        """Return the archive with new texts in files that were read before. If none differs, return the same bytes."""
        texts = {name: text for name, text in texts.items() if text != self._texts[name]}
        if not texts:
            return self._content
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as target:
            target.comment = self._archive.comment
            for entry in self._archive.infolist():
                if self._entries[entry.filename] is not entry:
                    continue
                if entry.filename in texts:
                    content = texts[entry.filename].encode(self._encodings[entry.filename], "xmlcharrefreplace")
                    target.writestr(entry, content, entry.compress_type)
                else:
                    with (
                        _reported_damage(self._name),
                        self._archive.open(entry) as source,
                        target.open(copy(entry), "w") as copied,
                    ):
                        shutil.copyfileobj(source, copied)
        return written.getvalue()


@contextmanager
def _reported_damage(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open and save the document again") from None


def _require_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise ZooError(f"{name} has more than {limit:,} bytes after decompression", hint="split the document")
