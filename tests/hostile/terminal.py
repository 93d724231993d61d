"""The console script's own entry, called in this process, with the streams that it is to have."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from cli import app, errors


@dataclass(frozen=True)
class Done:
    """`fault` is what was explained as a fault of zoo, or anything else that was told."""

    status: object
    out: str
    err: str
    fault: BaseException | None = None


class Failing(io.RawIOBase):
    """A stream that is open and no good."""

    def __init__(self, number: int = errno.ENOSPC) -> None:
        self._number = number

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, into: object) -> int:
        raise OSError(self._number, os.strerror(self._number))

    def write(self, content: object) -> int:
        raise OSError(self._number, os.strerror(self._number))


Stream = bytes | Failing | None
"""What is on stdin; of the others b"" is one that works. None is a stream that was closed before the start."""


def called(arguments: Sequence[str], stdin: Stream = b"", stdout: Stream = b"", stderr: Stream = b"") -> Done:
    """What `zoo ARGUMENTS` does. Raises what escapes from it, which nothing should."""
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr, errors.to_zoo_error
    told: list[Exception] = []

    def explained(error: Exception, *rest: str) -> object:
        told.append(error)
        return before[4](error, *rest)

    files = [_file(stdin), _file(stdout), _file(stderr)]
    sys.argv = ["zoo", *arguments]
    streams = [_stream(files[0], "strict"), _stream(files[1], "strict"), _stream(files[2], "backslashreplace")]
    sys.stdin, sys.stdout, sys.stderr = streams  # type: ignore[assignment]
    errors.to_zoo_error = explained  # type: ignore[assignment]
    try:
        app.main()
        status: object = "none at all"
    except SystemExit as end:
        status = 0 if end.code is None else end.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr, errors.to_zoo_error = before
        out, err = (_written(file, stream) for file, stream in zip(files[1:], streams[1:], strict=True))
    return Done(status, out, err, told[-1] if told else None)


def _file(stream: Stream) -> io.BytesIO | io.BufferedRandom | None:
    if isinstance(stream, Failing):
        return io.BufferedRWPair(stream, stream)  # type: ignore[return-value]
    return None if stream is None else io.BytesIO(stream)


def _stream(file: io.BytesIO | io.BufferedRandom | None, errors: str) -> io.TextIOWrapper | None:
    return None if file is None else io.TextIOWrapper(file, "utf-8", errors)


def _written(file: io.BytesIO | io.BufferedRandom | None, stream: io.TextIOWrapper | None) -> str:
    """What went out as a terminal shows it."""
    if file is None or stream is None:
        return ""
    with suppress(OSError, ValueError):
        stream.flush()
    if not isinstance(file, io.BytesIO):
        _OPEN.append(stream)  # its end would complain once more
        return ""
    return file.getvalue().decode("utf-8", "replace")


_OPEN: list[io.TextIOWrapper] = []
