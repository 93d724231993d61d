"""Safe loading of other toolkits' weight files, which may be damaged or malicious."""

from __future__ import annotations

import io
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import safetensors.torch
import torch
from torch import Tensor

from specs import ZooError
from zoo.files.reading import open_file
from zoo.models.weights import check_header
from zoo.system import memory

_TENSOR_GLOBALS = {"collections.OrderedDict", "collections.Counter", "_codecs.encode", "builtins.set"}
_ALLOCATING_GLOBALS = {"torch.Tensor"}
"""Globals that `weights_only=True` allows, but that a small file can use to allocate any amount of memory."""
_MAX_PICKLE = 100_000_000  # bytes, without tensors
_LEGACY_PICKLES = 5  # pickles at the start of a file in the format used before torch 1.6, which is not a zip archive


class BinaryReader:
    """Reader for a binary file with little-endian numbers and strings."""

    def __init__(self, stream: BinaryIO, file: Path) -> None:
        """Wrap an open file. Raise ZooError if the file is larger than the available memory."""
        self.stream, self.left = stream, os.fstat(stream.fileno()).st_size
        hint = "if the model really has this size, import it on a computer with more memory"
        memory.require_device_memory(self.left, torch.device("cpu"), f"`{file}`", hint)

    def numbers(self, format: str) -> tuple[Any, ...]:
        """Read numbers. `format` specifies their types in the notation of Python's `struct` module."""
        return struct.unpack(f"<{format}", self.bytes(struct.calcsize(f"<{format}")))

    def integer(self, format: str) -> int:
        """Read an integer."""
        (number,) = self.numbers(format)
        return int(number)

    def bytes(self, count: int) -> bytearray:
        """Read `count` bytes. Allocate memory only if the file has that many bytes left."""
        if self.left < count:
            raise ValueError("it is truncated")
        self.left -= count
        buffer = bytearray(count)
        self.stream.readinto(buffer)  # type: ignore[attr-defined]
        return buffer

    def text(self, length: int) -> str:
        """Read a string of `length` bytes, including the zero byte at its end."""
        return self.bytes(length).rstrip(b"\0").decode("utf-8")


def load_tensors(file: Path, toolkit: str) -> dict[str, Tensor]:
    """Load the named tensors in a .safetensors file, or in a file that `torch.save` wrote (see `load_torch_file`).

    Raises:
        ZooError: The file cannot be opened, or is not safe to load.
        Exception: The file is damaged.
    """
    if file.suffix == ".safetensors":
        with open_file(file) as stream:
            check_header(stream, file)
        return safetensors.torch.load_file(file)
    tensors = load_torch_file(file, toolkit)
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise ValueError(f"`{file}` does not contain named tensors")
    return dict(tensors)


def load_torch_file(file: Path, toolkit: str, replacement: Callable[[str], Any] = lambda name: None) -> Any:
    """Load a file that `torch.save` wrote, if its pickles are safe.

    The file is loaded with `torch.load(weights_only=True)`.

    Args:
        file: The file to load.
        toolkit: The toolkit that the file comes from, for error messages.
        replacement: Function that maps the name of a global in the pickle to a harmless object, in the form that
            torch's `safe_globals` expects. If the function returns None, the file is rejected.

    Raises:
        ZooError: The file cannot be opened, or its pickles contain a global that is neither needed for tensors nor
            replaced.
        ValueError: The file is damaged.
    """
    with open_file(file):
        pass  # raise the usual error if the file is missing
    try:
        allowed = []
        for name in sorted(set(_foreign_globals(file))):
            if (harmless := replacement(name)) is None:
                problem = f"`{file}` is not safe to load: it calls `{name}`, which {toolkit} files never call"
                hint = "zoo runs no code from weight files: ask the author for a file with only tensors and options"
                raise ZooError(problem, hint=hint, exit_code=1)
            allowed.append(harmless)
        with torch.serialization.safe_globals(allowed):
            return torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except Exception as error:
        if isinstance(error, ZooError) or memory.is_out_of_memory(error):
            raise
        reason = str(error).strip().partition("\n")[0] or "it is truncated"
        raise ValueError(f"cannot read `{file.name}`: {reason}") from error


def _foreign_globals(file: Path) -> Iterator[str]:
    """Yield the name of each Python global in a file's pickles, except the globals that torch needs for tensors."""
    for pickle in _pickles(file):
        for operation, argument, _ in pickletools.genops(pickle):
            if operation.name == "GLOBAL":
                name = str(argument).replace(" ", ".", 1).replace("__builtin__.", "builtins.", 1)
                if name in _ALLOCATING_GLOBALS or not (name in _TENSOR_GLOBALS or name.startswith("torch.")):
                    yield name


def _pickles(file: Path) -> Iterator[IO[bytes]]:
    if not zipfile.is_zipfile(file):
        with file.open("rb") as stream:
            yield from [stream] * _LEGACY_PICKLES  # each pickle begins where the previous one ends
        return
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.lower().endswith("data.pkl"):  # torch ignores case when it looks for the member
                if member.file_size > _MAX_PICKLE:
                    raise ValueError(f"its pickle has {member.file_size:,} bytes without the tensors")
                yield io.BytesIO(archive.read(member))
