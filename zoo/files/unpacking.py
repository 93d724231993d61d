"""Packed text, unpacked as it is read, and no further than so many packed bytes could hold."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO

from specs import ZooError
from zoo.report import size

ANY = 10_000_000
"""Bytes that a file of any size may unpack to."""
RATIO = 200
"""Text is packed to a fifth; one line over and over, or nothing but zeros, to a thousandth."""


def unpacked(path: Path) -> IO[bytes]:
    """What a gzip file holds, as a stream. Reading raises ZooError where it is more than a text would be."""
    inner = gzip.open(path)  # noqa: SIM115  (it is closed with the stream)
    return io.BufferedReader(_Bounded(inner, path))


def require_text(path: Path, amount: int) -> None:
    """Raises ZooError where so many bytes are more than the text in a packed file of this size could have."""
    packed = path.stat().st_size
    if amount > (most := _most(packed)):
        raise ZooError(
            f"`{path}` has {size(packed)} and unpacks to more than {size(most)}, which no text does",
            hint="get it again where its authors publish it; a text that is like that is read once it is unpacked",
        )


def _most(packed: int) -> int:
    return max(ANY, RATIO * packed)


class _Bounded(io.RawIOBase):
    """Counts what is read."""

    def __init__(self, inner: gzip.GzipFile, path: Path) -> None:
        self._inner, self._path, self._read = inner, path, 0
        self._most = _most(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._inner.readinto(buffer)
        self._read += count
        if self._read > self._most:
            require_text(self._path, self._read)
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()
