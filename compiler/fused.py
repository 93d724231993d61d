"""GPU functions for the generated code of training updates and decoder steps. Most functions run one Triton kernel.

`tests/compiler/kernels_in_pytorch.py` implements most of these functions in plain PyTorch.

An update works on packed rows (see `compiler.update`). Its dropout masks depend only on the seed of the step, the key
of the dropout layer, and the index of the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from compiler import cuda, runtime
from compiler.operations.attention import HeadColumns

if TYPE_CHECKING:
    from collections.abc import Callable

_RESIDUAL_COPY = "_residual_copy"
"""Attribute of a norm's result that contains a second copy of the result. The next residual connection reads the copy.
So the norm's backward pass receives two gradients, and adds them in its own kernel."""


def seeded_dropout(
    x: Float[Tensor, ...], probability: float, seed: Int[Tensor, ""], key: int, training: bool
) -> Float[Tensor, ...]:
    """Apply dropout to x (5.4) in training. The mask depends only on `seed`, `key` and the index of each element."""
    return _apply(_SeededDropout, x, probability, seed, key) if training else x


def residual_norm(
    x: Float[Tensor, "... d"],
    y: Float[Tensor, "... d"] | None,
    c: Float[Tensor, " d"] | None,
    gain: Float[Tensor, " d"],
    bias: Float[Tensor, " d"],
    epsilon: float,
    probability: float = 0.0,
    seed: Int[Tensor, ""] | None = None,
    key: int = 0,
    training: bool = False,
) -> Float[Tensor, "... d"]:
    """Return LayerNorm(x + Dropout(y + c)) (3.1, 5.4). y and c are optional.

    Sums and statistics are computed in float32, whatever the type of x is.
    """
    probability = probability if training else 0.0
    x = getattr(x, _RESIDUAL_COPY, x)
    results = _apply(_ResidualNorm, x, y, c, gain, bias, epsilon, probability, seed, key)
    out, copy = cast("tuple[Tensor, Tensor]", results)
    setattr(out, _RESIDUAL_COPY, copy)
    return out


def linear_relu(
    x: Float[Tensor, "... inner"], matrix: Float[Tensor, "inner outer"], bias: Float[Tensor, " outer"]
) -> Float[Tensor, "... outer"]:
    """Return max(0, x W + b), the first half of the feed-forward network (3.3)."""
    return _apply(_LinearRelu, x, matrix, bias)


def step_linear(
    x: Float[Tensor, "rows 1 inner"],
    matrix: Float[Tensor, "inner outer"],
    bias: Float[Tensor, " outer"] | None = None,
    relu: bool = False,
) -> Float[Tensor, "rows 1 outer"]:
    """Return x W, x W + b or max(0, x W + b) in a decoder step. A separate kernel handles inputs with few rows."""
    if _is_narrow(x):
        return cuda.products.product(x, cuda.products.Product(matrix, bias, relu))
    if relu and bias is not None:
        return linear_relu(x, matrix, bias)
    product = functional.linear(x, matrix.T, bias)
    return functional.relu(product) if relu else product


def norm_linear(
    x: Float[Tensor, "rows 1 inner"],
    y: Float[Tensor, "rows 1 inner"] | None,
    c: Float[Tensor, " inner"] | None,
    gain: Float[Tensor, " inner"],
    norm_bias: Float[Tensor, " inner"],
    epsilon: float,
    matrix: Float[Tensor, "inner outer"],
    bias: Float[Tensor, " outer"] | None = None,
    relu: bool = False,
) -> tuple[Float[Tensor, "rows 1 inner"], Float[Tensor, "rows 1 outer"]]:
    """Return z = LayerNorm(x + y + c), and `step_linear` of z. For a few rows, one kernel computes both."""
    if _is_narrow(x) and x.shape[-1] <= cuda.products.WIDTH:
        norm = cuda.norms.Norm(x, y, c, gain, norm_bias, epsilon, 0.0, None, 0)
        return cuda.products.norm_product(norm, cuda.products.Product(matrix, bias, relu))
    z = residual_norm(x, y, c, gain, norm_bias, epsilon)
    return z, step_linear(z, matrix, bias, relu)


def _is_narrow(x: Tensor) -> bool:
    """Return whether to use the kernel for inputs with few rows. In float32, cuBLAS is as fast and more accurate."""
    return len(x) <= cuda.products.MAX_ROWS and x.dtype != torch.float32


def packed_attention(
    q: Float[Tensor, "1 n _"],
    kv: Float[Tensor, "1 m _"],
    spans: Int[Tensor, "2 n"],
    readers: Int[Tensor, "2 m"],
    heads: HeadColumns,
    scale: float,
    causal: bool,
) -> Float[Tensor, "1 n h·d_v"]:
    """Return softmax(scale · Q Kᵀ) V of all heads, where each query sees the keys of its own sentence (3.2.2).

    Args:
        q: Features that contain the queries.
        kv: Features that contain keys and values. May be the same tensor as `q`.
        spans: For each query, the index of its first key, and the index after its last key. A query at padding has no
            keys.
        readers: For each key, the index of the first query that sees it, and the index after the last such query.
        heads: The columns of queries, keys and values.
        scale: Factor of Q Kᵀ.
        causal: Whether a query sees only keys up to its own index.
    """
    return _apply(_PackedAttention, q, None if kv is q else kv, spans, readers, heads, scale, causal)


def packed_ssru(
    gate: Float[Tensor, "1 n d"], value: Float[Tensor, "1 n d"], spans: Int[Tensor, "2 n"]
) -> Float[Tensor, "1 n d"]:
    """Return the states of an SSRU (see `compiler.sublayers.ssru`) that starts at 0 in each of the packed sentences.

    Args:
        gate: The forget gate before the sigmoid.
        value: The inputs, of which each state is a weighted average.
        spans: For each token, the index of the first token in its sentence, and the index after the last token.
    """
    return _apply(_PackedSsru, gate, value, spans)


def packed_sinusoids(
    x: Float[Tensor, "1 n d_model"], position: Int[Tensor, "1 n"], halves: bool, first: int
) -> Float[Tensor, "1 n d_model"]:
    """Return the sinusoidal encodings (3.5) of the given positions, which must be less than n."""
    return functional.embedding(position, runtime.sinusoids(x, halves=halves, first=first))


def whole_loss(
    x: Float[Tensor, "1 n d_model"],
    table: Float[Tensor, "rows d_model"],
    labels: Int[Tensor, "1 n"],
    smoothing: float,
    wrong_classes: bool,
    classes: int,
    bias: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, 2]:
    """Return the same loss as `compiler.runtime.chunked_loss`, with all logits in memory at once.

    The amount of work does not depend on the number of PAD labels, so a CUDA graph can compute the loss. The kernel
    overwrites the logits with their gradients. Logits and gradients have the data type of x.
    """
    return _apply(_WholeLoss, x, table, bias, labels, smoothing, wrong_classes, classes)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    return cast("Callable[..., Tensor]", function.apply)(*arguments)


class _SeededDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float, seed: Tensor, key: int) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.options = probability, key
        return cuda.norms.dropout(x.contiguous(), probability, seed, key)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (seed,), (probability, key) = ctx.saved_tensors, ctx.options
        return cuda.norms.dropout(gradient.contiguous(), probability, seed, key), None, None, None


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, *others: Any) -> tuple[Tensor, Tensor]:
        norm = cuda.norms.Norm(x.contiguous(), None if y is None else y.contiguous(), *others)
        out, *statistics = cuda.norms.residual_norm(norm)
        tensors = (norm.x, norm.y, norm.c, norm.gain, norm.bias, norm.seed, *statistics)
        ctx.save_for_backward(*tensors)
        ctx.options = norm.epsilon, norm.probability, norm.key
        ctx.set_materialize_grads(False)
        return out, out.detach()

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Tensor | None, ...]:
        (*tensors, seed, means, deviations), (epsilon, probability, key) = ctx.saved_tensors, ctx.options
        x, y, c, gain, bias = tensors
        norm = cuda.norms.Norm(x, y, c, gain, bias, epsilon, probability, seed, key)
        given = [gradient.contiguous() for gradient in received if gradient is not None]
        gradients = cuda.norms.residual_norm_backward(given, norm, means, deviations)
        cast_gradients = (
            d if t is None or d is None else d.to(t.dtype) for d, t in zip(gradients, tensors, strict=True)
        )
        return *cast_gradients, None, None, None, None


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        out = torch._addmm_activation(bias, rows, matrix)  # cuBLAS adds the bias and applies the ReLU
        ctx.save_for_backward(rows, matrix, out)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, matrix, out = ctx.saved_tensors
        d, bias = cuda.norms.relu_backward(gradient.flatten(0, -2).contiguous(), out)
        return (d @ matrix.T).view(*gradient.shape[:-1], -1), rows.T @ d, bias.to(out.dtype)


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor | None, spans: Tensor, readers: Tensor, heads: HeadColumns, scale: float,
        causal: bool,
    ) -> Tensor:  # fmt: skip
        rows = q[0]
        both = rows if kv is None else kv[0]
        given = cuda.attention.PackedAttention(rows, both, spans, readers, heads, scale, causal)
        out, logs = cuda.attention.packed_attention(given)
        ctx.save_for_backward(rows, None if kv is None else both, spans, readers, out, logs)
        ctx.options = heads, scale, causal
        return out.unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, kv, spans, readers, out, logs = ctx.saved_tensors
        given = cuda.attention.PackedAttention(q, q if kv is None else kv, spans, readers, *ctx.options)
        d_q, d_kv = cuda.attention.packed_attention_backward(gradient[0], given, out, logs)
        return d_q.unsqueeze(0), None if kv is None else d_kv.unsqueeze(0), None, None, None, None, None


class _PackedSsru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, value: Tensor, spans: Tensor) -> Tensor:
        given = gate[0].contiguous(), value[0].contiguous(), spans
        out = cuda.recurrence.ssru(*given)
        ctx.save_for_backward(*given, out)
        return out.unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = cuda.recurrence.ssru_backward(gradient[0].contiguous(), *ctx.saved_tensors)
        return *(each.unsqueeze(0) for each in gradients), None


class _WholeLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, wrong_classes: bool,
        classes: int,
    ) -> Tensor:  # fmt: skip
        rows = x.flatten(0, -2)
        logits = functional.linear(rows, table, bias)
        losses = cuda.losses.cross_entropy(
            logits, labels.flatten(), classes, smoothing, wrong_classes, bias is not None
        )
        ctx.save_for_backward(rows, table, logits)
        ctx.shape, ctx.bias_type = x.shape, None if bias is None else bias.dtype
        return losses.sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (rows, table, logits), scale = ctx.saved_tensors, gradient[0]
        scale = scale.to(rows.dtype)
        d_x = (logits @ table).mul_(scale).view(ctx.shape)
        d_table = (logits.T @ rows).mul_(scale)
        d_bias = None if ctx.bias_type is None else (logits.sum(0, dtype=torch.float32) * gradient[0]).to(ctx.bias_type)
        return d_x, d_table, d_bias, None, None, None, None
