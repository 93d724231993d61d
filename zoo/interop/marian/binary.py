"""Reader of Marian's binary format (.bin), in which Firefox Translations and Bergamot publish their models.

The file begins with its version and the number of tensors. For each tensor, a header of four integers contains the
length of the name, the type, the number of dimensions, and the number of bytes. All names, all shapes, and padding
follow, and then the tensors. Integers have 8 bytes, and dimensions 4 bytes, in little-endian order.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from specs import ZooError
from zoo.files.reading import is_present, open_file
from zoo.interop.marian.archive import damaged

_VERSION = 1
_INTGEMM8 = 0x4101
"""Type of a quantised matrix: 8-bit integers in a layout that does not depend on the processor, and a multiplier.

The integers are the float values times the multiplier, a float32 that follows them. Matrices are stored transposed,
except embeddings.
"""
_TYPES: dict[int, np.dtype[Any]] = {0x0101: np.dtype("i1"), 0x0404: np.dtype("<f4"), _INTGEMM8: np.dtype("i1")}
_MULTIPLIER_SIZE = 4  # bytes
_MIN_MULTIPLIER = 1e-30  # its reciprocal is finite in float32
_ACTIVATION_MULTIPLIERS = ("_QuantMultA", "_QuantMultB")
"""Endings of the names of tensors that only matter to products of 8-bit integers."""
_HEADER = struct.Struct("<4Q")
_MAX_TENSORS = 100_000
_MAX_NAME = 200  # bytes
_MAX_DIMENSIONS = 8


@dataclass(frozen=True)
class _Stored:
    """Location of a tensor in the file."""

    type: int
    shape: tuple[int, ...]
    offset: int
    size: int
    """Number of bytes, which may include padding."""


class BinaryFile:
    """An open .bin file. Quantised matrices are dequantised to float32 when they are read."""

    def __init__(self, file: Path, stream: BinaryIO) -> None:
        """Read the names, types and shapes of all tensors. Raise ZooError if the file is damaged or not supported."""
        self.file, self._stream = file, stream
        self._size = os.fstat(stream.fileno()).st_size
        self._tensors = self._read_headers()

    @property
    def is_quantised(self) -> bool:
        """Whether the file contains quantised matrices."""
        return any(tensor.type == _INTGEMM8 for tensor in self._tensors.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays that affect products of float32 matrices."""
        return {name: self._read(name) for name in self._tensors if not name.endswith(_ACTIVATION_MULTIPLIERS)}

    def _read(self, name: str) -> np.ndarray:
        """Return a tensor. A quantised matrix is returned in float32."""
        tensor = self._tensors[name]
        dtype = _TYPES[tensor.type]
        self._stream.seek(tensor.offset)
        array: np.ndarray = np.frombuffer(bytearray(self._take(prod(tensor.shape) * dtype.itemsize)), dtype)
        if tensor.type != _INTGEMM8:
            return array.reshape(tensor.shape)
        (multiplier,) = struct.unpack("<f", self._take(_MULTIPLIER_SIZE))
        if not _MIN_MULTIPLIER < multiplier < 1 / _MIN_MULTIPLIER:  # NaN, too
            raise damaged(self.file, f"the quantisation multiplier of `{name}` is {multiplier}")
        matrix = array.reshape(tensor.shape) if "Wemb" in name else array.reshape(tensor.shape[::-1]).T
        dequantised: np.ndarray = np.ascontiguousarray(matrix, np.float32) * np.float32(1 / multiplier)
        return dequantised

    def _read_headers(self) -> dict[str, _Stored]:
        version, count = self._integer(), self._integer()
        if version != _VERSION:
            hint = "give a `.bin` file of Marian, Bergamot or Firefox Translations"
            raise ZooError(
                f"`{self.file}` has the binary version {version}, but zoo reads version {_VERSION}", hint=hint
            )
        if count > _MAX_TENSORS:
            raise damaged(self.file, f"it declares {count:,} tensors, and at most {_MAX_TENSORS:,} are allowed")
        headers = [_HEADER.unpack(self._take(_HEADER.size)) for _ in range(count)]
        if any(length > _MAX_NAME or rank > _MAX_DIMENSIONS for length, _, rank, _ in headers):
            raise damaged(self.file, "the name of a tensor is too long, or a tensor has too many dimensions")
        names = [self._take(length).rstrip(b"\0").decode("utf-8", "replace") for length, *_ in headers]
        shapes = [struct.unpack(f"<{rank}i", self._take(4 * rank)) for _, _, rank, _ in headers]
        padding = self._integer()
        offset = self._stream.tell() + padding
        tensors = {}
        for name, shape, (_, type, _, size) in zip(names, shapes, headers, strict=True):
            self._check(name, type, shape, size)
            tensors[name] = _Stored(type, shape, offset, size)
            offset += size
        if len(tensors) != count or offset > self._size:
            raise damaged(self.file, "it contains a tensor twice, or it is truncated")
        return tensors

    def _check(self, name: str, type: int, shape: tuple[int, ...], size: int) -> None:
        """Raise ZooError if a tensor has an unsupported type, or fewer bytes than its shape requires."""
        if type not in _TYPES:
            hint = "import the float32 model, or one in the format `intgemm8`, which does not depend on the processor"
            raise ZooError(f"`{name}` in `{self.file}` has the type {type:#x}, which zoo does not support", hint=hint)
        required = prod(shape) * _TYPES[type].itemsize + (_MULTIPLIER_SIZE if type == _INTGEMM8 else 0)
        if min(shape, default=0) < 0 or required > size or (type == _INTGEMM8 and len(shape) != 2):
            raise damaged(self.file, f"the shape {list(shape)} of `{name}` does not match its {size:,} bytes")

    def _integer(self) -> int:
        return int.from_bytes(self._take(8), "little")

    def _take(self, count: int) -> bytes:
        """Read this number of bytes. Memory is only allocated if the file has that many bytes left."""
        if count > self._size - self._stream.tell():
            raise damaged(self.file, "it is truncated")
        return self._stream.read(count)


def read_binary(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays in a .bin file. Raise ZooError if it is missing or damaged."""
    with open_file(file) as stream:
        return BinaryFile(file, stream).arrays()


def is_quantised(file: Path) -> bool:
    """Return whether a model is a .bin file with quantised matrices."""
    if not is_binary_model(file):
        return False
    with open_file(file) as stream:
        return BinaryFile(file, stream).is_quantised


def is_binary_model(file: Path) -> bool:
    """Return whether a file is a model in Marian's binary format, judging by its name and its first bytes.

    Models of other toolkits and lexical shortlists of Marian are also named `.bin`, but begin with other bytes.
    """
    if file.suffix != ".bin" or not is_present(file):
        return False
    with open_file(file) as stream:
        return stream.read(8) == _VERSION.to_bytes(8, "little")
