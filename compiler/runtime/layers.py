"""Layers other than attention, such as positional encodings, dropout, int8 products, convolutions and recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from compiler.weights import round_to_int8

MAX_INT8_PRODUCTS = (2**31 - 1) // 127**2
"""The largest number of products of two 8-bit integers whose sum always fits in 32 bits."""


def sinusoids(
    x: Float[Tensor, "batch length d_model"],
    position: Int[Tensor, "batch length"] | None = None,
    *,
    halves: bool = False,
    first: int = 0,
) -> Float[Tensor, "... d_model"]:
    """Return positional encodings PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(...) (section 3.5).

    Args:
        x: The embeddings. The encodings have the same length, d_model, type and device.
        position: The positions. If None, they are 0, 1, 2, and so on.
        halves: Whether to use the layout of tensor2tensor, the code of the paper's authors: all sines, then all
            cosines, with PE(pos, i) = sin(pos / 10000^(i/(d_model/2 - 1))).
        first: A number that is added to all positions.
    """
    if position is None and torch.compiler.is_exporting():
        position = torch.arange(x.shape[1], device=x.device)
    if position is not None:
        return _encode_positions(position + first, x.shape[2], halves).to(x.dtype)
    return sinusoid_table(x.shape[1], x[0], halves, first)


def sinusoids_2d(x: Float[Tensor, "batch length d_model"], *, rows: int) -> Float[Tensor, "length d_model"]:
    """Return positional encodings of image patches.

    The first half of the features encodes the column, and the second half encodes the row.

    Args:
        x: The patch embeddings. The encodings have the same length, d_model, type and device.
        rows: Number of patches in each column. Position p is the patch in column p // rows and row p % rows.
    """
    position = torch.arange(x.shape[1], device=x.device)
    halves = [_encode_positions(each, x.shape[2] // 2, False) for each in (position // rows, position % rows)]
    return torch.cat(halves, -1).to(x.dtype)


def sinusoid_table(length: int, like: Tensor, halves: bool, first: int) -> Float[Tensor, "length d_model"]:
    """Return the encodings of `length` positions, starting at `first`, with the width, type and device of `like`."""
    rounded = max(256, 2 ** math.ceil(math.log2(length + first)))
    return _sinusoid_table(rounded, like.shape[1], halves, like.device, like.dtype)[first : first + length]


@lru_cache(maxsize=8)
def _sinusoid_table(length: int, d_model: int, halves: bool, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return _encode_positions(torch.arange(length), d_model, halves).to(device, dtype)


def _encode_positions(position: Int[Tensor, ...], d_model: int, halves: bool) -> Float[Tensor, "... d_model"]:
    # Use float64, because at position 1000, a float32 angle is already wrong in the fifth digit.
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device=position.device)
    angles = position[..., None] / 10000 ** (exponent / (max(2, d_model - 2) if halves else d_model))
    if halves:
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def dropout(x: Float[Tensor, ...], probability: float, training: bool) -> Float[Tensor, ...]:
    """Apply dropout in training (section 5.4): set random elements to 0, and scale the others by 1 / (1 - probability).

    On a CPU, torch draws one random number per element, one after the other. For a small model, this takes a fifth of a
    training step. This function is faster: it uses one 64-bit random number for four elements, and rounds the
    probability to a multiple of 2^-16.
    """
    if not training or not probability:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, probability)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    uniform = bits.view(torch.int16)[: x.numel()].view(x.shape)
    kept = uniform >= round(probability * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - probability))


def quantised_linear(
    x: Float[Tensor, "... inner"],
    matrix: Int[Tensor, "inner outer"],
    scales: Float[Tensor, " outer"],
    bias: Float[Tensor, " outer"] | None = None,
) -> Float[Tensor, "... outer"]:
    """Return x W + b, computed in 8-bit integers with exact sums. W is `matrix` times the scale of each column.

    Each row of x is rounded to 8 bits with its own scale. If a row contains infinity or NaN, its results are NaN.
    """
    rows, row_scales = round_to_int8(x, -1)
    sums = _exact_int8_product(rows.flatten(0, -2), matrix).view(*x.shape[:-1], -1)
    y = sums * row_scales * scales
    return y if bias is None else y + bias


def _exact_int8_product(
    rows: Int[Tensor, "rows inner"], matrix: Int[Tensor, "inner outer"]
) -> Int[Tensor, "rows outer"]:
    """Return the exact product of two int8 matrices, in int32 or, if that might be inexact, in int64."""
    if not sums_int8_exactly() or 1 in matrix.shape:
        return (rows.double() @ matrix.double()).long()
    if rows.shape[0] == 1:  # torch reads out of bounds if a single row or column has unusual strides
        return _exact_int8_product(rows.repeat(2, 1), matrix)[:1]
    if rows.shape[1] <= MAX_INT8_PRODUCTS:
        return torch._int_mm(rows, matrix)
    sums = torch.zeros(rows.shape[0], matrix.shape[1], dtype=torch.long, device=rows.device)
    for start in range(0, rows.shape[1], MAX_INT8_PRODUCTS):
        part = slice(start, start + MAX_INT8_PRODUCTS)
        sums += _exact_int8_product(rows[:, part].contiguous(), matrix[part])
    return sums


def sums_int8_exactly() -> bool:
    """Return whether torch's int8 matrix products are exact. On a CPU without VNNI, 16-bit sums may saturate.

    Backends that use torch.compile must mark the result as constant themselves, because a decorator here would import
    torch's compiler.
    """
    return _probe_int8_product()


@cache  # in a separate function, because torch.compile ignores the cache of a function that it traces
def _probe_int8_product() -> bool:
    largest = torch.full((32, 32), 127, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest) == 32 * 127**2).all())


def align(
    memory: Float[Tensor, "batch m d"], hidden: Bool[Tensor, "batch 1 1 m"], position: Int[Tensor, "#batch n"]
) -> Float[Tensor, "batch n d"]:
    """Return the encoder output at the given positions, or zeros after the end of the source.

    Args:
        memory: The encoder output.
        hidden: True at padding of the source.
        position: The positions to read.
    """
    length = memory.shape[1]
    cleared = functional.pad(memory.masked_fill(hidden[:, 0, 0, :, None], 0.0), (0, 0, 0, 1))
    index = position.clamp(max=length)[..., None].expand(memory.shape[0], -1, memory.shape[2])
    return cleared.gather(1, index)


def convolve(
    x: Float[Tensor, "batch n inner"],
    kernel: Float[Tensor, "k ..."],
    bias: Float[Tensor, " outer"],
    reach: tuple[int, int],
    dilation: int,
    stride: int,
) -> Float[Tensor, "batch positions outer"]:
    """Return the one-dimensional convolution of x along its positions, with zeros beyond the ends.

    Args:
        x: The input of the convolution.
        kernel: Weights for k positions: [k, inner, outer], or [k, inner] for a depthwise convolution.
        bias: A bias that is added to each output.
        reach: How many of the k positions are before and after the output's position, and how many zeros to add at
            each end. (0, 0): add no zeros.
        dilation: The distance between adjacent kernel positions.
        stride: The distance between the positions of adjacent outputs.
    """
    before, after = reach
    weight, groups = (kernel.T[:, None], x.shape[2]) if kernel.ndim == 2 else (kernel.permute(2, 1, 0), 1)
    # With a dilation above n, all other positions are padding. An exported graph does not know n.
    if dilation > 1 and before + after and not torch.compiler.is_exporting():
        dilation = min(dilation, x.shape[1])
    x = functional.pad(x, (0, 0, before * dilation, after * dilation))
    return functional.conv1d(x.mT, weight, bias, stride, dilation=dilation, groups=groups).mT


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
    """Run an SSRU over new positions, starting from `state`. Return `state` and the state at each new position.

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
        x: The inputs of the layer.
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
    """Run an LSTM over new positions, starting from `state`. Return `state` and the state at each new position.

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
        x: The inputs of the experts.
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
        x: The inputs of the experts.
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
    """Autograd function that returns the gates unchanged. Its backward pass adds the gradient of the balance loss.

    The balance loss is `balance` · CV(I)² (Shazeer et al. 2017, equation 7). I_e is the sum of the gates of expert e
    over all P positions, and CV is the standard deviation divided by the mean. Training minimises the sum of this
    loss and the mean loss per token. Because the gates of a position add up to 1, the mean m of I is P divided by the
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
