"""Whether the memory has room for what a spec says, asked before any of it is taken."""

from __future__ import annotations

import torch

from compiler import Purpose, cost, find_device, lower
from specs import Spec
from zoo.planning.footprint import STATE_COPIES
from zoo.system import ram

_LESS = "make the network or the vocabulary smaller: `zoo plan SPEC` says what each of them takes"
_SPREAD = "under torchrun several processes share weights, gradients and moments"
_LOGITS = 16  # bytes for each token of a row: logits, log-probabilities, and what looks for the best of them
_SHARE = 0.5  # of all memory: the rest is for weights, caches and the other batches


def require_to_train(spec: Spec, device: str = "auto", processes: int = 1) -> None:
    """Raises ZooError where weights, gradients and moments, spread over the processes, are more than there is."""
    hint = _LESS if processes > 1 else f"{_LESS}; {_SPREAD}"
    ram.require(
        STATE_COPIES * weight_bytes(spec) // processes,
        torch.device(find_device(device)),
        f"to train `{spec.name}`",
        hint,
    )


def require_to_translate(spec: Spec, device: str = "auto") -> None:
    """Raises ZooError where the weights alone are more than there is."""
    ram.require(weight_bytes(spec), torch.device(find_device(device)), f"to hold the weights of `{spec.name}`", _LESS)


def weight_bytes(spec: Spec) -> int:
    """Of float32."""
    return cost(lower(spec, Purpose.TRAIN)).weight_bytes


def sentences_at_once(spec: Spec, rows: int, device: torch.device) -> int:
    """How many sentences have room for the logits of `rows` hypotheses each. Raises ZooError where not one has."""
    needed = _LOGITS * rows * spec.vocabulary.sizes[1]
    ram.require(needed, device, f"to follow {rows:,} hypotheses of one sentence", "ask for fewer: a narrower beam")
    return max(1, int(_SHARE * ram.there(device)) // needed)
