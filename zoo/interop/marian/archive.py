"""The tensors in an .npz of Marian, read one by one."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
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

OPTIONS = "special:model.yml"
_LONGEST = 100_000  # bytes of the options
_LARGEST = 1 << 36  # bytes of all that is in it
_SHOWN = 300  # characters of what others wrote
# NotImplementedError: a way of packing that zipfile does not know; RuntimeError: a password.
_UNREADABLE = (
    *(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, MemoryError, RuntimeError),
    *(SyntaxError, TypeError, tokenize.TokenError),
)
"""What zipfile and numpy raise for files that are not as they were written."""
_SMALL, _PACKED = 1_000_000, 20
"""Bytes of a member that may pack to anything, and how often larger than packed another may be: weights hardly pack."""


class Archive:
    """An .npz that is open. Who reads a tensor takes it out; what is left at the end was not known."""

    def __init__(self, file: Path, within: zipfile.ZipFile) -> None:
        self.file, self._within = file, within
        members = within.infolist()
        self._members = {each.filename.removesuffix(".npy"): each for each in members}
        self.left = {*self._members}
        if len(self.left) != len(members) or sum(each.file_size for each in members) > _LARGEST:
            raise _damaged(file, "it has a tensor twice, or more than any model")
        there = file.stat().st_size
        for each in members:
            if each.compress_size > there or each.file_size > max(_SMALL, _PACKED * each.compress_size):
                raise _damaged(file, f"`{each.filename}` unpacks to more than it can hold")

    def options(self) -> Settings:
        """What `special:model.yml` says. Raises ZooError where it is missing or is no mapping."""
        if OPTIONS not in self.left:
            hint = "Marian writes it into each model; one without it is not Marian's"
            raise ZooError(f"`{self.file}` does not hold `{OPTIONS}`", hint=hint)
        place = f"{OPTIONS} in {self.file}"
        if self._members[OPTIONS].file_size > _LONGEST:
            raise _damaged(self.file, f"`{OPTIONS}` is longer than any")
        array = self._array(OPTIONS)
        if array.dtype.itemsize != 1:
            raise _damaged(self.file, f"`{OPTIONS}` is no text")
        text = array.tobytes().rstrip(b"\0").decode("utf-8", "replace")
        found = read_value(text, place).plain()
        if not isinstance(found, dict):
            raise ZooError("it holds no options", where=place)
        return Settings(found, place)

    def has(self, name: str) -> bool:
        return name in self.left

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, which stays. Raises ZooError where it is missing or no matrix."""
        self._require(name)
        shape, _ = self._header(name)
        if len(shape) != 2:
            raise _damaged(self.file, f"`{name}` is {list(shape)}, and no matrix")
        return shape

    def take(self, name: str, *shape: int) -> Float32[Tensor, ...]:
        """A tensor, of this shape, where one is told. Raises ZooError where it is missing or otherwise."""
        self._require(name)
        array = self._array(name)
        if array.dtype.kind != "f":
            hint = "import the model that it was made of, in float32"
            raise ZooError(f"`{self.file}`: `{name}` is of {array.dtype}, as quantised models are", hint=hint)
        tensor = torch.from_numpy(array.astype(np.float32, copy=False))
        if shape and tuple(tensor.shape) != shape:
            raise _damaged(self.file, f"`{name}` is {list(tensor.shape)}, and its options say {list(shape)}")
        return tensor

    def vector(self, name: str, width: int) -> Float32[Tensor, " width"]:
        """One that Marian has as a matrix of one row."""
        return self.take(name, 1, width).flatten()

    def finish(self) -> None:
        """Raises ZooError where a tensor is left, whose meaning is not known."""
        if self.left:
            several = f" and {len(self.left) - 1} more" if len(self.left) > 1 else ""
            raise ZooError(
                f"`{self.file}` has the tensor `{min(self.left)}`{several}, which is no part of what a spec can say"
            )

    def _require(self, name: str) -> None:
        if name not in self.left:
            raise ZooError(f"`{self.file}` has no tensor `{name}`, which its options ask for", exit_code=1)

    def _array(self, name: str) -> np.ndarray:
        """Taken out. No memory is taken for what is not there."""
        self.left.discard(name)
        shape, kind = self._header(name)
        if kind.hasobject:
            raise _damaged(self.file, f"`{name}` cannot be read: it has objects, which are not unpickled")
        if min(shape, default=0) < 0 or prod(shape) * kind.itemsize > self._members[name].file_size:
            raise _damaged(self.file, f"`{name}` is said to be {list(shape)} of {kind}, which it is not"[:_SHOWN])
        with self._entry(name) as stream:
            array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return array

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type."""
        with self._entry(name) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, kind = read(stream)
        return shape, kind

    @contextmanager
    def _entry(self, name: str) -> Iterator[IO[bytes]]:
        """What is read of it, and what goes wrong in that, told."""
        try:
            with self._within.open(self._members[name]) as stream:
                yield stream
        except _UNREADABLE as error:
            raise _damaged(self.file, f"`{name}` cannot be read: {error}"[:_SHOWN]) from None


@contextmanager
def archive(file: Path) -> Iterator[Archive]:
    """An .npz, open. Raises ZooError where it is missing or damaged."""
    with open_file(file) as stream:
        try:
            within = zipfile.ZipFile(stream)
        except _UNREADABLE as error:
            raise _damaged(file, f"it is no .npz: {error}") from None
        with within:
            yield Archive(file, within)


def _damaged(file: Path, why: str) -> ZooError:
    return ZooError(f"`{file}` is damaged: {why}", hint="restore it from where it came from", exit_code=1)
