"""Reader of the .npz file of a Marian model, and of the options in it."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import torch

from specs import ZooError
from specs.reader import read_value
from zoo.files.reading import open_file
from zoo.interop.settings import Settings
from zoo.interop.tensors import ForeignTensors

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


def read_npz(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays in an .npz file. Raise ZooError if it is missing or damaged, or contains Python objects."""
    with open_file(file) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except _UNREADABLE as error:
            raise damaged(file, f"it is not an .npz file: {error}") from None
        with archive:
            _check_sizes(file, archive)
            return {_name(member): _read(file, archive, member) for member in archive.infolist()}


def _check_sizes(file: Path, archive: zipfile.ZipFile) -> None:
    """Raise ZooError if the sizes of the files in an archive are implausible for a model."""
    members = archive.infolist()
    names = {_name(member) for member in members}
    if len(names) != len(members) or sum(member.file_size for member in members) > _MAX_UNPACKED:
        raise damaged(file, "it contains a tensor twice, or an implausible amount of data")
    file_size = file.stat().st_size
    for member in members:
        largest = max(_SMALL_MEMBER, _MAX_COMPRESSION * member.compress_size)
        if member.compress_size > file_size or member.file_size > largest:
            raise damaged(file, f"`{member.filename}` would unpack to an implausible size")


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _read(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Return an array. Memory is only allocated if the archive contains that many bytes."""
    name = _name(member)
    try:
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
        if dtype.hasobject:
            raise damaged(file, f"cannot read `{name}`: it contains Python objects, which zoo does not unpickle")
        if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize > member.file_size:
            problem = f"`{name}` has fewer bytes than its header declares: {list(shape)} of {dtype}"
            raise damaged(file, problem[:_MAX_MESSAGE])
        with archive.open(member) as stream:
            array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
    except _UNREADABLE as error:
        raise damaged(file, f"cannot read `{name}`: {error}"[:_MAX_MESSAGE]) from None
    return array


def network_options(arrays: dict[str, np.ndarray], file: Path) -> Settings:
    """Remove and return the options of the network. Raise ZooError if they are missing or not a YAML mapping."""
    if OPTIONS not in arrays:
        hint = "check that the file comes from Marian, which writes this array to each model"
        raise ZooError(f"`{file}` does not contain `{OPTIONS}`", hint=hint)
    where, array = f"{OPTIONS} in {file}", arrays.pop(OPTIONS)
    if array.nbytes > _MAX_OPTIONS:
        raise damaged(file, f"`{OPTIONS}` is longer than {_MAX_OPTIONS:,} bytes")
    if array.dtype.itemsize != 1:
        raise damaged(file, f"`{OPTIONS}` is not text")
    options = read_value(array.tobytes().rstrip(b"\0").decode("utf-8", "replace"), where).plain()
    if not isinstance(options, dict):
        hint = "restore the file from the model's original source"
        raise ZooError("the options are not a mapping of keys to values", where=where, hint=hint)
    return Settings(options, where)


def tensors_of(arrays: Mapping[str, np.ndarray], file: Path) -> ForeignTensors:
    """Return the arrays as tensors in float32. Raise ZooError if an array is quantised."""
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            hint = "import the original float32 model instead"
            raise ZooError(f"`{file}` is a quantised model: `{name}` has the type {array.dtype}", hint=hint)
    tensors = {name: torch.from_numpy(array.astype(np.float32, copy=False)) for name, array in arrays.items()}
    return ForeignTensors(tensors, file)


def damaged(file: Path, reason: str) -> ZooError:
    """Return an error about a damaged model file."""
    return ZooError(f"`{file}` is damaged: {reason}", hint="restore it from its source", exit_code=1)
