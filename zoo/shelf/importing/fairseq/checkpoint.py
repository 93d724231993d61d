"""A checkpoint of fairseq, read without running any of its code: what its pickle calls by name is never called.

`weights_only` reads tensors and plain data alone. What fairseq writes beside them, its options, may be objects of
omegaconf or of its own: they become `Inert` ones, that hold what they were given.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import io
import pickletools
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch
from torch import Tensor

from specs import ZooError
from zoo.storage.content import opened

_ROOMS = ("fairseq.", "omegaconf.", "numpy.")
"""Of what stands there nothing is needed, and all becomes inert."""
_PLAIN: dict[str, Any] = {
    "argparse.Namespace": argparse.Namespace,
    "collections.defaultdict": collections.defaultdict,
    **{f"builtins.{name}": getattr(builtins, name) for name in ("dict", "list", "int", "float", "str", "bool")},
}
_OF_TORCH = {"collections.OrderedDict", "collections.Counter", "_codecs.encode", "builtins.set", "builtins.bytearray"}
_LARGEST_PICKLE = 100_000_000  # bytes, without tensors
_BROKEN = (
    *(UnpicklingError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, OSError, EOFError),
    *(zipfile.BadZipFile, zlib.error, MemoryError),
)
"""What torch raises for files that are not as it wrote them."""
_VALUES, _LEVELS = 100_000, 50
_LEGACY = 5  # pickles at the beginning of a file of before there were zips


class Inert:
    """What a pickle has in place of an object: its state, and nothing that it could do."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        self.state = state


@dataclass(frozen=True)
class Checkpoint:
    """Options by section, a flat one where fairseq had no sections; tensors by fairseq's names."""

    options: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read(file: Path) -> Checkpoint:
    """What a checkpoint holds. Raises ZooError where it is damaged, or calls anything but what fairseq calls."""
    with opened(file):
        pass
    try:
        allowed = [_harmless(name, file) for name in sorted(set(_called(file)))]
        with torch.serialization.safe_globals([*allowed]):
            held = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
        options = _options(held)
    except ZooError:
        raise
    except _BROKEN as error:
        first = next(iter(str(error).splitlines()), "it is cut short")
        problem = f"`{file}` cannot be read: {first}"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1) from None
    if not isinstance(held, dict) or not isinstance(held.get("model"), Mapping):
        raise ZooError(f"`{file}` is no checkpoint of fairseq: it has no `model`", exit_code=1)
    tensors = {name: each for name, each in held["model"].items() if isinstance(each, Tensor)}
    if not isinstance(options, dict):
        raise ZooError(f"`{file}` is no checkpoint of fairseq: it has neither `args` nor `cfg`", exit_code=1)
    return Checkpoint(options, tensors)


def _options(held: Any) -> Any:
    return (plain(held.get("args")) or plain(held.get("cfg"))) if isinstance(held, dict) else None


def plain(value: Any) -> Any:
    """Namespaces and omegaconf's nodes as dictionaries, lists and values.

    Raises ValueError where they are too many or too deep: what stands there once may be meant any number of times.
    """
    return _plain(value, iter(range(_VALUES)), _LEVELS)


def _plain(value: Any, left: Iterator[int], levels: int) -> Any:
    if not levels or next(left, None) is None:
        raise ValueError("its options are too many, or hold each other")
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Inert):
        state = getattr(value, "state", None)
        held = state if isinstance(state, dict) else {}
        return _plain(held.get("_content", held.get("_val")), left, levels - 1)
    if isinstance(value, dict):
        return {str(key): _plain(each, left, levels - 1) for key, each in value.items()}
    return [_plain(each, left, levels - 1) for each in value] if isinstance(value, list | tuple) else value


def _harmless(name: str, file: Path) -> Any:
    """What stands for something that the pickle calls by this name."""
    if name in _PLAIN:
        return (_PLAIN[name], name)
    if name == "typing.Any" or name.startswith(_ROOMS):
        return (Inert, name)
    raise ZooError(
        f"`{file}` calls `{name}`, which no checkpoint of fairseq does",
        hint="nothing in a file of weights is executed: ask whoever made it for one that has tensors and options alone",
        exit_code=1,
    )


def _called(file: Path) -> Iterator[str]:
    """The names that its pickles call and `weights_only` does not know, found without unpickling."""
    for pickle in _pickles(file):
        for operation, argument, _ in pickletools.genops(pickle):
            if operation.name == "GLOBAL":
                called = str(argument).replace(" ", ".", 1).replace("__builtin__.", "builtins.", 1)
                if called not in _OF_TORCH and not called.startswith("torch."):
                    yield called


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
