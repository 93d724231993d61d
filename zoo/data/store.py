"""Store: token IDs or features of examples in memory-mapped files. Only the lengths are kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from zoo.files.atomic import write_json
from zoo.files.reading import read_json

_HEADER_FILE = "header.json"
Values = npt.NDArray[np.int32 | np.float32]
"""Token IDs `[length]`, or frames of features `[length, width]`."""
Rows = Mapping[str, Sequence[Sequence[int] | Values]]
"""Values of several examples, keyed by stream name."""


def are_tokens(values: npt.NDArray[Any]) -> bool:
    """Return whether values are integers, which are token IDs. Otherwise they are features, which have no BOS and EOS.

    The modality of a stream determines this, because it chooses the data type (see `Modality.dtype`).
    """
    return values.dtype.kind != "f"


class StoreWriter:
    """Context manager that writes a store into an existing folder, chunk by chunk. On exit, it writes the header.

    A store has two little-endian files for each stream:

    - `00000.STREAM.values`: all values, one example after another.
    - `00000.STREAM.offsets`: the index of the first value of each example, and the total number of values, as int64. In
      a stream of features, a value is a frame.
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, npt.DTypeLike], parts: int = 1) -> None:
        """Create a writer for a store.

        Args:
            folder: Folder for the files of the store.
            dtypes: Data type of the values of each stream (see `Modality.dtype`).
            parts: Number of corpus parts.
        """
        self._folder, self._dtypes = folder, {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._part_counts = np.zeros(parts, np.int64)
        self._files: dict[str, BinaryIO] = {}
        self._sizes = dict.fromkeys(dtypes, 0)

    def __enter__(self) -> Self:
        for name in self._dtypes:
            for content in ("values", "offsets"):
                self._files[f"{name}.{content}"] = _path(self._folder, f"{name}.{content}").open("wb")
            self._files[f"{name}.offsets"].write(np.zeros(1, "<i8").tobytes())
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
        for name, dtype in self._dtypes.items() if count else ():
            lengths = np.fromiter(map(len, rows[name]), np.int64, count)
            offsets = self._sizes[name] + np.cumsum(lengths)
            values = np.fromiter(chain.from_iterable(rows[name]), dtype.newbyteorder("<"), int(lengths.sum()))
            self._files[f"{name}.values"].write(values.tobytes())
            self._files[f"{name}.offsets"].write(offsets.astype("<i8").tobytes())
            self._sizes[name] += len(values)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            streams = {name: dtype.base.name for name, dtype in self._dtypes.items()}
            widths = {name: dtype.shape[0] for name, dtype in self._dtypes.items() if dtype.shape}
            header = {"streams": streams, "parts": self._part_counts.tolist(), "widths": widths}
            write_json(self._folder / _HEADER_FILE, header)


class Store:
    """Encoded examples on disk, read on demand: the token IDs or features of each stream, without BOS and EOS."""

    parts: list[int]
    """Number of examples in each part of `corpus.train`, in order."""
    lengths: dict[str, npt.NDArray[np.int32]]
    """Number of values in each example, excluding EOS, by stream: `[examples]`."""

    def __init__(self, folder: Path) -> None:
        """Open a store that a `StoreWriter` wrote. The files are not checked (see `PreparedCorpus`).

        Raises:
            ZooError: The header is missing.
        """
        header = read_json(folder / _HEADER_FILE)
        self.parts = header["parts"]
        widths = header.get("widths", {})
        self._values, self._offsets, self.lengths = dict[str, npt.NDArray[Any]](), dict[str, npt.NDArray[Any]](), {}
        for name, dtype in header["streams"].items():
            shape = (widths[name],) if name in widths else ()
            self._values[name] = _map_file(_path(folder, f"{name}.values"), np.dtype((dtype, shape)))
            self._offsets[name] = offsets = _map_file(_path(folder, f"{name}.offsets"), np.dtype(np.int64))
            lengths = np.empty(len(offsets[1:]), np.int32)
            self.lengths[name] = np.subtract(offsets[1:], offsets[:-1], out=lengths, casting="same_kind")

    def __len__(self) -> int:
        """Return the number of examples."""
        return sum(self.parts)

    def has_eos(self, stream: str) -> bool:
        """Return whether batches append EOS to each example of a stream: true for token IDs, false for features."""
        return are_tokens(self._values[stream])

    def row(self, stream: str, index: int) -> Values:
        """Return one stream of an example: int32 token IDs `[length]`, or float32 features `[length, width]`."""
        return self.rows(stream, np.array([index]))[0]

    def rows(self, stream: str, indices: npt.NDArray[np.int64]) -> list[Values]:
        """Return one stream of the examples with these indices, in this order. The values are views of one array."""
        dtype = np.int32 if self.has_eos(stream) else np.float32
        starts, ends = (self._offsets[stream][indices + after] for after in (0, 1))
        bounds = np.cumsum(ends - starts)
        shifts = np.repeat(ends - bounds, ends - starts)  # from an index in the result to the index in the file
        values = self._values[stream][np.arange(len(shifts)) + shifts].astype(dtype)
        return [values[start:end] for start, end in pairwise([0, *bounds.tolist()])]


def longest_input(store: Store) -> int:
    """Return the length, excluding EOS, of the longest source or, for a language model, of the longest target."""
    return int(next(iter(store.lengths.values())).max())


def _path(folder: Path, suffix: str) -> Path:
    return folder / f"00000.{suffix}"


def _map_file(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    little_endian = dtype.newbyteorder("<")
    if not path.exists() or not path.stat().st_size:
        return np.zeros(0, little_endian)
    return np.memmap(path, little_endian, mode="r").view(np.ndarray)
