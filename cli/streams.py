"""The three standard streams: text of any bytes, and ones that were closed before we began."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import NoReturn

from specs import ZooError

_GIVEN, _SHOWN = "zoo.given", "zoo.shown"
_BYTES = range(0xDC80, 0xDD00)  # the surrogates by which Python holds the bytes of a name that are not UTF-8


def prepared() -> None:
    """Makes them fit to be written to: UTF-8 whatever the locale, and no name that they cannot say.

    stdout gives the bytes of a file's name back as they are; stderr shows what is not UTF-8 as \\xff.
    """
    _fill_descriptors()
    codecs.register_error(_GIVEN, _given)
    codecs.register_error(_SHOWN, _shown)
    if sys.stdin is None:
        sys.stdin = Closed("input", "give it something to read, such as `</dev/null`")
    if sys.stdout is None:
        sys.stdout = Closed("output", "`>/dev/null` throws away what is not wanted")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (to the end of the process)
    for stream, errors in ((sys.stdout, _GIVEN), (sys.stderr, _SHOWN)):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors)


class Closed(io.TextIOBase):
    """A standard stream that is closed, which matters only to what needs it."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__()
        self._name, self._remedy = name, remedy

    @property
    def buffer(self) -> Closed:
        return self

    def readline(self, *_: object) -> NoReturn:
        raise ZooError(f"standard {self._name} is closed", hint=self._remedy)

    read = write = __next__ = readline


def _fill_descriptors() -> None:
    """So that no file of ours gets the number of a standard stream, and with it what libraries print there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _given(error: UnicodeError) -> tuple[bytes, int]:
    """The bytes of a name as they were; what no byte stands for as `_shown` has it."""
    assert isinstance(error, UnicodeEncodeError)
    numbers = map(ord, error.object[error.start : error.end])
    return b"".join(bytes([n & 0xFF]) if n in _BYTES else _word(n).encode() for n in numbers), error.end


def _shown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_word, map(ord, error.object[error.start : error.end]))), error.end


def _word(number: int) -> str:
    return f"\\x{number & 0xFF:02x}" if number in _BYTES else f"\\u{number:04x}"
