"""Table 1: what a layer of each kind costs, derived from graphs of that layer alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import specs
from compiler import paths
from compiler.builder import Builder
from compiler.graph import Graph, Purpose
from compiler.lower.surroundings import Surroundings
from compiler.lower.transformer import SUBLAYERS
from compiler.operations.operation import Kind
from compiler.size import BATCH, SOURCE, Size
from specs import DecoderSubLayer, EncoderSubLayer

SubLayer = EncoderSubLayer | DecoderSubLayer
START, TOKENS, END = "x", "tokens", "y"


@dataclass(frozen=True)
class Complexity:
    """Of one sub-layer on one sequence."""

    operations: Size
    """FLOPs of its matrix products, a multiply-add counted as two: a polynomial of `batch` and `source`."""
    over_positions: Size
    """Those of the operations that read other positions than their own: without the projections of attention."""
    steps: int
    """The longest chain of operations over positions, each of which has to wait for the one before."""
    path: int
    """Between the positions that are furthest apart: the operations over positions on the shortest path."""


def complexity(of: SubLayer, n: int, d: int, *, causal: bool = False) -> Complexity:
    """Of layers of this sub-layer alone, d wide with one head, on n positions; `causal` ones are a decoder's.

    As many layers are drawn as it takes to connect all positions. Raises ValueError for one that connects none.
    """
    graph = _connected(of, n, d, causal)
    found = paths.path(graph, START, graph.outputs[END], n)
    assert found is not None
    every, over = Size(), Size()
    for node in graph.nodes:
        if node.layer == "stack.0":
            own = node.operation.products([graph.types[i] for i in node.inputs], graph.shapes(node))
            every += own
            over += own if node.operation.over_positions() else 0
    return Complexity(every, over, paths.steps(graph, n, "stack.0"), found)


def stack(of: SubLayer, d: int, layers: int, *, heads: int = 1, causal: bool = False) -> Graph:
    """So many layers of a sub-layer and its residual: from `x` [batch, source, d] and the `tokens` to `y`."""
    builder = Builder(Purpose.ENCODE)
    wide = {"d_model": d, "h": heads, "d_k": d // heads, "d_v": d // heads}
    architecture = specs.load("base").architecture.model_copy(update=wide)
    x = builder.input(START, BATCH, SOURCE, d)
    tokens = builder.input(TOKENS, BATCH, SOURCE, kind=Kind.INTEGER)
    around = Surroundings(builder, architecture, tokens, causal)
    for number in range(layers):
        with builder.layer(f"stack.{number}"), builder.part(of.kind):
            x += SUBLAYERS[of.kind](x, of, replace(around, number=number))
    builder.output(END, x)
    return builder.graph()


def _connected(of: SubLayer, n: int, d: int, causal: bool) -> Graph:
    """The stack of as many layers as it takes."""
    far, layers = [0], 1
    while True:
        graph = stack(of, d, layers, causal=causal)
        far.append(paths.furthest(graph, START, graph.outputs[END], n))
        if far[-1] >= n - 1:
            return graph
        gained = far[-1] - far[-2]
        if not gained:
            raise ValueError(f"layers of `{of.kind}` alone connect no positions")
        alike = len(far) > 2 and gained == far[-2] - far[-3]  # each layer reaches as far as the one before
        layers += -(-(n - 1 - far[-1]) // gained) if alike else 1
