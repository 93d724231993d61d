"""The tensors of a Transformer whose linear maps are written as torch has them, [out, in], taken over one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specs import ZooError


@dataclass(frozen=True)
class Linear:
    """A linear map as torch has it: weight [out, in], bias [out] or none."""

    weight: Tensor
    bias: Tensor | None = None

    def __post_init__(self) -> None:
        """Raises ZooError where they are none."""
        bias = None if self.bias is None else list(self.bias.shape)
        if self.weight.dim() != 2 or bias not in (None, [len(self.weight)]):
            problem = f"a matrix of its network is {list(self.weight.shape)}, with a bias that is {bias}"
            raise ZooError(problem, hint="restore the files from where the model came from", exit_code=1)

    def parts(self, count: int) -> list[Linear]:
        """Several maps of one input that are written as one, each as wide as the others."""
        if len(self.weight) % count:
            problem = f"{count} maps that are written as one have {len(self.weight):,} features together"
            raise ZooError(problem, hint="restore the files from where the model came from", exit_code=1)
        biases = [None] * count if self.bias is None else self.bias.chunk(count)
        return [Linear(weight, bias) for weight, bias in zip(self.weight.chunk(count), biases, strict=True)]


@dataclass
class Layers:
    """Tensors by our names, in our layout (x @ W)."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    biased: bool = False
    """Whether an attention's projection has a bias. (Of the others it is zero, then.)"""
    _projections: list[str] = field(default_factory=list)

    def attention(self, part: str, maps: Mapping[str, Linear]) -> None:
        """The `query`, `key`, `value` and `output` of an attention, such as `encoder.0.self_attention`."""
        for name, linear in maps.items():
            self.tensors[f"{part}.{name}"] = _ours(linear.weight.T)
            self._projections.append(f"{part}.{name}")
            if linear.bias is not None:
                self.tensors[f"{part}.{name}_bias"] = _ours(linear.bias)
                self.biased = True

    def feed_forward(self, part: str, inner: Linear, outer: Linear) -> None:
        """Its two maps, which always have biases here."""
        for number, linear in ((1, inner), (2, outer)):
            self.tensors[f"{part}.w{number}"] = _ours(linear.weight.T)
            bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
            self.tensors[f"{part}.b{number}"] = _ours(bias)

    def norm(self, part: str, gain: Tensor, bias: Tensor) -> None:
        """A layer norm."""
        self.tensors[f"{part}.norm_gain"], self.tensors[f"{part}.norm_bias"] = _ours(gain), _ours(bias)

    def finished(self) -> dict[str, Tensor]:
        """All of them; where one projection of an attention has a bias, every one has."""
        if self.biased:
            for name in self._projections:
                width = self.tensors[name].shape[1]
                self.tensors.setdefault(f"{name}_bias", torch.zeros(width))
        return self.tensors


def _ours(tensor: Tensor) -> Tensor:
    """A copy: foreign files may have one tensor under two names."""
    return tensor.detach().float().clone(memory_format=torch.contiguous_format)
