"""Store: the values of examples in memory-mapped files (shards). Only their lengths are in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from zoo.files.atomic import write_json
from zoo.files.reading import read_json

_FORMAT = 3
_HEADER_FILE = "header.json"
_SHARD_EXAMPLES = 1 << 22  # a few hundred megabytes; each shard takes four file descriptors
Values = npt.NDArray[np.int32 | np.float32]
"""Token IDs `[length]`, or frames of features `[length, width]`."""
Rows = Mapping[str, Sequence[Sequence[int] | Values]]
"""Values of several examples, by the name of the stream."""


class StoreWriter:
    """Context manager that writes a store into an existing folder, chunk by chunk. On exit, it writes the header.

    Each shard contains `shard_examples` examples, and the last shard contains the remaining examples. A shard has two
    little-endian files for each stream:

    - `NNNNN.STREAM.values`: all values, one example after another.
    - `NNNNN.STREAM.offsets`: the index of the first value of each example, and the total number of values, as int64. In
      a stream of features, a value is a frame.
    """

    def __init__(
        self,
        folder: Path,
        dtypes: Mapping[str, str],
        parts: int = 1,
        shard_examples: int = _SHARD_EXAMPLES,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        """Prepare to write.

        Args:
            folder: Folder for the files of the store.
            dtypes: Data type of the values of each stream.
            parts: Number of parts of the corpus.
            shard_examples: Number of examples per shard.
            widths: Number of features per frame in each stream of features.
        """
        self._folder, self._dtypes, self._shard_examples = folder, dtypes, shard_examples
        self._widths = dict(widths or {})
        self._part_counts = np.zeros(parts, np.int64)
        self._files: dict[str, BinaryIO] = {}
        self._shards: list[dict[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def add(self, rows: Rows, parts: npt.NDArray[np.uint16] | None = None) -> None:
        """Append examples. Examples from the same corpus part must be adjacent.

        Args:
            rows: Values of each stream, without BOS and EOS.
            parts: For each example, the index of its corpus part. Default: 0 for all examples.
        """
        count = len(next(iter(rows.values())))
        part_indices = np.zeros(count, np.int64) if parts is None else parts
        self._part_counts += np.bincount(part_indices, minlength=len(self._part_counts))
        start = 0
        while start < count:
            if not self._shards or self._shards[-1]["examples"] == self._shard_examples:
                self._start_shard()
            end = start + self._shard_examples - self._shards[-1]["examples"]
            self._append({name: values[start:end] for name, values in rows.items()})
            start = end

    def _start_shard(self) -> None:
        self._close()
        number = len(self._shards)
        for name in self._dtypes:
            for content in ("values", "offsets"):
                self._files[f"{name}.{content}"] = _shard_path(self._folder, number, f"{name}.{content}").open("wb")
            self._files[f"{name}.offsets"].write(np.zeros(1, "<i8").tobytes())
        self._shards.append(dict.fromkeys(("examples", *self._dtypes), 0))

    def _append(self, rows: Rows) -> None:
        shard = self._shards[-1]
        for name, dtype in self._dtypes.items():
            lengths = np.fromiter(map(len, rows[name]), np.int64, len(rows[name]))
            offsets = shard[name] + np.cumsum(lengths)
            if name in self._widths:
                values = np.concatenate([*rows[name], np.zeros((0, self._widths[name]))], dtype=dtype)
            else:
                values = np.fromiter(chain.from_iterable(rows[name]), dtype, int(lengths.sum()))
            self._files[f"{name}.values"].write(values.astype(f"<{values.dtype.str[1:]}").tobytes())
            self._files[f"{name}.offsets"].write(offsets.astype("<i8").tobytes())
            shard[name] += len(values)
        shard["examples"] += len(lengths)

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()
        if kind is None:
            header = {"format": _FORMAT, "streams": dict(self._dtypes), "parts": self._part_counts.tolist()}
            header |= {"widths": self._widths} if self._widths else {}
            shards = {"shard_examples": self._shard_examples, "shards": self._shards}
            write_json(self._folder / _HEADER_FILE, header | shards)


class Store:
    """Store of examples: the values of each stream, without BOS and EOS, read from disk on demand."""

    parts: list[int]
    """Number of examples in each part of `corpus.train`, in order."""
    lengths: Mapping[str, npt.NDArray[np.int32]]
    """Number of values in each example, without EOS, by stream: `[examples]`."""

    def __init__(self, folder: Path) -> None:
        """Open a store that a `StoreWriter` wrote. Only the header is checked.

        Raises:
            ZooError: The header is missing.
        """
        self.folder = folder
        header = read_json(folder / _HEADER_FILE)
        self.parts, self._shard_examples = header["parts"], header["shard_examples"]
        self._dtypes: Mapping[str, str] = header["streams"]
        widths: Mapping[str, int] = header.get("widths", {})
        self._shards = {
            name: [
                _Column.open(folder, number, name, dtype, widths.get(name)) for number in range(len(header["shards"]))
            ]
            for name, dtype in self._dtypes.items()
        }
        self.lengths = {name: _lengths(shards) for name, shards in self._shards.items()}

    def __len__(self) -> int:
        """Return the number of examples."""
        return sum(self.parts)

    def has_eos(self, stream: str) -> bool:
        """Return whether EOS follows the values of an example in a batch: after token IDs, but not after features."""
        return not self._dtypes[stream].startswith("float")

    def row(self, stream: str, index: int) -> Values:
        """Return one stream of an example: int32 token IDs `[length]`, or float32 features `[length, width]`."""
        return self.rows(stream, np.array([index]))[0]

    def rows(self, stream: str, indices: npt.NDArray[np.int64]) -> list[Values]:
        """Return one stream of the examples with these indices, in this order.

        The values from the same shard are views of one array.
        """
        if len(wrong := indices[(indices < 0) | (indices >= len(self))]):
            raise IndexError(f"there is no example {wrong[0]}: the store has {len(self)} examples, counted from 0")
        dtype = np.int32 if self.has_eos(stream) else np.float32
        numbers, rows = np.divmod(indices, self._shard_examples)
        found: dict[int, Values] = {}
        for number in np.unique(numbers).tolist():
            shard, places = self._shards[stream][number], np.flatnonzero(numbers == number)
            starts, ends = (shard.offsets[rows[places] + after] for after in (0, 1))
            bounds = np.cumsum(ends - starts)
            shifts = np.repeat(ends - bounds, ends - starts)  # from an index in the result to the index in the shard
            values = shard.values[np.arange(len(shifts)) + shifts].astype(dtype)
            pairs = pairwise([0, *bounds.tolist()])
            found |= {place: values[start:end] for place, (start, end) in zip(places.tolist(), pairs, strict=True)}
        return [found[place] for place in range(len(indices))]


def longest_input(store: Store) -> int:
    """Return the length of the longest source without EOS or, for a language model, of the longest target."""
    return int(next(iter(store.lengths.values())).max())


class _Column(NamedTuple):
    """Memory-mapped arrays for one stream of a shard."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path, number: int, stream: str, dtype: str, width: int | None) -> Self:
        files = (_shard_path(folder, number, f"{stream}.{content}") for content in ("values", "offsets"))
        values, offsets = map(_map_file, files, (dtype, "int64"))
        return cls(values if width is None else values.reshape(-1, width), offsets)


def _lengths(shards: Sequence[_Column]) -> npt.NDArray[np.int32]:
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


def _map_file(path: Path, dtype: str) -> npt.NDArray[Any]:
    little_endian = np.dtype(dtype).newbyteorder("<")
    if not path.stat().st_size:
        return np.zeros(0, little_endian)
    return np.memmap(path, little_endian, mode="r").view(np.ndarray)
