"""The weights of before training."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from compiler.graph import Graphs, stored
from compiler.seeds import stream
from compiler.weights import Initial, Stored
from specs import Spec


def initial_weights(spec: Spec, graphs: Graphs) -> dict[str, Tensor]:
    """What the tensors of a weights file are before training (see `Initial`), each from a random stream of its own."""
    return {
        tensor.name: _initial(tensor, spec, stream(spec.training.seed, "weights", tensor.name))
        for tensor in stored(graphs.values()).values()
    }


def _initial(tensor: Stored, spec: Spec, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = torch.empty(tensor.shape)
    match tensor.initial:
        case Initial.ONE:
            return value.fill_(1.0)
        case Initial.ZERO:
            return value.zero_()
        case Initial.EMBEDDING:
            return value.normal_(0.0, spec.architecture.d_model**-0.5, generator=generator)
        case Initial.MATRIX | Initial.PROJECTION | Initial.KERNEL:
            *places, inner, outer = tensor.shape
            if tensor.initial is Initial.KERNEL:
                places, inner, outer = [inner], 1, 1
            variance, way = 2.0 / (prod(places) * (inner + outer)), spec.architecture.initial_weights
            if way == "glorot_normal":
                return value.normal_(0.0, variance**0.5, generator=generator)
            if way == "glorot_uniform_half_qkv" and tensor.initial is Initial.PROJECTION:
                variance /= 2
            bound = (3.0 * variance) ** 0.5
            return value.uniform_(-bound, bound, generator=generator)
