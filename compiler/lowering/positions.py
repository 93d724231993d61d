"""Lowering of positional encodings (section 3.5), and the operations that they add to the graph.

To add a kind of positional encoding, add its spec class to `specs.parts`. Then add an operation and a case in
`add_positions` here. For a bias that is added to attention scores, write a subclass of `PositionBias`, and add a case
in `distance_bias`.
"""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from math import cos, sin
from typing import TYPE_CHECKING, Any

from compiler.instruction import Opcode
from compiler.operations.mask import key_positions
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import ONE, Size
from compiler.weights import Initializer
from specs import Alibi, Learned, Relative, Rotary, Sinusoidal, Sinusoidal2d

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.builder import Value
    from compiler.lowering.context import LayerContext
    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


ROUNDING = 1e-9
"""Number that is added to a bucket index before rounding down, to tolerate rounding errors."""


def add_positions(x: Value, context: LayerContext) -> Value:
    """Add positional encodings to embeddings [batch, n, d_model]. Return x if there are no encodings to add."""
    inputs, parameters = (x,) if context.position is None else (x, context.position), list[str]()
    match context.architecture.positions:
        case Sinusoidal(kind=kind, first=first):
            encoding: Operation = PositionalEncoding(kind == "sinusoidal_halves", first)
        case Sinusoidal2d(rows=rows):
            encoding = PositionalEncoding() if context.causal else GridEncoding(rows)
        case Learned(rows=rows):
            encoding = PositionalEncoding()
            parameters.append(_table("positions", rows, x.width, context))
        case _:
            return x
    return context.builder.node("positioned", encoding, inputs, *parameters)


def rotated(name: str, heads: Value, context: LayerContext) -> Value:
    """Rotate self-attention queries or keys [batch, h, n, d_k] by their positions, if the spec selects `rotary`.

    Args:
        name: Name of the result.
        heads: The queries or keys.
        context: Context of the sub-layer.
    """
    options, position = context.architecture.positions, context.position
    if not isinstance(options, Rotary):
        return heads
    inputs = (heads,) if position is None else (heads, position)
    return context.builder.node(f"{name}_rotated", Rotate(options.theta), inputs)


def distance_bias(heads: int, cache: Value | None, context: LayerContext) -> Value | None:
    """Return the bias to add to self-attention scores [batch or 1, h, n, m], or None if there is no bias.

    Args:
        heads: Number of heads.
        cache: In a decoder step, the keys before the new keys are appended.
        context: Context of the sub-layer.
    """
    position, parameters = context.position, list[str]()
    in_step = position is not None
    match context.architecture.positions:
        case Relative(buckets=buckets, max_distance=distance):
            operation: PositionBias = RelativeBias(heads, context.causal, in_step, max_distance=distance)
            parameters.append(_table("relative_positions", buckets, heads, context))
        case Alibi():
            operation = AlibiBias(heads, context.causal, in_step)
        case _:
            return None
    inputs = (context.stream,) if cache is None or position is None else (position, cache)
    return context.builder.shared(f"{context.stack}_distance_bias", operation, inputs, *parameters)


def _table(name: str, rows: int, width: int, context: LayerContext) -> str:
    path = f"{context.stack}.{name}"
    return context.builder.stack_parameter(path, rows, width, initial=Initializer.EMBEDDING)


def sinusoidal_encoding(position: int, width: int, halves: bool = False) -> list[float]:
    """Return one position's encoding: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(...) (section 3.5).

    Args:
        position: The position, counted from 0.
        width: Number of features d.
        halves: Whether all sines precede all cosines, as in tensor2tensor, instead of alternating.
    """
    if halves:
        angles = [position / 10000 ** (i / max(1, width // 2 - 1)) for i in range(width // 2)]
        return [*map(sin, angles), *map(cos, angles)]
    return [(cos if i % 2 else sin)(position / 10000 ** (i // 2 * 2 / width)) for i in range(width)]


class PositionalEncoding(Operation):
    """Addition of positional encodings (section 3.5): x [batch, n, d] [, position [batch, n]] -> [batch, n, d].

    If there is no input `position`, positions are counted from 0. Encodings are sinusoids, or rows of a parameter
    [positions, d]. `halves` means the same as in `sinusoidal_encoding`. Position 0 gets the sinusoids of position
    `first`.
    """

    halves: bool = False
    first: int = 0

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, *position = inputs
        require(len(x.shape) == 3 and all(p.shape == x.shape[:2] for p in position), self, *inputs)
        require(all(table[1] == x.shape[2] for table in parameters), self, *inputs)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, *position = inputs
        if parameters:
            return x + parameters[0][position[0] if position else slice(x.shape[1])]
        rows = position[0].tolist() if position else [range(x.shape[1])]
        width = x.shape[2]
        return x + x.new_tensor(
            [[sinusoidal_encoding(self.first + p, width, self.halves) for p in row] for row in rows]
        )

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        x, *position = inputs
        if parameters:
            rows = position[0] if position else f": {x}.shape[1]"
            return f"{x} + {parameters[0]}[{rows}]"
        options = (["halves=True"] if self.halves else []) + ([f"first={self.first}"] if self.first else [])
        return f"{x} + layers.sinusoids({', '.join([*inputs, *options])})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        table = next(iter(node.parameters), None)
        rows = codegen.parameter_shape(table)[0] if table else 0
        sinusoids = {"halves": self.halves, "first": self.first}
        codegen.add(node, Opcode.POSITION, node.inputs[0], **sinusoids, table=table, rows=rows)

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Count the bytes of the inputs, the result and, if encodings are learned, the table rows that are read."""
        read = sum((each.bytes(float_bytes) for each in inputs), Size())
        return read + result.bytes(float_bytes) * (2 if weight_bytes.terms else 1)


class GridEncoding(Operation):
    """Addition of the encodings of image patches: x [batch, n, d] -> [batch, n, d].

    Position p is the patch in column p // rows and row p % rows, both counted from 0. The first d / 2 features encode
    the column as `sinusoidal_encoding` does. The other features encode the row the same way.
    """

    rows: int

    code = "{0} + layers.sinusoids_2d({0}, rows={self.rows})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        require(len(x.shape) == 3 and x.shape[2].constant % 4 == 0, self, x)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,) = inputs
        places, half = [divmod(position, self.rows) for position in range(x.shape[1])], x.shape[2] // 2
        return x + x.new_tensor([[*sinusoidal_encoding(c, half), *sinusoidal_encoding(r, half)] for c, r in places])


class Rotate(Operation):
    """Rotation of pairs of features by angles that grow with the position (Su et al. 2021, equation 34).

    x [batch, h, n, d] [, position [batch, n]] -> [batch, h, n, d]. The features i and i + d/2 form a pair, which is
    rotated by the angle position · theta^(-2i/d). If there is no input `position`, positions are counted from 0.
    """

    theta: float

    code = "attention.rotate({all}, theta={self.theta!r})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, *position = inputs
        even = len(x.shape) == 4 and x.shape[3].constant % 2 == 0
        require(even and all(p.shape == (x.shape[0], x.shape[2]) for p in position), self, *inputs)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, *position = inputs
        result, half = x.clone(), x.shape[3] // 2
        for row in range(x.shape[0]):
            for index in range(x.shape[2]):
                number = int(position[0][row, index]) if position else index
                for i in range(half):
                    angle = number * self.theta ** (-i / half)
                    one, two = x[row, :, index, i], x[row, :, index, i + half]
                    result[row, :, index, i] = one * cos(angle) - two * sin(angle)
                    result[row, :, index, i + half] = two * cos(angle) + one * sin(angle)
        return result

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        _, heads, _, width = node.type.shape
        sizes = {"heads": heads.constant, "key_width": width.constant}
        codegen.add(node, Opcode.ROTATE, node.inputs[0], scale=self.theta, **sizes)


class PositionBias(Operation):
    """Base class for attention score biases that depend on the distance between query and key.

    For whole sequences, the input is the input of the layer stack [batch, n, ...], and the result is [1, heads, n, n].
    Only the shape of the input is used. In a decoder step, the inputs are the positions of the queries [rows, new] and
    the key cache [rows, kv_heads, n, d], and the result is [rows, heads, new, entries]. If the cache is preallocated
    (`planned`), entries = n. Otherwise, entries = n + new. Parameters are tables [..., heads].
    """

    heads: int
    causal: bool
    in_step: bool
    planned: bool = False
    """Whether the key cache is preallocated (see `UnwrittenMask`)."""

    shares_buffer = True

    def value(self, head: int, distance: int, parameters: Tensors) -> float:
        """Return a head's bias for a distance, which is the position of the key minus the position of the query."""
        raise NotImplementedError

    def emit_values(self, distance: str, parameters: Expressions) -> str:
        """Return a Python expression for biases [rows, heads, queries, keys] at distances [rows, 1, queries, keys]."""
        raise NotImplementedError

    def with_planned_cache(self) -> PositionBias | None:
        return replace(self, planned=True) if self.in_step else None

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        stream, *cache = inputs
        require(len(cache) == self.in_step, self, *inputs)
        require(all(p[-1] == Size.of(self.heads) for p in parameters), self, *inputs)
        rows, new, *_ = stream.shape
        if not self.in_step:
            return ValueType((ONE, Size.of(self.heads), new, new), ValueKind.BIAS)
        entries = cache[0].shape[2] + (0 if self.planned else new)
        return ValueType((rows, Size.of(self.heads), new, entries), ValueKind.BIAS)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        first, *cache = inputs
        if self.in_step:
            query, key = first, key_positions(first, cache[0], self.planned)
        else:
            query = key = first.new_tensor([range(first.shape[1])])
        values = [
            [[[self.value(head, int(k - q), parameters) for k in keys] for q in queries] for head in range(self.heads)]
            for queries, keys in zip(query.tolist(), key.tolist(), strict=True)
        ]
        like = next(iter((*cache, *parameters)), first.float())
        return like.new_tensor(values).view(len(key), self.heads, query.shape[1], key.shape[1])

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        planned = f", planned={self.planned}" if self.in_step else ""
        distance = f"attention.{'cache_' if self.in_step else ''}distances({', '.join(inputs)}{planned})"
        return self.emit_values(distance, parameters)


class RelativeBias(PositionBias):
    """Bias from a learned table [buckets, heads], with a bucket per range of distances (T5; Raffel et al. 2020)."""

    _: KW_ONLY
    max_distance: int

    def value(self, head: int, distance: int, parameters: Tensors) -> float:
        (table,) = parameters
        return float(table[relative_bucket(distance, len(table), self.max_distance, self.causal), head])

    def emit_values(self, distance: str, parameters: Expressions) -> str:
        options = f"max_distance={self.max_distance}, causal={self.causal}"
        return f"attention.relative_bias({distance}, {parameters[0]}, {options})"

    def native_bias(self, codegen: NativeCodeGenerator, node: Node) -> Mapping[str, Any]:
        (table,) = node.parameters
        buckets = codegen.parameter_shape(table)[0]
        sizes, limit = range(self.max_distance + 1), self.max_distance
        before, after = (
            [relative_bucket(sign * size, buckets, limit, self.causal) for size in sizes] for sign in (-1, 1)
        )
        return {"table": table, "rows": limit, "constants": (*map(float, before), *map(float, after))}


class AlibiBias(PositionBias):
    """Bias that decreases with the distance, by a constant slope per head (ALiBi; Press et al. 2022, section 3)."""

    def value(self, head: int, distance: int, parameters: Tensors) -> float:
        return -abs(distance) * alibi_slope(head, self.heads)

    def emit_values(self, distance: str, parameters: Expressions) -> str:
        return f"attention.alibi_bias({distance}, {self.heads})"

    def native_bias(self, codegen: NativeCodeGenerator, node: Node) -> Mapping[str, Any]:
        return {"constants": tuple(alibi_slope(head, self.heads) for head in range(self.heads))}


def relative_bucket(distance: int, buckets: int, max_distance: int, causal: bool) -> int:
    """Return the index of the bucket that contains a distance, as in T5's relative position biases.

    Args:
        distance: Position of the key minus position of the query.
        buckets: Number of buckets. Each bucket is a range of distances.
        max_distance: This distance and all larger distances are in the last bucket.
        causal: Whether keys after the query are hidden.
    """
    first = 0
    if causal:
        size = max(0, -distance)
    else:
        buckets //= 2
        first, size = buckets * (distance > 0), abs(distance)
    exact = buckets // 2
    if size < exact:
        return first + size
    ratio = math.log(size / exact) / math.log(max_distance / exact)
    return first + min(buckets - 1, exact + int(ratio * (buckets - exact) + ROUNDING))


def alibi_slope(head: int, heads: int) -> float:
    """Return the ALiBi slope of a head, counted from 0: 2^(-8 (head + 1) / heads) if `heads` is a power of two.

    Otherwise, the first heads get the slopes for the next smaller power of two. The other heads get every second slope
    for the next larger power of two.
    """
    power = 1 << (heads.bit_length() - 1)
    return float(2.0 ** (-8 * (head + 1) / power) if head < power else 2.0 ** (-4 * (2 * (head - power) + 1) / power))
