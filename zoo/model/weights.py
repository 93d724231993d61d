"""A weights file: the paper's matrices by name, what is known of them, and a digest by which damage is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specs import ZooError
from zoo.storage import digests
from zoo.storage.files import sha256, writing

_DIGEST, _VOCABULARY = "sha256", "vocabulary"
_FACTS = "zoo"
_TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Weights:
    """Tensors by name, one for each matrix of the paper and tied ones once, and facts about them as text.

    Known facts are `steps` (of the checkpoints that they are the mean of, with commas between them) and
    `longest_source` (of the training, in pieces).
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest_source(self) -> int | None:
        """In pieces, EOS not counted; None where the file does not say."""
        said = self.facts.get("longest_source", "")
        return int(said) if said.isdigit() else None

    def write(self, file: Path) -> None:
        """As `zoo.storage.files.writing` does it, for the vocabulary that stands beside `file`, if one does."""
        facts = {**self.facts, _DIGEST: _digest(self.tensors), _VOCABULARY: _vocabulary(file.parent)}
        whole = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        with writing(file) as partial:
            # One entry: several would be written in another order each time.
            safetensors.torch.save_file(whole, partial, metadata={_FACTS: json.dumps(facts, sort_keys=True)})


def read(file: Path) -> Weights:
    """The weights in a file, memory-mapped; their digest is computed where that was not done before.

    Raises ZooError where the file is missing, cut short or changed, where a tensor is not of numbers, and where the
    vocabulary beside it is not the one that the weights were written with.
    """
    try:
        tensors = safetensors.torch.load_file(file)
        with safe_open(file, framework="pt") as opened:
            said = opened.metadata() or {}
        # Files of before have an entry for each fact.
        facts = {str(k): str(v) for k, v in json.loads(said[_FACTS]).items()} if _FACTS in said else said
    except FileNotFoundError:
        raise ZooError(f"`{file}` is missing", hint=_HINT, exit_code=1) from None
    except (SafetensorError, OSError, ValueError, AttributeError) as error:
        raise ZooError(f"`{file}` cannot be read: {error}", hint=_HINT, exit_code=1) from None
    for name, tensor in tensors.items():
        if tensor.dtype not in _TYPES:
            raise ZooError(f"`{file}`: `{name}` is of {tensor.dtype}, which weights are not", hint=_HINT, exit_code=1)
    if _DIGEST in facts and digests.digest(file, lambda: _digest(tensors)) != facts[_DIGEST]:
        problem = f"`{file}` is damaged: its content is not what was written"
        raise ZooError(problem, hint=_HINT, exit_code=1)
    if _VOCABULARY in facts and facts[_VOCABULARY] != _vocabulary(file.parent):
        problem = f"the vocabulary in `{file.parent}` is damaged, or not the one that `{file.name}` was trained with"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1)
    return Weights(tensors, facts)


_HINT = "restore it from where it came from, or make it anew: `zoo average RUN`"


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types, shapes and content, in the order of the names."""
    state = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()


def _vocabulary(folder: Path) -> str:
    """What tells the vocabulary in a folder from any other; nothing where there is none."""
    return " ".join(sha256(file) for file in sorted(folder.glob("vocabulary*.model")))
