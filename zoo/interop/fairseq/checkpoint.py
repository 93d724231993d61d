"""Checkpoints of fairseq, read without running any code that their pickles name.

`weights_only=True` loads only tensors and plain data. A checkpoint also contains options, which may be objects of
omegaconf or of fairseq. Such objects are replaced by `InertObject`, which stores their state and does nothing.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import ZooError
from zoo.interop import torch_files

_REPLACED_MODULES = ("fairseq.", "omegaconf.", "numpy.")
_REPLACED_TYPES = ("typing.Any", *(f"builtins.{name}" for name in ("dict", "list", "int", "float", "str", "bool")))
_PLAIN_TYPES: dict[str, Any] = {
    "argparse.Namespace": argparse.Namespace,
    "collections.defaultdict": collections.defaultdict,
}
_MAX_VALUES, _MAX_DEPTH = 100_000, 50


class InertObject:
    """Replacement of an object in a pickle. It stores the object's state and has no behaviour."""

    def __init__(self, *_: object) -> None:
        """Ignore all arguments."""

    def __setstate__(self, state: object) -> None:
        self.state = state


@dataclass(frozen=True)
class Checkpoint:
    """Options and tensors of a checkpoint."""

    options: Mapping[str, Any]
    """Options by section, or a flat mapping from versions of fairseq without sections."""
    tensors: Mapping[str, Tensor]
    """Tensors by fairseq's names."""


def read(file: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        ZooError: The file is damaged, is not a checkpoint of fairseq, or names a function that fairseq does not use.
    """
    try:
        content = torch_files.load(file, "fairseq", _replacement)
        content = content if isinstance(content, dict) else {}
        options = to_plain_data(content.get("args")) or to_plain_data(content.get("cfg"))
    except torch_files.UNREADABLE as error:
        raise torch_files.unreadable(file, error) from None
    model = content.get("model")
    if not isinstance(model, Mapping):
        raise ZooError(f"`{file}` is not a checkpoint of fairseq: it has no `model`", exit_code=1)
    if not isinstance(options, dict):
        raise ZooError(f"`{file}` is not a checkpoint of fairseq: it has neither `args` nor `cfg`", exit_code=1)
    return Checkpoint(options, {str(name): tensor for name, tensor in model.items() if isinstance(tensor, Tensor)})


def to_plain_data(value: Any) -> Any:
    """Convert namespaces and nodes of omegaconf to dictionaries, lists and plain values.

    Raises:
        ValueError: There are too many values, they are nested too deeply, or one has another type. Objects that refer
            to themselves are nested too deeply.
    """
    return _to_plain_data(value, iter(range(_MAX_VALUES)), _MAX_DEPTH)


def _to_plain_data(value: Any, budget: Iterator[int], depth: int) -> Any:
    """Convert a value. Each value takes one element from the budget, because an object may occur many times."""
    if not depth or next(budget, None) is None:
        raise ValueError("its options have too many values, or refer to themselves")
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, InertObject):
        state = getattr(value, "state", None)
        fields = state if isinstance(state, dict) else {}
        return _to_plain_data(fields.get("_content", fields.get("_val")), budget, depth - 1)
    if isinstance(value, dict):
        return {str(key): _to_plain_data(item, budget, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain_data(item, budget, depth - 1) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"an option has the type {type(value).__name__}, and not a number, text or a list")


def _replacement(name: str) -> Any:
    """Return the harmless type that replaces a global of a pickle, or None if fairseq does not use the global."""
    if name in _PLAIN_TYPES:
        return (_PLAIN_TYPES[name], name)
    if name in _REPLACED_TYPES or name.startswith(_REPLACED_MODULES):
        return (InertObject, name)
    return None
