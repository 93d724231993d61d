"""A checkpoint of fairseq, read without running any of its code: what its pickle calls by name is never called.

`weights_only` reads tensors and plain data alone. What fairseq writes beside them, its options, may be objects of
omegaconf or of its own: they become `Inert` ones, that hold what they were given.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from specs import ZooError
from zoo.files.reading import open_file
from zoo.interop.pickles import called, refused

_ROOMS = ("fairseq.", "omegaconf.", "numpy.")
"""Of what stands there nothing is needed, and all becomes inert."""
_PLAIN: dict[str, Any] = {
    "argparse.Namespace": argparse.Namespace,
    "collections.defaultdict": collections.defaultdict,
    **{f"builtins.{name}": getattr(builtins, name) for name in ("dict", "list", "int", "float", "str", "bool")},
}
_BROKEN = (
    *(UnpicklingError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, OSError, EOFError),
    *(zipfile.BadZipFile, zlib.error, MemoryError),
)
"""What torch raises for files that are not as it wrote them."""
_VALUES, _LEVELS = 100_000, 50


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
    with open_file(file):
        pass
    try:
        allowed = [_harmless(name, file) for name in sorted(set(called(file)))]
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
    tensors = {str(name): each for name, each in held["model"].items() if isinstance(each, Tensor)}
    if not isinstance(options, dict):
        raise ZooError(f"`{file}` is no checkpoint of fairseq: it has neither `args` nor `cfg`", exit_code=1)
    return Checkpoint(options, tensors)


def _options(held: Any) -> Any:
    return (plain(held.get("args")) or plain(held.get("cfg"))) if isinstance(held, dict) else None


def plain(value: Any) -> Any:
    """Namespaces and omegaconf's nodes as dictionaries, lists and values.

    Raises ValueError where they are too many or too deep (what stands there once may be meant any number of times), and
    where one is none of these.
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
    if isinstance(value, list | tuple):
        return [_plain(each, left, levels - 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"an option is of {type(value).__name__}, and not a number, a word or a list")


def _harmless(name: str, file: Path) -> Any:
    """What stands for something that the pickle calls by this name."""
    if name in _PLAIN:
        return (_PLAIN[name], name)
    if name == "typing.Any" or name.startswith(_ROOMS):
        return (Inert, name)
    raise refused(file, name, "fairseq")
