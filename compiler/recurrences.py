"""What emitted code calls where each position is computed of the one before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specs import PAD


def ssru(
    gate: Float[Tensor, "batch n d"], value: Float[Tensor, "batch n d"], tokens: Int[Tensor, "batch n"] | None = None
) -> Float[Tensor, "batch n d"]:
    """c_t = f_t · c_{t-1} + (1 - f_t) · value_t, f = sigmoid(gate), from 0 on; with tokens backwards."""
    if tokens is not None:
        order = _backwards(tokens)
        return _ordered(ssru(_ordered(gate, order), _ordered(value, order)), order)
    # In float32 at least: what is left over from step to step would be lost in fewer digits.
    kept, wide = (each.to(torch.promote_types(each.dtype, torch.float32)) for each in (gate, value))
    return cast("Callable[..., Tensor]", _Averages.apply)(kept.sigmoid(), wide).to(value.dtype)


def ssru_step(
    gate: Float[Tensor, "rows new d"], value: Float[Tensor, "rows new d"], state: Float[Tensor, "rows 1 d"]
) -> Float[Tensor, "rows new d"]:
    """The same from a state on, for few positions; rounded to the type of what comes in after the last of them."""
    gates, wide, before = (each.to(torch.promote_types(each.dtype, torch.float32)) for each in (gate, value, state))
    kept, found = gates.sigmoid(), [before[:, 0]]
    for each, new in zip(kept.unbind(1), ((1 - kept) * wide).unbind(1), strict=True):
        found.append(each * found[-1] + new)
    return torch.stack(found[1:], 1).to(value.dtype)


def lstm(
    x: Float[Tensor, "batch n inner"],
    matrix: Float[Tensor, "inner gates"],
    recurrent: Float[Tensor, "outer gates"],
    bias: Float[Tensor, " gates"],
    tokens: Int[Tensor, "batch n"] | None = None,
) -> Float[Tensor, "batch n outer"]:
    """The hidden states of a layer, from 0 on; with tokens backwards."""
    if tokens is not None:
        order = _backwards(tokens)
        return _ordered(lstm(_ordered(x, order), matrix, recurrent, bias), order)
    zeros = x.new_zeros(1, x.shape[0], recurrent.shape[0])
    weights = [matrix.T.contiguous(), recurrent.T.contiguous(), bias, torch.zeros_like(bias)]
    # In training it keeps what a gradient needs.
    return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def lstm_step(
    x: Float[Tensor, "rows new inner"],
    state: Float[Tensor, "rows 2 outer"],
    matrix: Float[Tensor, "inner gates"],
    recurrent: Float[Tensor, "outer gates"],
    bias: Float[Tensor, " gates"],
) -> Float[Tensor, "rows new+1 outer"]:
    """The same from a state on, a hidden one and a cell, for few positions; after them the last cell."""
    (hidden, cell), found = state.unbind(1), []
    for entered in (x @ matrix + bias).unbind(1):
        enter, forget, new, out = (entered + hidden @ recurrent).chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        hidden = out.sigmoid() * cell.tanh()
        found.append(hidden)
    return torch.stack([*found, cell], 1)


def _backwards(tokens: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
    """Of each row its own positions from the last on, those of padding as they are; the same again undoes it."""
    lengths = (tokens != PAD).sum(1, keepdim=True)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    return torch.where(places < lengths, lengths - 1 - places, places)


def _ordered(x: Float[Tensor, "batch n d"], order: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
    return x.gather(1, order[..., None].expand_as(x))


class _Averages(torch.autograd.Function):
    """c_t = f_t · c_{t-1} + (1 - f_t) · z_t. Its gradient is a recurrence of the same kind, from the last t on."""

    @staticmethod
    def forward(ctx: Any, kept: Tensor, value: Tensor) -> Tensor:
        found = _scanned(kept, (1 - kept) * value)
        ctx.save_for_backward(kept, value, found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        kept, value, found = ctx.saved_tensors
        following = kept.roll(-1, 1)  # that of the first, which comes last, multiplies nothing
        whole = _scanned(following.flip(1), gradient.flip(1)).flip(1)
        before = torch.cat([torch.zeros_like(found[:, :1]), found[:, :-1]], 1)
        return whole * (before - value), whole * (1 - kept)


def _scanned(kept: Float[Tensor, "batch n d"], new: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
    """c_t = kept_t · c_{t-1} + new_t for all t: the odd ones as pairs of steps, by the same in half the length.

    In all about 2n steps' work in log n rounds. Nothing is divided, and kept lies between 0 and 1: nothing overflows.
    """
    length = new.shape[1]
    if length == 1:
        return new
    even, odd = slice(0, length - length % 2, 2), slice(1, None, 2)
    found = torch.empty_like(new)
    found[:, odd] = _scanned(kept[:, odd] * kept[:, even], torch.addcmul(new[:, odd], kept[:, odd], new[:, even]))
    found[:, :1] = new[:, :1]
    found[:, 2::2] = torch.addcmul(new[:, 2::2], kept[:, 2::2], found[:, 1:-1:2])
    return found
