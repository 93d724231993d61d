"""Reader of the tensors of a Marian model, and of its .npz file. It reads one tensor at a time."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from specs import ZooError
from specs.reader import read_value
from zoo.files.reading import open_file
from zoo.interop.settings import Settings
from zoo.interop.tensors import RESTORE, require_none_left

OPTIONS = "special:model.yml"
_MAX_OPTIONS = 100_000  # bytes
_MAX_UNPACKED = 1 << 36  # bytes of all tensors
_MAX_MESSAGE = 300  # characters
_UNREADABLE = (
    *(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, MemoryError),
    *(SyntaxError, TypeError, tokenize.TokenError),
    RuntimeError,  # a password, or (NotImplementedError) a compression that zipfile does not support
)
"""Exceptions that zipfile and numpy raise for damaged files."""
_SMALL_MEMBER = 1_000_000  # bytes; the compression ratio of smaller members is not checked
_MAX_COMPRESSION = 20  # maximum ratio of larger members, because weights hardly compress


class Archive(ABC):
    """An open model file. Each tensor is removed when it is used. Tensors that are left at the end are an error."""

    def __init__(self, file: Path, names: Collection[str]) -> None:
        """Store the names of all tensors in the file."""
        self.file, self.left = file, {*names}

    @property
    def is_quantised(self) -> bool:
        """Whether the file contains quantised matrices."""
        return False

    @abstractmethod
    def stored_size(self, name: str) -> int:
        """Return the size of a tensor in the file, in bytes."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, without removing it."""

    @abstractmethod
    def read(self, name: str) -> np.ndarray:
        """Return a tensor. Memory is only allocated if the file contains that many bytes."""

    def options(self) -> Settings:
        """Remove and return the options of the network. Raise ZooError if they are missing or not a YAML mapping."""
        if OPTIONS not in self.left:
            hint = "check that the file comes from Marian, which writes this array to each model"
            raise ZooError(f"`{self.file}` does not contain `{OPTIONS}`", hint=hint)
        where = f"{OPTIONS} in {self.file}"
        if self.stored_size(OPTIONS) > _MAX_OPTIONS:
            raise damaged(self.file, f"`{OPTIONS}` is longer than {_MAX_OPTIONS:,} bytes")
        array = self._remove(OPTIONS)
        if array.dtype.itemsize != 1:
            raise damaged(self.file, f"`{OPTIONS}` is not text")
        options = read_value(array.tobytes().rstrip(b"\0").decode("utf-8", "replace"), where).plain()
        if not isinstance(options, dict):
            hint = "restore the file from the model's original source"
            raise ZooError("the options are not a mapping of keys to values", where=where, hint=hint)
        return Settings(options, where)

    def has(self, name: str) -> bool:
        """Return whether a tensor exists and was not removed."""
        return name in self.left

    def rows(self, name: str) -> int:
        """Return the number of rows of a matrix, without removing it. Raise ZooError if there is no such matrix."""
        self._require(name)
        shape = self.shape(name)
        if len(shape) != 2:
            raise damaged(self.file, f"`{name}` has shape {list(shape)} and is not a matrix")
        return shape[0]

    def take(self, name: str, *shape: int) -> Float32[Tensor, ...]:
        """Remove a tensor and return it in float32.

        Args:
            name: The name of the tensor.
            shape: The required shape. By default, any shape.

        Raises:
            ZooError: The tensor is missing, damaged or quantised, or has another shape.
        """
        self._require(name)
        array = self._remove(name)
        if array.dtype.kind != "f":
            hint = "import the original float32 model instead"
            raise ZooError(f"`{self.file}` is a quantised model: `{name}` has the type {array.dtype}", hint=hint)
        tensor = torch.from_numpy(array.astype(np.float32, copy=False))
        if shape and tuple(tensor.shape) != shape:
            problem = f"`{name}` has shape {list(tensor.shape)}, but the model's options require {list(shape)}"
            raise damaged(self.file, problem)
        return tensor

    def take_vector(self, name: str, size: int) -> Float32[Tensor, " size"]:
        """Remove a vector and return it. Marian stores it as a matrix with one row."""
        return self.take(name, 1, size).flatten()

    def require_all_taken(self) -> None:
        """Raise ZooError if a tensor was not removed."""
        require_none_left(self.file, self.left)

    def _require(self, name: str) -> None:
        if name not in self.left:
            raise ZooError(
                f"`{self.file}` has no tensor `{name}`, which the model's options require", hint=RESTORE, exit_code=1
            )

    def _remove(self, name: str) -> np.ndarray:
        self.left.discard(name)
        return self.read(name)


class NpzArchive(Archive):
    """An open .npz file."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        """Check the sizes of all files in the archive. Raise ZooError if they are implausible for a model."""
        self._archive = archive
        members = archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        super().__init__(file, self._members)
        if len(self.left) != len(members) or sum(member.file_size for member in members) > _MAX_UNPACKED:
            raise damaged(file, "it contains a tensor twice, or an implausible amount of data")
        file_size = file.stat().st_size
        for member in members:
            largest = max(_SMALL_MEMBER, _MAX_COMPRESSION * member.compress_size)
            if member.compress_size > file_size or member.file_size > largest:
                raise damaged(file, f"`{member.filename}` would unpack to an implausible size")

    def stored_size(self, name: str) -> int:
        """Return the unpacked size of a file in the archive, in bytes."""
        return self._members[name].file_size

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, without removing it."""
        return self._header(name)[0]

    def read(self, name: str) -> np.ndarray:
        """Return a tensor. Memory is only allocated if the archive contains that many bytes."""
        shape, dtype = self._header(name)
        if dtype.hasobject:
            raise damaged(self.file, f"cannot read `{name}`: it contains Python objects, which zoo does not unpickle")
        if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize > self._members[name].file_size:
            problem = f"`{name}` has fewer bytes than its header declares: {list(shape)} of {dtype}"
            raise damaged(self.file, problem[:_MAX_MESSAGE])
        with self._open(name) as stream:
            array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return array

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and the type of a tensor."""
        with self._open(name) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
        return shape, dtype

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._archive.open(self._members[name]) as stream:
                yield stream
        except _UNREADABLE as error:
            raise damaged(self.file, f"cannot read `{name}`: {error}"[:_MAX_MESSAGE]) from None


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """Open an .npz file. Raise ZooError if it is missing or damaged."""
    with open_file(file) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except _UNREADABLE as error:
            raise damaged(file, f"it is not an .npz file: {error}") from None
        with archive:
            yield NpzArchive(file, archive)


def damaged(file: Path, reason: str) -> ZooError:
    """Return an error about a damaged model file."""
    return ZooError(f"`{file}` is damaged: {reason}", hint="restore it from its source", exit_code=1)
