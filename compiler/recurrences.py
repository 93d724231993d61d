"""Recurrent layers that emitted code calls: SSRU and LSTM. They compute each position from the one before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor


def ssru(
    gate: Float[Tensor, "batch n d"], value: Float[Tensor, "batch n d"], length: Int[Tensor, " batch"] | None = None
) -> Float[Tensor, "batch n d"]:
    """Return the states of an SSRU: c_t = f_t · c_{t-1} + (1 - f_t) · value_t, with f = sigmoid(gate) and c_0 = 0.

    Args:
        gate: The forget gate before the sigmoid.
        value: The inputs, of which each state is a weighted average.
        length: The number of positions of each row without padding. If given, the SSRU runs backwards: from the last
            of these positions to the first.
    """
    if length is not None:
        order = _reversed_positions(length, value.shape[1])
        return _reorder(ssru(_reorder(gate, order), _reorder(value, order)), order)
    # In at least float32: with a lower precision, small contributions of a step would be rounded away.
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
    """Return the hidden states of an LSTM layer whose first state is 0.

    Args:
        x: The inputs.
        matrix: The weights of the inputs.
        recurrent: The weights of the hidden state.
        bias: The bias of the gates.
        length: The number of positions of each row without padding. If given, the LSTM runs backwards: from the last
            of these positions to the first.
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
        following = forget.roll(-1, 1)  # the last factor, which wraps around, is multiplied with 0
        total = _scan(following.flip(1), gradient.flip(1)).flip(1)
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
