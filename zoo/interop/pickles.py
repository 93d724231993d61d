"""What the pickles in a file of torch's call by name, found without unpickling: nothing that does more than hold."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from specs import ZooError

_OF_TORCH = {"collections.OrderedDict", "collections.Counter", "_codecs.encode", "builtins.set"}
_MAKING = {"torch.Tensor"}
"""What torch would call: by a number alone it takes as much memory. `builtins.bytearray` does, too."""
_LARGEST_PICKLE = 100_000_000  # bytes, without tensors
_LEGACY = 5  # pickles at the beginning of a file of before there were zips


def called(file: Path) -> Iterator[str]:
    """The names that its pickles call beside those with which torch writes tensors."""
    for pickle in _pickles(file):
        for operation, argument, _ in pickletools.genops(pickle):
            if operation.name == "GLOBAL":
                name = str(argument).replace(" ", ".", 1).replace("__builtin__.", "builtins.", 1)
                if name in _MAKING or (name not in _OF_TORCH and not name.startswith("torch.")):
                    yield name


def refused(file: Path, name: str, engine: str) -> ZooError:
    """That a file calls this."""
    return ZooError(
        f"`{file}` calls `{name}`, which no file of {engine} does",
        hint="nothing in a file of weights is executed: ask whoever made it for one that has tensors and options alone",
        exit_code=1,
    )


def _pickles(file: Path) -> Iterator[IO[bytes]]:
    if not zipfile.is_zipfile(file):
        with file.open("rb") as stream:
            yield from [stream] * _LEGACY  # one behind the other
        return
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith("data.pkl"):
                if member.file_size > _LARGEST_PICKLE:
                    raise ValueError(f"its pickle has {member.file_size:,} bytes without the tensors")
                yield io.BytesIO(archive.read(member))
