"""Pieces of sentence pairs on disk, mapped into memory: a corpus of any size costs its lengths alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt

from specs import ZooError
from zoo.data.vocabulary import Side
from zoo.files import read_json, write_json

_FORMAT = 1
_HEADER = "header.json"
_SIDES: tuple[Side, Side] = ("source", "target")
_Tokens = Literal["uint16", "uint32"]


class StoreWriter:
    """Writes a store into a folder that exists, chunk after chunk; the header comes last.

    For each side `SIDE.tokens`, all pieces one after another, and `SIDE.offsets`, int64: where each sentence
    begins, and where the last one ends. Everything is little-endian.
    """

    def __init__(self, folder: Path, size: int, parts: int = 1) -> None:
        """For a vocabulary of `size` pieces and a corpus of so many parts."""
        self._folder = folder
        self._parts = np.zeros(parts, np.int64)
        self._dtype: _Tokens = "uint16" if size <= 1 << 16 else "uint32"
        self._files: dict[str, BinaryIO] = {}
        self._tokens = dict.fromkeys(_SIDES, 0)
        self._pairs = 0

    def __enter__(self) -> Self:
        for side in _SIDES:
            for kind in ("tokens", "offsets"):
                self._files[f"{side}.{kind}"] = (self._folder / f"{side}.{kind}").open("wb")
            self._files[f"{side}.offsets"].write(np.zeros(1, "<i8").tobytes())
        return self

    def add(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        parts: npt.NDArray[np.uint16] | None = None,
    ) -> None:
        """Appends pairs of pieces, without BOS and EOS, which come part after part; `parts` numbers them: [pairs]."""
        numbers = np.zeros(len(source), np.int64) if parts is None else parts
        self._parts += np.bincount(numbers, minlength=len(self._parts))
        for side, rows in zip(_SIDES, (source, target), strict=True):
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            offsets = self._tokens[side] + np.cumsum(lengths)
            flat = np.fromiter(chain.from_iterable(rows), self._dtype, int(lengths.sum()))
            self._files[f"{side}.tokens"].write(flat.astype(f"<{flat.dtype.str[1:]}").tobytes())
            self._files[f"{side}.offsets"].write(offsets.astype("<i8").tobytes())
            self._tokens[side] += len(flat)
        self._pairs += len(source)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            header = {"format": _FORMAT, "pairs": self._pairs, "dtype": self._dtype, "parts": self._parts.tolist()}
            write_json(self._folder / _HEADER, header | {f"{side}_tokens": self._tokens[side] for side in _SIDES})


class Store:
    """Sentence pairs as pieces, without BOS and EOS, read from the disk as they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Opens what a StoreWriter wrote. Raises ZooError where a file is missing, cut short or damaged."""
        self.folder = folder
        dtype, pairs, counts, self.parts = _header(folder / _HEADER)
        self._tokens: dict[Side, npt.NDArray[Any]] = {}
        self._offsets: dict[Side, npt.NDArray[Any]] = {}
        self._lengths: dict[Side, npt.NDArray[np.int32]] = {}
        for side in _SIDES:
            tokens = _mapped(folder / f"{side}.tokens", dtype, counts[side])
            offsets = _mapped(folder / f"{side}.offsets", "int64", pairs + 1)
            lengths = np.diff(offsets)
            if offsets[0] != 0 or offsets[-1] != len(tokens) or (len(lengths) and lengths.min() < 0):
                raise _damaged(folder / f"{side}.offsets", "its offsets are not those of the pieces")
            self._tokens[side], self._offsets[side] = tokens, offsets
            self._lengths[side] = lengths.astype(np.int32)
            self._lengths[side].flags.writeable = False

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self._lengths["source"])

    parts: tuple[int, ...]
    """How many pairs come from each part of `corpus.train`, in their order."""

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """Pieces of each source, EOS not counted: [pairs]."""
        return self._lengths["source"]

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        """Pieces of each target, EOS not counted: [pairs]."""
        return self._lengths["target"]

    def source(self, index: int) -> npt.NDArray[np.int32]:
        """The pieces of a source: [length]."""
        return self._row("source", index)

    def target(self, index: int) -> npt.NDArray[np.int32]:
        """The pieces of a target: [length]."""
        return self._row("target", index)

    def _row(self, side: Side, index: int) -> npt.NDArray[np.int32]:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        start, end = self._offsets[side][index : index + 2]
        return self._tokens[side][start:end].astype(np.int32)


def _header(path: Path) -> tuple[str, int, dict[Side, int], tuple[int, ...]]:
    """Type of a piece, number of pairs, number of pieces of each side, number of pairs of each part."""
    header = read_json(path)
    counts = {side: header.get(f"{side}_tokens") for side in _SIDES}
    numbers = (header.get("pairs"), *counts.values())
    if header.get("format") != _FORMAT or header.get("dtype") not in ("uint16", "uint32"):
        raise _damaged(path, "it is no header of a store that this version reads")
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise _damaged(path, "it does not say how much there is")
    pairs = int(header["pairs"])
    parts = tuple(int(count) for count in header.get("parts", [pairs]))  # stores once had no parts
    if sum(parts) != pairs:
        raise _damaged(path, "its parts are not the whole")
    return str(header["dtype"]), pairs, {side: int(header[f"{side}_tokens"]) for side in _SIDES}, parts


def _mapped(path: Path, dtype: str, count: int) -> npt.NDArray[Any]:
    kind = np.dtype(dtype).newbyteorder("<")
    try:
        found = path.stat().st_size
        if found != count * kind.itemsize:
            raise _damaged(path, f"it has {found:,} bytes, not {count * kind.itemsize:,}")
        return np.memmap(path, kind, mode="r").view(np.ndarray) if count else np.zeros(0, kind)
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}", exit_code=1) from None


def _damaged(path: Path, reason: str) -> ZooError:
    hint = f"remove the folder `{path.parent}`: `zoo prepare` makes it anew"
    return ZooError(f"`{path}` is damaged: {reason}", hint=hint, exit_code=1)
