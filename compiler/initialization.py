"""Random initial weights, before training."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from compiler.graph import Graphs, stored_tensors
from compiler.seeds import stream
from compiler.weights import Initializer, StoredTensor
from specs import Spec


def initial_weights(spec: Spec, graphs: Graphs) -> dict[str, Tensor]:
    """Return random initial weights, in the layout of a weights file.

    Args:
        spec: The spec. The random numbers of a tensor depend only on the spec's seed and the tensor's name.
        graphs: The graphs whose parameters are initialised.
    """
    return {
        tensor.name: _draw(tensor, spec, stream(spec.training.seed, "weights", tensor.name))
        for tensor in stored_tensors(graphs.values()).values()
    }


def _draw(tensor: StoredTensor, spec: Spec, seed: int) -> Tensor:
    """Return the initial values of one tensor. Glorot initialisation has the variance 2 / (inputs + outputs)."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.empty(tensor.shape)
    match tensor.initial:
        case Initializer.ONE:
            return value.fill_(1.0)
        case Initializer.ZERO:
            return value.zero_()
        case Initializer.EMBEDDING:
            return value.normal_(0.0, spec.architecture.d_model**-0.5, generator=generator)
        case Initializer.MATRIX | Initializer.PROJECTION | Initializer.KERNEL | Initializer.EXPERTS:
            *positions, inner, outer = tensor.shape
            if tensor.initial is Initializer.KERNEL:
                positions, inner, outer = [inner], 1, 1
            elif tensor.initial is Initializer.EXPERTS:
                positions = []
            variance, method = 2.0 / (prod(positions) * (inner + outer)), spec.architecture.initial_weights
            if method == "glorot_normal":
                return value.normal_(0.0, variance**0.5, generator=generator)
            if method == "glorot_uniform_half_qkv" and tensor.initial is Initializer.PROJECTION:
                variance /= 2
            bound = (3.0 * variance) ** 0.5
            return value.uniform_(-bound, bound, generator=generator)
