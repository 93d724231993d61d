"""Tokens of sentence pairs on disk, in shards that are mapped into memory: a corpus of any size costs its lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from specs import ZooError
from zoo.files.atomic import write_json
from zoo.files.reading import read_json
from zoo.text.vocabulary import Side

_FORMAT = 2
_HEADER = "header.json"
_SIDES: tuple[Side, Side] = ("source", "target")
_SHARD_PAIRS = 1 << 22  # a few hundred megabytes; a shard takes four descriptors of files
_Tokens = Literal["uint16", "uint32"]
Rows = Sequence[Sequence[int]]


class StoreWriter:
    """Writes a store into a folder that exists, chunk after chunk; the header comes last.

    A shard holds `shard_pairs` pairs, the last one what is left. For each side it is two files, `NNNNN.SIDE.tokens`,
    all tokens one after another, and `NNNNN.SIDE.offsets`, int64: where each sentence begins in it, and where the
    last one ends. Everything is little-endian.
    """

    def __init__(self, folder: Path, size: int, parts: int = 1, shard_pairs: int = _SHARD_PAIRS) -> None:
        """For a vocabulary of `size` tokens and a corpus of so many parts."""
        self._folder, self._shard_pairs = folder, shard_pairs
        self._parts = np.zeros(parts, np.int64)
        self._dtype: _Tokens = "uint16" if size <= 1 << 16 else "uint32"
        self._files: dict[str, BinaryIO] = {}
        self._shards: list[dict[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def add(self, source: Rows, target: Rows, parts: npt.NDArray[np.uint16] | None = None) -> None:
        """Appends pairs of tokens, without BOS and EOS, which come part after part; `parts` numbers them: [pairs]."""
        numbers = np.zeros(len(source), np.int64) if parts is None else parts
        self._parts += np.bincount(numbers, minlength=len(self._parts))
        start = 0
        while start < len(source):
            if not self._shards or self._shards[-1]["pairs"] == self._shard_pairs:
                self._begin_shard()
            end = start + self._shard_pairs - self._shards[-1]["pairs"]
            self._append(source[start:end], target[start:end])
            start = end

    def _begin_shard(self) -> None:
        self._close()
        number = len(self._shards)
        for side in _SIDES:
            for kind in ("tokens", "offsets"):
                self._files[f"{side}.{kind}"] = _path(self._folder, number, f"{side}.{kind}").open("wb")
            self._files[f"{side}.offsets"].write(np.zeros(1, "<i8").tobytes())
        self._shards.append(dict.fromkeys(("pairs", *_SIDES), 0))

    def _append(self, source: Rows, target: Rows) -> None:
        shard = self._shards[-1]
        for side, rows in zip(_SIDES, (source, target), strict=True):
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            offsets = shard[side] + np.cumsum(lengths)
            flat = np.fromiter(chain.from_iterable(rows), self._dtype, int(lengths.sum()))
            self._files[f"{side}.tokens"].write(flat.astype(f"<{flat.dtype.str[1:]}").tobytes())
            self._files[f"{side}.offsets"].write(offsets.astype("<i8").tobytes())
            shard[side] += len(flat)
        shard["pairs"] += len(source)

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if kind is None:
            header = {"format": _FORMAT, "dtype": self._dtype, "parts": self._parts.tolist()}
            write_json(self._folder / _HEADER, header | {"shard_pairs": self._shard_pairs, "shards": self._shards})


class Store:
    """Sentence pairs as tokens, without BOS and EOS, read from the disk as they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Opens what a StoreWriter wrote. Raises ZooError where a file is missing, cut short or damaged."""
        self.folder = folder
        header = _Header.read(folder / _HEADER)
        self.parts, self._shard_pairs = header.parts, header.shard_pairs
        self._shards: dict[Side, list[_Shard]] = {
            side: [_Shard.of(folder, number, side, header.dtype, counts) for number, counts in enumerate(header.shards)]
            for side in _SIDES
        }
        self._lengths = {side: _lengths(shards) for side, shards in self._shards.items()}

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self._lengths["source"])

    parts: tuple[int, ...]
    """How many pairs come from each part of `corpus.train`, in their order."""

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each source, EOS not counted: [pairs]."""
        return self._lengths["source"]

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each target, EOS not counted: [pairs]."""
        return self._lengths["target"]

    def source(self, index: int) -> npt.NDArray[np.int32]:
        """The tokens of a source: [length]."""
        return self._row("source", index)

    def target(self, index: int) -> npt.NDArray[np.int32]:
        """The tokens of a target: [length]."""
        return self._row("target", index)

    def _row(self, side: Side, index: int) -> npt.NDArray[np.int32]:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        number, place = divmod(index, self._shard_pairs)
        shard = self._shards[side][number]
        start, end = shard.offsets[place : place + 2]
        return shard.tokens[start:end].astype(np.int32)


class _Shard(NamedTuple):
    """One side of a shard."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, folder: Path, number: int, side: Side, dtype: str, counts: Mapping[str, int]) -> Self:
        tokens = _mapped(_path(folder, number, f"{side}.tokens"), dtype, counts[side])
        offsets = _mapped(_path(folder, number, f"{side}.offsets"), "int64", counts["pairs"] + 1)
        if offsets[0] != 0 or offsets[-1] != len(tokens) or np.diff(offsets).min(initial=0) < 0:
            path = _path(folder, number, f"{side}.offsets")
            raise _damaged(path, "its offsets are not those of the tokens")
        return cls(tokens, offsets)


def _lengths(shards: Sequence[_Shard]) -> npt.NDArray[np.int32]:
    lengths = np.zeros(sum(len(shard.offsets) - 1 for shard in shards), np.int32)
    start = 0
    for shard in shards:
        end = start + len(shard.offsets) - 1
        np.subtract(shard.offsets[1:], shard.offsets[:-1], out=lengths[start:end], casting="same_kind")
        start = end
    lengths.flags.writeable = False
    return lengths


def _path(folder: Path, number: int, kind: str) -> Path:
    return folder / f"{number:05d}.{kind}"


@dataclass(frozen=True)
class _Header:
    dtype: _Tokens
    parts: tuple[int, ...]
    shard_pairs: int
    shards: tuple[dict[str, int], ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises ZooError where it cannot be that of a store."""
        said = read_json(path)
        if said.get("format") != _FORMAT:
            raise _damaged(path, "it is no header of a store that this version reads")
        try:
            shards = tuple({key: int(shard[key]) for key in ("pairs", *_SIDES)} for shard in said["shards"])
            header = cls(str(said["dtype"]), tuple(map(int, said["parts"])), int(said["shard_pairs"]), shards)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            raise _damaged(path, "it does not say how much there is") from None
        if header.dtype not in ("uint16", "uint32") or min((0, *header.parts)) < 0 or header.shard_pairs < 1:
            raise _damaged(path, "it does not say how much there is")
        *full, last = [shard["pairs"] for shard in shards] or [0]
        if any(count != header.shard_pairs for count in full) or not 0 <= last <= header.shard_pairs:
            raise _damaged(path, "its shards are not of one size")
        if sum(header.parts) != sum(full) + last:
            raise _damaged(path, "its parts are not the whole")
        return header


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
