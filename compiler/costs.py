"""Costs of a graph, computed without running it: parameters, FLOPs, bytes, memory traffic, and Table 1 of the paper.

FLOPs count only matrix products. A multiply-add counts as two FLOPs, as in torch's FlopCounterMode. The columns of
Table 1 are computed for any kind of sub-layer, from the graph's edges and the receptive field of each operation. A path
length counts the operations that read other positions. A recurrence computes one position after the other, and counts
once for each position that the path crosses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import specs
from compiler.builder import GraphBuilder
from compiler.graph import Graph, Purpose
from compiler.lowering.context import LayerContext
from compiler.lowering.positions import StackPositions
from compiler.lowering.transformer import SUBLAYERS
from compiler.operations.mask import PaddingMask
from compiler.operations.operation import FLOAT_BYTES, Node, ReceptiveField, ValueKind
from compiler.size import BATCH, SOURCE, Size
from specs import DecoderSubLayer, EncoderSubLayer


@dataclass(frozen=True)
class Cost:
    """Costs of a graph or of one of its layers.

    Costs that depend on the batch are polynomials in symbolic sizes, such as batch and source. Byte counts assume
    float32 numbers, except for weights.
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
        layer: Count only this layer, such as "encoder.0", or "" for everything outside layers. None: count all.
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
_Distances = Mapping[int, int]
"""Maps each path length, in ascending order, to the largest distance, in positions, that such a path connects."""


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
    """Return the complexity of a sub-layer (Table 1). Attention has one head.

    The numbers are computed from a stack of such sub-layers that has just enough layers to connect all positions.

    Args:
        sublayer: The sub-layer, as in a spec.
        n: Number of positions.
        d: Number of features.
        causal: Whether a position cannot see later positions, as in a decoder.

    Raises:
        ValueError: The sub-layer computes each position separately, so no number of layers connects all positions.
    """
    graph = _connected_stack(sublayer, n, d, causal)
    longest = path_length(graph, START, graph.outputs[END], n)
    assert longest is not None
    flops, mixing = Size(), Size()
    for node in graph.nodes:
        if node.layer == "stack.0":
            own = node.operation.matmul_flops([graph.types[i] for i in node.inputs], graph.shapes(node))
            flops += own
            mixing += own if node.operation.receptive_field() else 0
    return Complexity(flops, mixing, sequential_operations(graph, n, "stack.0"), longest)


def sublayer_stack(sublayer: SubLayer, d: int, layers: int, *, heads: int = 1, causal: bool = False) -> Graph:
    """Return the graph of a stack of layers. Each layer is the given sub-layer with a residual connection.

    The inputs are `x` [batch, source, d] and `length` [batch]. The output is `y`, of the same shape as `x`.
    """
    builder = GraphBuilder(Purpose.ENCODE)
    sizes = {"d_model": d, "h": heads, "d_k": d // heads, "d_v": d // heads}
    architecture = specs.load("base").architecture.model_copy(update=sizes)
    x = builder.input(START, BATCH, SOURCE, d)
    length = builder.input(LENGTH, BATCH, kind=ValueKind.INTEGER)
    positions = StackPositions(builder, architecture, "stack", causal)
    context = LayerContext(builder, architecture, positions, x)
    if not causal:
        padding = builder.node("padding", PaddingMask(), (length, x))
        context = replace(context, length=length, padding=padding)
    for index in range(layers):
        with builder.layer(f"stack.{index}"), builder.sublayer(sublayer.kind):
            x += SUBLAYERS[sublayer.kind](x, sublayer, replace(context, index=index))
    builder.output(END, x)
    return builder.graph()


def _connected_stack(sublayer: SubLayer, n: int, d: int, causal: bool) -> Graph:
    """Return the graph of the smallest stack of sub-layers in which all n positions are connected."""
    distances, layers = [0], 1
    while True:
        graph = sublayer_stack(sublayer, d, layers, causal=causal)
        distances.append(connected_distance(graph, START, graph.outputs[END], n))
        if distances[-1] >= n - 1:
            return graph
        gain = distances[-1] - distances[-2]
        if not gain:
            raise ValueError(f"a stack of `{sublayer.kind}` sub-layers connects no positions")
        constant = len(distances) > 2 and gain == distances[-2] - distances[-3]
        layers += -(-(n - 1 - distances[-1]) // gain) if constant else 1


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


def path_length(graph: Graph, start: str, end: str, n: int) -> int | None:
    """Return the maximum path length (Table 1): the longest of the shortest paths between any two of n positions.

    Return None if two of the positions are not connected.

    If no operation reads later positions, as in a decoder, only paths from a position to later positions count.

    Args:
        graph: The graph that contains `start` and `end`.
        start: The value at which paths start.
        end: The value at which paths end.
        n: Number of positions.
    """
    lengths = [
        next((length for length, distance in paths.items() if distance >= n - 1), None)
        for paths in _best_paths(graph, start, end, n - 1)
    ]
    return None if None in lengths else max(filter(None, lengths), default=0)


def connected_distance(graph: Graph, start: str, end: str, n: int) -> int:
    """Return the largest d such that each position of `end` depends on all positions of `start` at most d away.

    If `end` depends on both earlier and later positions, return the smaller d of the two directions.

    Args:
        graph: The graph that contains `start` and `end`.
        start: The value at which paths start.
        end: The value at which paths end.
        n: Number of positions.
    """
    return min(max(paths.values(), default=0) for paths in _best_paths(graph, start, end, n - 1))


def _best_paths(graph: Graph, start: str, end: str, n: int) -> Iterator[_Distances]:
    """Yield the best paths from `start` to `end`, once for each direction: `before`, then `after`.

    Each result maps path lengths to distances, shortest paths first. The distance of a path is the largest d such that
    each position of `end` depends on all positions of `start` at most d away. Distances above n are reduced to n. If no
    operation reads later positions, there is no mapping for `after`.
    """
    for direction in _directions(graph, start):
        paths: dict[str, _Distances] = {start: {0: 0}}
        for node in graph.nodes:
            pairs = (
                pair
                for value, reach in _reads(node)
                for before in paths.get(value, {}).items()
                for pair in _after(before, reach, n, direction)
            )
            paths.setdefault(node.name, _pareto(pairs))
        yield paths.get(end, {})


def _directions(graph: Graph, start: str) -> tuple[str, ...]:
    """Return ("before", "after") if an operation that depends on `start` reads later positions, else ("before",)."""
    reached = {start}
    looks_ahead = False
    for node in graph.nodes:
        for value, reach in _reads(node):
            if value in reached:
                reached.add(node.name)
                looks_ahead = looks_ahead or (reach is not None and reach.after != 0)
    return ("before", "after") if looks_ahead else ("before",)


def _reads(node: Node) -> Iterator[tuple[str, ReceptiveField | None]]:
    """Yield each input of a node, and the receptive field of the node on this input.

    The field is None if each result depends only on the same position of the input. Nothing is yielded for a node that
    computes a mask or integers.
    """
    reach = node.operation.receptive_field()
    if node.type.kind is ValueKind.FLOAT:
        for index, value in enumerate(node.inputs):
            yield value, reach if reach is not None and index in reach.inputs else None


def _extend(distance: int, reach: ReceptiveField | None, n: int, direction: str) -> int:
    """Return the connected distance of an operation's result, given the distance of its input (see `_best_paths`).

    A dilated operation skips positions between the positions that it reads. The distance only grows if the input
    already depends on the skipped positions.
    """
    if reach is None:
        return distance
    extent, sides = getattr(reach, direction), 1 if 0 in (reach.before, reach.after) else 2
    if extent is None:
        return n
    return min(n, distance + extent) if distance * sides + 1 >= reach.spacing else distance


def _after(before: tuple[int, int], reach: ReceptiveField | None, n: int, direction: str) -> Iterator[tuple[int, int]]:
    """Extend a path by an operation. Yield each possible length of the new path, with the distance that it connects.

    Args:
        before: Length of the path before the operation, and the distance that it connects, in positions.
        reach: The receptive field of the operation. None if the operation reads only the same position.
        n: Maximum distance. Larger distances are reduced to n.
        direction: Direction in which distances are measured: `before` or `after`.
    """
    length, distance = before
    if reach is None:
        yield length, distance
    elif reach.sequential:
        for bridged in range(distance, _extend(distance, reach, n, direction) + 1):
            yield length + 1 + bridged - distance, bridged
    else:
        yield length + 1, _extend(distance, reach, n, direction)


def _pareto(pairs: Iterable[tuple[int, int]]) -> _Distances:
    """Return the Pareto-optimal pairs of path length and distance, as a mapping from length to distance.

    A pair is dropped if another path that is not longer connects positions that are at least as far apart.
    """
    best: dict[int, int] = {}
    largest = -1
    for length, distance in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if distance > largest:
            best[length] = largest = distance
    return best
