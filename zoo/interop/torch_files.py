"""Safe loading of files that `torch.save` wrote: no code from their pickles is run."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import torch

from specs import ZooError
from zoo.files.reading import open_file
from zoo.system.memory import is_out_of_memory

_TENSOR_GLOBALS = {"collections.OrderedDict", "collections.Counter", "_codecs.encode", "builtins.set"}
_ALLOCATING_GLOBALS = {"torch.Tensor"}
"""Globals that `weights_only=True` allows, but with which a small file can allocate any amount of memory."""
_MAX_PICKLE = 100_000_000  # bytes, without tensors
_LEGACY_PICKLES = 5  # pickles at the beginning of a file in the format before torch 1.6, which is not a zip archive


def load(file: Path, toolkit: str, replacement: Callable[[str], Any] = lambda name: None) -> Any:
    """Load the content of a file with `weights_only=True`.

    Args:
        file: The file.
        toolkit: The toolkit that the file comes from, for error messages.
        replacement: Function that maps the name of a global in the pickle to a harmless object, as an element of
            torch's `safe_globals`. If it returns None, the file is rejected.

    Raises:
        ZooError: The file cannot be opened, or its pickles contain a global that is neither needed for tensors nor
            replaced.
        ValueError: The file is damaged.
    """
    with open_file(file):
        pass  # raise the usual error if the file is missing
    try:
        return _load(file, toolkit, replacement)
    except Exception as error:
        if isinstance(error, ZooError) or is_out_of_memory(error):
            raise
        reason = str(error).strip().partition("\n")[0] or "it is truncated"
        raise ValueError(f"cannot read `{file.name}`: {reason}") from error


def _load(file: Path, toolkit: str, replacement: Callable[[str], Any]) -> Any:
    allowed = []
    for name in sorted(set(_foreign_globals(file))):
        if (harmless := replacement(name)) is None:
            raise ZooError(
                f"`{file}` is not safe to load: it calls `{name}`, which files of {toolkit} never do",
                hint="zoo runs no code from weight files: ask the author for a file with only tensors and options",
                exit_code=1,
            )
        allowed.append(harmless)
    with torch.serialization.safe_globals(allowed):
        return torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))


def _foreign_globals(file: Path) -> Iterator[str]:
    """Yield the name of each Python global in a file's pickles, except those that torch needs for tensors."""
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
