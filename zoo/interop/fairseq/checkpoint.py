"""Reader of checkpoints of fairseq that runs no code from their pickles.

torch.load with `weights_only=True` loads only tensors and plain data. A checkpoint also contains options, which may be
objects of omegaconf or of fairseq. They are replaced by objects of `InertObject`, which only store the state.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping
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
_CHECKPOINT_HINT = "give a checkpoint that fairseq wrote in training, such as `checkpoint_best.pt`"


class InertObject:
    """Replacement for an object in a pickle. It stores the state of the object and has no behaviour."""

    def __init__(self, *_: object) -> None:
        """Ignore all arguments."""

    def __setstate__(self, state: object) -> None:
        self.state = state


@dataclass(frozen=True)
class Checkpoint:
    """Options and tensors of a checkpoint."""

    options: Mapping[str, Any]
    """Options by section. Older versions of fairseq have no sections, and then this is one flat mapping."""
    tensors: Mapping[str, Tensor]
    """Tensors. The keys are fairseq's tensor names."""


def read(file: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        ZooError: The file is damaged, is not a checkpoint of fairseq, or names a function that fairseq does not use.
    """
    content = torch_files.load(file, "fairseq", _replacement)
    model = content.get("model") if isinstance(content, dict) else None
    options = to_plain_data(content.get("args") or content.get("cfg")) if isinstance(content, dict) else None
    if not isinstance(model, Mapping) or not isinstance(options, dict):
        problem = f"`{file}` is not a checkpoint of fairseq: it has no `model`, or neither `args` nor `cfg`"
        raise ZooError(problem, hint=_CHECKPOINT_HINT, exit_code=1)
    return Checkpoint(options, {str(name): tensor for name, tensor in model.items() if isinstance(tensor, Tensor)})


def to_plain_data(value: Any) -> Any:
    """Convert namespaces and nodes of omegaconf to dictionaries, lists and plain values.

    Raises:
        ValueError: A value is not a number, text, list or mapping.
    """
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, InertObject):
        state = getattr(value, "state", None)
        fields = state if isinstance(state, dict) else {}
        return to_plain_data(fields.get("_content", fields.get("_val")))
    if isinstance(value, dict):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_data(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"an option has the type {type(value).__name__}, but only numbers, text and lists are allowed")


def _replacement(name: str) -> Any:
    """Return the harmless type that replaces a global in a pickle. None if files of fairseq do not use this global."""
    if name in _PLAIN_TYPES:
        return (_PLAIN_TYPES[name], name)
    if name in _REPLACED_TYPES or name.startswith(_REPLACED_MODULES):
        return (InertObject, name)
    return None
