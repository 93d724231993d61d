"""Estimate memory, disk space and FLOPs of training, and check that there is enough memory to train or translate.

This module does not import torch, so that `zoo plan` is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import compiler
from specs import Spec
from zoo.system import memory

if TYPE_CHECKING:
    import torch

    from zoo.data.batches import BatchSize

LENGTH = 27
"""Default number of tokens per sentence: the typical length of an English sentence in newstest2014, including EOS."""
KEPT_OPTIMISERS = 2
"""Number of newest checkpoints that contain the optimiser's state. Older checkpoints contain only weights."""
STATE_COPIES = 4
"""Number of tensors per weight during training: the weight, its gradient and Adam's two moments."""
_PROCESS_BYTES = 260_000_000
"""Memory that a process needs for training in addition to weights, moments and activations: libraries, buffers,
products prepared by oneDNN, and gaps between tensors of varying sizes. Measured on specs from tiny to base."""
_SMALLER_MODEL = "make the network or the vocabulary smaller; to see the size of each layer, run `zoo plan SPEC`"
_SHARDING = "or start several processes with torchrun, which share weights, gradients and moments"
_LOGIT_BYTES = 16
"""Memory per hypothesis and vocabulary entry, in bytes: logits, log-probabilities, and search for the best tokens."""
_LOGIT_SHARE = 0.5
"""Fraction of the memory that logits may fill. The rest is for weights, caches and other batches."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory and disk space that a training run needs, and the FLOPs of its matrix products."""

    state_bytes: int
    """Memory for weights, gradients and Adam's two moments."""
    activation_bytes: int
    """Memory for the activations that the backward pass needs, for one accumulation step of a full batch."""
    disk_bytes: int
    """Maximum total size of all checkpoints and the averaged weights, while a further checkpoint is being written."""
    step_flops: int
    """FLOPs of the forward and backward pass over a full batch."""


def estimate_memory(spec: Spec, length: int = LENGTH) -> MemoryEstimate:
    """Estimate the memory, disk space and FLOPs of training if all source and target sentences have `length` tokens."""
    training = spec.training
    train = compiler.cost(compiler.graphs(spec, [compiler.Purpose.TRAIN])[compiler.Purpose.TRAIN])
    batch, part = batch_rows(spec, length)
    weights, best = train.weight_bytes, training.dev_score is not None
    return MemoryEstimate(
        state_bytes=STATE_COPIES * weights,
        activation_bytes=train.activation_bytes(batch=part, source=length, target=length),
        disk_bytes=(max(training.average, KEPT_OPTIMISERS) + 2 + best) * weights + (KEPT_OPTIMISERS + 1) * 2 * weights,
        step_flops=3 * train.flops(batch=batch, source=length, target=length),
    )


def batch_rows(spec: Spec, length: int) -> tuple[int, int]:
    """Return the number of sentence pairs of `length` tokens in a full batch, and in one of its accumulation steps."""
    training = spec.training
    batch = max(1, min(training.source_tokens, training.target_tokens) // length)
    return batch, -(-batch // training.accumulation_steps)


def training_bytes(spec: Spec, size: BatchSize) -> int:
    """Return the memory, in bytes, that a process needs to train on padded batches of this size.

    The memory holds weights, gradients, Adam's moments and activations.
    """
    train = compiler.cost(compiler.graphs(spec, [compiler.Purpose.TRAIN])[compiler.Purpose.TRAIN])
    rows = -(-size.rows // spec.training.accumulation_steps)
    padding = size.padded_tokens / (size.source_tokens + size.target_tokens)
    tokens = size.source_tokens // spec.architecture.source_stride, size.target_tokens
    source, target = (max(1, round(padding * count / size.rows)) for count in tokens)
    activations = train.activation_bytes(batch=rows, source=source, target=target)
    return int(_PROCESS_BYTES + STATE_COPIES * train.weight_bytes + activations)


def update_bytes(spec: Spec, processes: int = 1) -> int:
    """Return the memory, in bytes, that a process needs to train on packed rows with one CUDA graph on a GPU.

    `processes` is the number of processes that share each batch.
    """
    update = compiler.cost(compiler.graphs(spec, [compiler.Purpose.UPDATE])[compiler.Purpose.UPDATE])
    source, target = row_lengths(spec, processes * spec.training.accumulation_steps)
    computed = update.activation_bytes(batch=1, source=source, target=target)
    if spec.training.precision == "bfloat16":
        computed = (computed + update.weight_bytes) // 2  # with a bfloat16 copy of the weights
    return int(_PROCESS_BYTES + STATE_COPIES * update.weight_bytes + computed)


def row_lengths(spec: Spec, parts: int) -> tuple[int, int]:
    """Return the lengths of the packed source and target rows if each batch is divided into `parts` parts.

    A part contains only whole sentence pairs, so it may exceed its share of the tokens by one sentence.
    """
    budgets, longest = (spec.training.source_tokens, spec.training.target_tokens), spec.corpus.max_length + 1
    source, target = (budget if parts == 1 else min(budget, ceil(budget / parts) + longest) for budget in budgets)
    return source, target


def require_memory_to_train(spec: Spec, device: str = "auto", processes: int = 1) -> None:
    """Check that a device can hold a model's weights, gradients and Adam moments, sharded across processes.

    Raises:
        ZooError: The memory is too small, or the device does not exist.
    """
    hint = _SMALLER_MODEL if processes > 1 else f"{_SMALLER_MODEL}; {_SHARDING}"
    needed = STATE_COPIES * weight_bytes(spec) // processes
    memory.require_device_memory(needed, compiler.find_device(device), f"training `{spec.name}`", hint)


def require_memory_to_translate(spec: Spec, device: str = "auto") -> None:
    """Check that the weights of a model fit in the memory of a device.

    Raises:
        ZooError: The memory is too small, or the device does not exist.
    """
    purpose = f"holding the weights of `{spec.name}`"
    memory.require_device_memory(weight_bytes(spec), compiler.find_device(device), purpose, _SMALLER_MODEL)


def weight_bytes(spec: Spec) -> int:
    """Return the size of a model's weights in float32, in bytes."""
    return compiler.cost(compiler.lower(spec, compiler.Purpose.TRAIN)).weight_bytes


def max_sentences(spec: Spec, hypotheses: int, device: torch.device | str) -> int:
    """Return the maximum number of sentences to decode together, so that logits fill at most half of the free memory.

    Args:
        spec: The model's spec.
        hypotheses: The number of hypotheses per sentence.
        device: The device that decodes.

    Returns:
        The number of sentences, at least 1.

    Raises:
        ZooError: The logits of a single sentence do not fit in memory.
    """
    needed = _LOGIT_BYTES * hypotheses * spec.vocabulary.sizes[1]
    purpose = f"decoding one sentence with {hypotheses:,} hypotheses"
    memory.require_device_memory(needed, device, purpose, "reduce the beam size")
    return max(1, int(_LOGIT_SHARE * memory.available_memory(device)) // needed)
