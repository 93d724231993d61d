"""Functions that emitted code calls for a mixture of experts (Shazeer et al. 2017): the gates, and all experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def top_k_gates(
    x: Float[Tensor, "batch n d"], gate: Float[Tensor, "d experts"], k: int
) -> Float[Tensor, "batch n experts"]:
    """Return the weights of the experts at each position: the softmax of the largest k scores, and 0 for the others.

    The computation runs in float32. The result is rounded to the type of `x` at the end.

    Args:
        x: The inputs.
        gate: The matrix W_g of the scores.
        k: Number of experts to select.
    """
    return _softmax_of_largest(x.float() @ gate.float(), k).to(x.dtype)


def noisy_top_k_gates(
    x: Float[Tensor, "batch n d"],
    gate: Float[Tensor, "d experts"],
    noise: Float[Tensor, "d experts"],
    k: int,
    balance: float,
    training: bool,
) -> Float[Tensor, "batch n experts"]:
    """Return the weights of the experts as `top_k_gates` does. While training, add noise to the scores.

    The backward pass adds the gradient of the balance loss (see `_BalanceGradient`).

    Args:
        x: The inputs.
        gate: The matrix W_g of the scores.
        noise: The matrix W_noise. The standard deviation of the noise is softplus(x W_noise).
        k: Number of experts to select.
        balance: Weight of the balance loss.
        training: Whether to add noise.
    """
    if not training:
        return top_k_gates(x, gate, k)
    scores = x.float() @ gate.float()
    deviation = functional.softplus(x.float() @ noise.float())
    gates = _softmax_of_largest(scores + torch.randn_like(scores) * deviation, k)
    return cast("Callable[..., Tensor]", _BalanceGradient.apply)(gates, balance).to(x.dtype)


def mix_experts(
    x: Float[Tensor, "batch n d"],
    gates: Float[Tensor, "batch n experts"],
    w1: Float[Tensor, "experts d inner"],
    b1: Float[Tensor, "experts inner"],
    w2: Float[Tensor, "experts inner d"],
    b2: Float[Tensor, "experts d"],
) -> Float[Tensor, "batch n d"]:
    """Return the sum over experts e of gate_e · (max(0, x W1_e + b1_e) W2_e + b2_e).

    All experts run at all positions, so that no shape depends on the gates. Compilers and exports need this.
    """
    inner = functional.relu(torch.einsum("bnd,edf->bnef", x, w1) + b1) * gates[..., None]
    return torch.einsum("bnef,efd->bnd", inner, w2) + gates @ b2


def _softmax_of_largest(scores: Float[Tensor, "batch n experts"], k: int) -> Float[Tensor, "batch n experts"]:
    largest, experts = scores.topk(k, dim=-1)
    return torch.zeros_like(scores).scatter(-1, experts, largest.softmax(-1))


class _BalanceGradient(torch.autograd.Function):
    """Return the gates unchanged. The backward pass adds the gradient of the balance loss to the gates' gradient.

    The balance loss is `balance` · CV(I)² (Shazeer et al. 2017, equation 7). I_e is the sum of the gates of expert e
    over all P positions, and CV is the standard deviation divided by the mean. Training minimises the sum of this
    loss and the mean loss per token. As the gates of a position add up to 1, the mean m of I is P divided by the
    number of experts, and the gradient is 2 · balance · (I_e / m - 1) / P.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, balance: float) -> Tensor:
        importance = gates.sum((0, 1))
        positions = gates.shape[0] * gates.shape[1]
        ctx.save_for_backward(2 * balance * (importance / importance.mean() - 1) / positions)
        return gates.view_as(gates)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient + ctx.saved_tensors[0], None
