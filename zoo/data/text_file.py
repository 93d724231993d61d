"""A file of a corpus as its sentences, and by what is in it."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from specs import ZooError
from zoo.data.sgml import is_sgml, segments
from zoo.files.archive import open_gzip
from zoo.files.hashes import sha256
from zoo.report import size
from zoo.text.lines import decoded_lines

LONGEST_LINE = 1_000_000
"""Bytes of the longest line that may be a sentence: to encode one takes fifty times as much memory."""


def lines(path: Path) -> Iterator[str]:
    """The sentences of a file: lines, or the segments of an .sgm file; with .gz at the end unpacked as it is read.

    Raises ZooError, naming the file, where it is missing, damaged, or unpacks to more than text does, and, with the
    line, for what is not UTF-8 or longer than LONGEST_LINE.
    """
    with reading(path), open_gzip(path) if path.suffix == ".gz" else path.open("rb") as stream:
        decoded = decoded_lines(_bounded(stream, path), str(path))
        yield from segments(decoded, path, LONGEST_LINE) if is_sgml(path) else decoded


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read is told with its name, as a ZooError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        hint = "get the file again: `gzip -t` tells whether it is whole"
        raise ZooError(f"`{path}` is cut short or damaged: {error}", hint=hint) from error
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from error


def kind(path: Path) -> str:
    """How a file is read; whether it is compressed does not matter to what is in it."""
    return "sgm" if is_sgml(path) else "lines"


def digest(path: Path) -> str:
    """The sha256 of a file as it lies there. Raises ZooError for one that cannot be read or has a hole."""
    with reading(path):
        _require_written(path)
        return sha256(path)


def _require_written(path: Path) -> None:
    """Raises ZooError for a file with a hole: a copy that was broken off, which may seem to have any size."""
    with path.open("rb") as file:
        descriptor, end = file.fileno(), path.stat().st_size
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE) if end and hasattr(os, "SEEK_HOLE") else end
        if hole < end and os.pread(descriptor, 1, hole) == b"\0":  # some file systems see holes where there is text
            problem = f"`{path}` has a hole: from byte {hole:,} of {end:,} on nothing was written"
            raise ZooError(problem, hint="get the file again: its copy was broken off")


def _bounded(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """The lines, none of which is held before it is known to be one."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            problem = f"a line has more than {size(LONGEST_LINE)}, and no sentence is as long"
            raise ZooError(problem, where=f"{path}:{number}", hint="one sentence a line: split it, or delete it")
        yield line


def language_of(written: Path | str) -> str:
    """The last ending of a file's name, but for those that say how it is written."""
    path = Path(written)
    while path.suffix.lower() in (".gz", ".sgm", ".sgml", ".txt"):
        path = path.with_suffix("")
    return path.suffix.removeprefix(".")
