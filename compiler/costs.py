"""Costs of a graph, computed without running it: parameters, FLOPs, bytes, memory traffic, and Table 1 of the paper.

FLOPs count only matrix products. A multiply-add counts as two FLOPs, as in torch's FlopCounterMode. The columns of
Table 1 are computed for any kind of sub-layer, from the graph's edges and the receptive field of each operation. A path
length counts the operations that read other positions. A recurrence computes one position after the other, and counts
once for each position that the path crosses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from math import inf

import specs
from compiler.builder import GraphBuilder
from compiler.graph import Graph, Purpose
from compiler.lowering.context import LayerContext
from compiler.lowering.transformer import SUBLAYERS, lower
from compiler.operations.mask import PaddingMask
from compiler.operations.operation import FLOAT_BYTES, ValueKind
from compiler.size import BATCH, SOURCE, Size
from specs import DecoderSubLayer, EncoderSubLayer, Spec


@dataclass(frozen=True)
class Cost:
    """Costs of a graph or of one of its layers.

    Costs that depend on the batch are polynomials in symbolic sizes, such as batch and source. Byte counts assume that
    all floating-point values except weights are float32.
    """

    parameters: int
    weight_bytes: int
    """Bytes of the weights, in the data types that they have in the graph."""
    flops: Size
    activation_bytes: Size
    """Bytes of all results except views. This approximates the memory that training needs for the backward pass."""
    cache_bytes: Size
    """Bytes of the state that one decoder step passes to the next."""


def cost(graph: Graph, layer: str | None = None) -> Cost:
    """Return the costs of a graph.

    Args:
        graph: The graph to measure.
        layer: Count only this layer, such as "encoder.0", or "" for everything outside layers. If None, count all.
    """
    types = graph.types
    flops, activations, cache, names = Size(), Size(), Size(), set[str]()
    for node in graph.nodes:
        if layer not in (None, node.layer):
            continue
        names.update(node.parameters)
        arguments = [types[i] for i in node.inputs], graph.shapes(node)
        flops += node.operation.matmul_flops(*arguments)
        activations += FLOAT_BYTES * node.operation.saved_elements(*arguments)
        if not node.operation.view and node.operation.overwrites is None:
            activations += node.type.bytes()
    for name in graph.states:
        if layer in (None, name.rpartition(".")[0]):
            cache += types[name].bytes()
    weights = [graph.parameters[name] for name in names]
    return Cost(sum(w.count for w in weights), sum(w.bytes for w in weights), flops, activations, cache)


def parameters(spec: Spec) -> int:
    """Return the number of parameters in the model that a spec describes. Tied parameters count once."""
    return sum(parameter.count for parameter in lower(spec, Purpose.TRAIN).parameters.values())


def layers(graph: Graph) -> list[str]:
    """Return the names of a graph's layers in order. The name "" stands for the nodes outside layers."""
    return list(dict.fromkeys(node.layer for node in graph.nodes))


def memory_traffic(graph: Graph) -> Size:
    """Return the number of bytes that one run of a graph reads from and writes to memory.

    Each operation reads its inputs and parameters from memory and writes its result there. In small graphs, such as a
    decoder step, this traffic limits the speed, because matrix products with few rows do not keep a processor busy.
    """
    half = any(parameter.type == "bfloat16" for parameter in graph.parameters.values())
    types, float_bytes = graph.types, FLOAT_BYTES // 2 if half else FLOAT_BYTES
    total = Size()
    for node in graph.nodes:
        weight_bytes = Size.of(sum(graph.parameters[name].bytes for name in node.parameters))
        inputs = [types[name] for name in node.inputs]
        total += node.operation.memory_traffic(inputs, node.type, weight_bytes, float_bytes)
    return total


SubLayer = EncoderSubLayer | DecoderSubLayer
START, LENGTH, END = "x", "length", "y"
"""Names of the inputs and the output of `sublayer_stack`."""


@dataclass(frozen=True)
class Complexity:
    """Complexity of a sub-layer for one sequence: the columns of the paper's Table 1."""

    flops: Size
    """FLOPs of the matrix products, as a polynomial in `batch` and `source`. A multiply-add counts as two."""
    mixing_flops: Size
    """FLOPs of the operations that read other positions. The projections of attention are not included."""
    sequential_operations: int
    """Length of the longest chain of operations over positions that must run one after the other."""
    max_path_length: int
    """Number of operations over positions on the shortest path between the two positions that are farthest apart."""


def complexity(sublayer: SubLayer, n: int, d: int, *, causal: bool = False) -> Complexity:
    """Return the complexity of a sub-layer, as in Table 1 of the paper. Attention has one head.

    The numbers are computed from a stack of these sub-layers that is deep enough to connect all positions.

    Args:
        sublayer: The sub-layer, as in a spec.
        n: Number of positions.
        d: Number of features.
        causal: Whether a position sees only itself and earlier positions, as in a decoder.

    Raises:
        ValueError: The sub-layer computes each position separately, so no number of layers connects all positions.
    """
    layers = 1
    while True:
        graph = sublayer_stack(sublayer, d, layers, causal=causal)
        found = connections(graph, START, graph.outputs[END], n)
        if found.distance == n - 1:
            break
        if layers >= n:
            raise ValueError(f"a stack of `{sublayer.kind}` sub-layers connects no positions")
        layers *= 2
    flops, mixing = Size(), Size()
    for node in graph.nodes:
        if node.layer == "stack.0":
            own = node.operation.matmul_flops([graph.types[i] for i in node.inputs], graph.shapes(node))
            flops += own
            mixing += own if node.operation.receptive_field() else 0
    return Complexity(flops, mixing, sequential_operations(graph, n, "stack.0"), found.path_length)


def sublayer_stack(sublayer: SubLayer, d: int, layers: int, *, heads: int = 1, causal: bool = False) -> Graph:
    """Return the graph of a stack of layers. Each layer is the given sub-layer with a residual connection.

    The inputs are `x` [batch, source, d] and `length` [batch]. The output is `y`, of the same shape as `x`. If
    `causal`, no position depends on later positions, as in a decoder.
    """
    builder = GraphBuilder(Purpose.ENCODE)
    sizes = {"d_model": d, "h": heads, "d_k": d // heads, "d_v": d // heads}
    architecture = specs.load("base").architecture.model_copy(update=sizes)
    x = builder.input(START, BATCH, SOURCE, d)
    length = builder.input(LENGTH, BATCH, kind=ValueKind.INTEGER)
    context = LayerContext(builder, architecture, x)
    if not causal:
        padding = builder.node("padding", PaddingMask(), (length, x))
        context = replace(context, length=length, padding=padding)
    for index in range(layers):
        with builder.layer(f"stack.{index}"), builder.sublayer(sublayer.kind):
            x += SUBLAYERS[sublayer.kind](x, sublayer, replace(context, index=index))
    builder.output(END, x)
    return builder.graph()


def sequential_operations(graph: Graph, n: int, layer: str | None = None) -> int:
    """Return the length of the longest chain of operations over n positions, in the whole graph or in one layer.

    An operation on all positions at once counts as one. A recurrence over the positions counts as n.
    """
    chain: dict[str, int] = {}
    for node in graph.nodes:
        if layer is None or node.layer == layer:
            reach = node.operation.receptive_field()
            own = 0 if reach is None else n if reach.sequential else 1
            chain[node.name] = own + max((chain.get(value, 0) for value in node.inputs), default=0)
    return max(chain.values(), default=0)


@dataclass(frozen=True)
class Connections:
    """Distance and path length over which positions of a computed value depend on positions of an earlier value."""

    distance: int
    """Largest d such that each position of the computed value depends on all positions at most d away.

    If a position depends on both earlier and later positions, this is the smaller d of the two directions.
    """
    path_length: int
    """Maximum path length (Table 1): the longest of the shortest paths between positions at most `distance` apart.

    If no operation reads later positions, as in a decoder, only paths from a position to later positions count.
    """


def connections(graph: Graph, start: str, end: str, n: int) -> Connections:
    """Measure how far positions of `end` depend on positions of `start`, and the path length between them.

    Args:
        graph: The graph that contains both values.
        start: The name of the earlier value.
        end: The name of the computed value.
        n: The number of positions in each value.
    """
    before, after = (_distances(graph, start, n - 1, ahead=ahead)[end] for ahead in (False, True))
    sides = [before, after] if max(after) > 0 else [before]
    distance = min(map(max, sides))
    lengths = [next(length for length, connected in enumerate(side) if connected >= distance) for side in sides]
    return Connections(int(distance), max(lengths))


def _distances(graph: Graph, start: str, limit: int, *, ahead: bool) -> dict[str, list[float]]:
    """Return, for each value, the largest distance that a path from `start` to the value can span.

    Distances are counted in positions. Each value has a list of distances, indexed by the length of the path.

    Args:
        graph: The graph that contains the paths.
        start: The name of the value at which paths start.
        limit: The largest possible distance. Larger distances are clipped to it.
        ahead: Whether to measure distances to later positions instead of earlier positions.
    """
    paths: dict[str, list[float]] = {start: [0]}
    for node in graph.nodes:
        field = node.operation.receptive_field()
        read = [
            field.extend(paths[value], limit, ahead=ahead) if field and index in field.inputs else paths[value]
            for index, value in enumerate(node.inputs)
            if value in paths
        ]
        if read and node.type.kind is ValueKind.FLOAT:  # a mask reads only the shapes of features
            paths[node.name] = [min(limit, max(same)) for same in zip_longest(*read, fillvalue=-inf)]
    return paths
