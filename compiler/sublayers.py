"""Sub-layer functions that emitted code calls: the recurrences SSRU and LSTM, and mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def ssru(
    gate: Float[Tensor, "batch n d"],
    value: Float[Tensor, "batch n d"],
    length: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch n d"]:
    """Return the states of an SSRU: c_t = f_t · c_{t-1} + (1 - f_t) · value_t, with f = sigmoid(gate) and c_0 = 0.

    Args:
        gate: The forget gate before the sigmoid.
        value: The inputs, of which each state is a weighted average.
        length: The number of positions in each row, excluding padding. If given, the SSRU runs backwards, from the
            last of these positions to the first.
    """
    if length is not None:
        order = _reversed_positions(length, value.shape[1])
        return _reorder(ssru(_reorder(gate, order), _reorder(value, order)), order)
    # Use at least float32: with a lower precision, small contributions of a step would be rounded away.
    gate, x = (tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in (gate, value))
    return cast("Callable[..., Tensor]", _GatedAverage.apply)(gate.sigmoid(), x).to(value.dtype)


def ssru_step(
    gate: Float[Tensor, "rows new d"], value: Float[Tensor, "rows new d"], state: Float[Tensor, "rows 1 d"]
) -> Float[Tensor, "rows 1+new d"]:
    """Continue an SSRU from a state over new positions. Return the given state, then the state at each new position.

    The computation runs in at least float32. The result is rounded to the type of `value` at the end.
    """
    gate, x, state = (tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in (gate, value, state))
    states = [state[:, 0]]
    for factor, new in zip(gate.sigmoid().unbind(1), x.unbind(1), strict=True):
        states.append(torch.lerp(new, states[-1], factor))
    return torch.stack(states, 1).to(value.dtype)


def lstm(
    x: Float[Tensor, "batch n inner"],
    matrix: Float[Tensor, "inner gates"],
    recurrent: Float[Tensor, "outer gates"],
    bias: Float[Tensor, " gates"],
    length: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch n outer"]:
    """Return the hidden states of an LSTM layer whose initial state is 0.

    Args:
        x: The inputs.
        matrix: The weights of the inputs.
        recurrent: The weights of the hidden state.
        bias: The bias of the gates.
        length: The number of positions in each row, excluding padding. If given, the LSTM runs backwards, from the
            last of these positions to the first.
    """
    if length is not None:
        order = _reversed_positions(length, x.shape[1])
        return _reorder(lstm(_reorder(x, order), matrix, recurrent, bias), order)
    zeros = x.new_zeros(1, x.shape[0], recurrent.shape[0])
    weights = [matrix.T.contiguous(), recurrent.T.contiguous(), bias, torch.zeros_like(bias)]
    # The seventh argument, `train`, makes torch save the tensors that the backward pass needs.
    return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def lstm_step(
    x: Float[Tensor, "rows new inner"],
    state: Float[Tensor, "rows 1 2*outer"],
    matrix: Float[Tensor, "inner gates"],
    recurrent: Float[Tensor, "outer gates"],
    bias: Float[Tensor, " gates"],
) -> Float[Tensor, "rows 1+new 2*outer"]:
    """Continue an LSTM from a state over new positions. Return the given state, then the state at each new position.

    Args:
        x: The inputs at the new positions.
        state: The hidden state and the cell state before the new positions, concatenated.
        matrix: The weights of the inputs.
        recurrent: The weights of the hidden state.
        bias: The bias of the gates.
    """
    hidden, cell = state[:, 0].chunk(2, -1)
    states = [hidden, cell]
    for projected in (x @ matrix + bias).unbind(1):
        input_gate, forget_gate, new, output_gate = (projected + hidden @ recurrent).chunk(4, -1)
        cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * new.tanh()
        hidden = output_gate.sigmoid() * cell.tanh()
        states += hidden, cell
    return torch.stack(states, 1).view(x.shape[0], -1, state.shape[2])


LOOPS = (ssru, ssru_step, lstm, lstm_step)
"""Functions that loop over positions in Python."""


def _reversed_positions(length: Int[Tensor, " batch"], n: int) -> Int[Tensor, "batch n"]:
    """Return the permutation that reverses each row and leaves the padding in place. It is its own inverse."""
    positions, end = torch.arange(n, device=length.device), length[:, None]
    return torch.where(positions < end, end - 1 - positions, positions)


def _reorder(x: Float[Tensor, "batch n d"], order: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
    return x.gather(1, order[..., None].expand_as(x))


class _GatedAverage(torch.autograd.Function):
    """The recurrence c_t = f_t · c_{t-1} + (1 - f_t) · x_t. The gradient is a similar recurrence in reverse order."""

    @staticmethod
    def forward(ctx: Any, forget: Tensor, x: Tensor) -> Tensor:
        states = _scan(forget, (1 - forget) * x)
        ctx.save_for_backward(forget, x, states)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        forget, x, states = ctx.saved_tensors
        # The last factor, which wraps around, is multiplied by 0.
        total = _scan(forget.roll(-1, 1).flip(1), gradient.flip(1)).flip(1)
        previous = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)
        return total * (previous - x), total * (1 - forget)


def _scan(factor: Float[Tensor, "batch n d"], new: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
    """Return c_t = factor_t · c_{t-1} + new_t for all t, by a parallel scan.

    Pairs of steps are merged into one step, and a recursive call of half the length computes the odd positions. The
    total work is about 2n steps in log n rounds. Factors are between 0 and 1, and there is no division, so nothing
    overflows.
    """
    length = new.shape[1]
    if length == 1:
        return new
    even, odd = slice(0, length - length % 2, 2), slice(1, None, 2)
    states = torch.empty_like(new)
    states[:, odd] = _scan(factor[:, odd] * factor[:, even], torch.addcmul(new[:, odd], factor[:, odd], new[:, even]))
    states[:, :1] = new[:, :1]
    states[:, 2::2] = torch.addcmul(new[:, 2::2], factor[:, 2::2], states[:, 1:-1:2])
    return states


def top_k_gates(
    x: Float[Tensor, "batch n d"], gate: Float[Tensor, "d experts"], k: int
) -> Float[Tensor, "batch n experts"]:
    """Return the weights of the experts at each position: the softmax of the k largest scores, and 0 elsewhere.

    The computation runs in float32. The result is rounded to the type of `x` at the end.

    Args:
        x: The inputs.
        gate: The matrix W_g. The scores are x W_g.
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
    """Return the weights of the experts as `top_k_gates` does, but add noise to the scores in training.

    The backward pass adds the gradient of the balance loss (see `_BalanceGradient`).

    Args:
        x: The inputs.
        gate: The matrix W_g. The scores are x W_g.
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

    All experts run at all positions, so that no shape depends on the gates. Compilers and exporters require this.
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
