"""Token store: token IDs of sentence pairs in memory-mapped files (shards). Only the lengths are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from specs import ZooError
from zoo.files.atomic import write_json
from zoo.files.reading import read_json
from zoo.text.vocabulary import Side

_FORMAT: Literal[2] = 2
_HEADER_FILE = "header.json"
_SIDES: tuple[Side, Side] = ("source", "target")
_SHARD_PAIRS = 1 << 22  # a few hundred megabytes; each shard takes four file descriptors
TokenRows = Sequence[Sequence[int]]


class StoreWriter:
    """Context manager that writes a token store into an existing folder, chunk by chunk. It writes the header last.

    Each shard contains `shard_pairs` pairs, and the last shard contains the remaining pairs. A shard has two
    little-endian files for the sources and two for the targets (SIDE is `source` or `target`):

    - `NNNNN.SIDE.tokens`: all tokens, one sentence after another.
    - `NNNNN.SIDE.offsets`: the index of the first token of each sentence, and the total number of tokens, as int64.
    """

    def __init__(self, folder: Path, size: int, parts: int = 1, shard_pairs: int = _SHARD_PAIRS) -> None:
        """Prepare to write.

        Args:
            folder: Folder for the files of the store.
            size: Number of tokens in the vocabulary. It determines the integer type of token IDs.
            parts: Number of parts of the corpus.
            shard_pairs: Pairs per shard.
        """
        self._folder, self._shard_pairs = folder, shard_pairs
        self._part_counts = np.zeros(parts, np.int64)
        self._dtype = "uint16" if size <= 1 << 16 else "uint32"
        self._files: dict[str, BinaryIO] = {}
        self._shards: list[dict[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def add(self, source: TokenRows, target: TokenRows, parts: npt.NDArray[np.uint16] | None = None) -> None:
        """Append pairs. Pairs of the same part of the corpus must be adjacent.

        Args:
            source: Token IDs of each source, without EOS.
            target: Token IDs of each target, without BOS and EOS.
            parts: Index of the part of the corpus that each pair belongs to, `[pairs]`. Defaults to the first part.
        """
        part_indices = np.zeros(len(source), np.int64) if parts is None else parts
        self._part_counts += np.bincount(part_indices, minlength=len(self._part_counts))
        start = 0
        while start < len(source):
            if not self._shards or self._shards[-1]["pairs"] == self._shard_pairs:
                self._start_shard()
            end = start + self._shard_pairs - self._shards[-1]["pairs"]
            self._append(source[start:end], target[start:end])
            start = end

    def _start_shard(self) -> None:
        self._close()
        number = len(self._shards)
        for side in _SIDES:
            for content in ("tokens", "offsets"):
                self._files[f"{side}.{content}"] = _shard_path(self._folder, number, f"{side}.{content}").open("wb")
            self._files[f"{side}.offsets"].write(np.zeros(1, "<i8").tobytes())
        self._shards.append(dict.fromkeys(("pairs", *_SIDES), 0))

    def _append(self, source: TokenRows, target: TokenRows) -> None:
        shard = self._shards[-1]
        for side, rows in zip(_SIDES, (source, target), strict=True):
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            offsets = shard[side] + np.cumsum(lengths)
            tokens = np.fromiter(chain.from_iterable(rows), self._dtype, int(lengths.sum()))
            self._files[f"{side}.tokens"].write(tokens.astype(f"<{tokens.dtype.str[1:]}").tobytes())
            self._files[f"{side}.offsets"].write(offsets.astype("<i8").tobytes())
            shard[side] += len(tokens)
        shard["pairs"] += len(source)

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if kind is None:
            header = {"format": _FORMAT, "dtype": self._dtype, "parts": self._part_counts.tolist()}
            write_json(self._folder / _HEADER_FILE, header | {"shard_pairs": self._shard_pairs, "shards": self._shards})


class Store:
    """Token store: sentence pairs as token IDs, without BOS and EOS, read from disk on demand."""

    parts: tuple[int, ...]
    """Number of pairs of each part of `corpus.train`, in order."""

    def __init__(self, folder: Path) -> None:
        """Open a store that a StoreWriter wrote.

        Raises:
            ZooError: A file is missing, truncated or damaged.
        """
        self.folder = folder
        header = _Header.read(folder / _HEADER_FILE)
        self.parts, self._shard_pairs = header.parts, header.shard_pairs
        self._shards: dict[Side, list[_ShardSide]] = {
            side: [
                _ShardSide.open(folder, number, side, header.dtype, counts)
                for number, counts in enumerate(header.shards)
            ]
            for side in _SIDES
        }
        self._lengths = {side: _sentence_lengths(shards) for side, shards in self._shards.items()}

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._lengths["source"])

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """Number of tokens of each source, without EOS: `[pairs]`."""
        return self._lengths["source"]

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        """Number of tokens of each target, without EOS: `[pairs]`."""
        return self._lengths["target"]

    def source(self, index: int) -> npt.NDArray[np.int32]:
        """Return the token IDs of a source, `[length]`."""
        return self._row("source", index)

    def target(self, index: int) -> npt.NDArray[np.int32]:
        """Return the token IDs of a target, `[length]`."""
        return self._row("target", index)

    def _row(self, side: Side, index: int) -> npt.NDArray[np.int32]:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no pair {index}: the store has {len(self)} pairs, counted from 0")
        number, row = divmod(index, self._shard_pairs)
        shard = self._shards[side][number]
        start, end = shard.offsets[row : row + 2]
        return shard.tokens[start:end].astype(np.int32)


class _ShardSide(NamedTuple):
    """Memory-mapped arrays for the sources or the targets of a shard."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path, number: int, side: Side, dtype: str, counts: _ShardCounts) -> Self:
        tokens = _map_file(_shard_path(folder, number, f"{side}.tokens"), dtype, getattr(counts, side))
        path = _shard_path(folder, number, f"{side}.offsets")
        offsets = _map_file(path, "int64", counts.pairs + 1)
        if offsets[0] != 0 or offsets[-1] != len(tokens) or np.diff(offsets).min(initial=0) < 0:
            raise _damaged(path, "the offsets do not match the tokens")
        return cls(tokens, offsets)


def _sentence_lengths(shards: Sequence[_ShardSide]) -> npt.NDArray[np.int32]:
    lengths = np.zeros(sum(len(shard.offsets) - 1 for shard in shards), np.int32)
    start = 0
    for shard in shards:
        end = start + len(shard.offsets) - 1
        np.subtract(shard.offsets[1:], shard.offsets[:-1], out=lengths[start:end], casting="same_kind")
        start = end
    lengths.flags.writeable = False
    return lengths


def _shard_path(folder: Path, number: int, suffix: str) -> Path:
    return folder / f"{number:05d}.{suffix}"


class _ShardCounts(BaseModel):
    """Number of pairs in a shard, and numbers of source and target tokens."""

    pairs: NonNegativeInt
    source: NonNegativeInt
    target: NonNegativeInt


class _Header(BaseModel):
    format: Literal[2]
    dtype: Literal["uint16", "uint32"]
    parts: tuple[NonNegativeInt, ...]
    shard_pairs: PositiveInt
    shards: tuple[_ShardCounts, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the header in a file, after checking that its numbers are consistent."""
        try:
            header = cls.model_validate(read_json(path))
        except ValidationError:
            raise _damaged(path, f"it is not the header of a token store in format {_FORMAT}") from None
        *full, last = [shard.pairs for shard in header.shards] or [0]
        if any(count != header.shard_pairs for count in full) or last > header.shard_pairs:
            raise _damaged(path, "the shards do not have the size in the header")
        if sum(header.parts) != sum(full) + last:
            raise _damaged(path, "the parts and the shards have different numbers of pairs")
        return header


def _map_file(path: Path, dtype: str, count: int) -> npt.NDArray[Any]:
    little_endian = np.dtype(dtype).newbyteorder("<")
    try:
        actual, expected = path.stat().st_size, count * little_endian.itemsize
        if actual != expected:
            raise _damaged(path, f"it has {actual:,} bytes, not {expected:,}")
        return np.memmap(path, little_endian, mode="r").view(np.ndarray) if count else np.zeros(0, little_endian)
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}", exit_code=1) from None


def _damaged(path: Path, reason: str) -> ZooError:
    hint = f"remove the folder `{path.parent}` and run `zoo prepare` again"
    return ZooError(f"`{path}` is damaged: {reason}", hint=hint, exit_code=1)
