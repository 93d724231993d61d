"""What a graph costs, before anything runs.

FLOPs are those of the matrix products alone, a multiply-add counted as two, as torch's FlopCounterMode counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.graph import Graph
from compiler.operations.operation import FLOAT_BYTES
from compiler.size import Size


@dataclass(frozen=True)
class Cost:
    """Of a graph or of one layer. Sizes are polynomials; bytes are those of float32 but for weights."""

    parameters: int
    weight_bytes: int
    """In the type that the weights have in the graph."""
    flops: Size
    activation_bytes: Size
    """Every result that is a tensor of its own: what a training step keeps for the backward pass, roughly."""
    cache_bytes: Size
    """What is carried from step to step."""


def cost(graph: Graph, layer: str | None = None) -> Cost:
    """Of the whole graph, or of one layer of it ("encoder.0"; "" is what lies outside the layers)."""
    types = graph.types
    flops, kept, carried, names = Size(), Size(), Size(), set[str]()
    for node in graph.nodes:
        if layer not in (None, node.layer):
            continue
        names.update(node.parameters)
        given = [types[i] for i in node.inputs], graph.shapes(node)
        flops += node.operation.products(*given)
        kept += FLOAT_BYTES * node.operation.kept(*given)
        if not node.operation.view and node.operation.overwrites is None:
            kept += node.type.bytes()
    for name in graph.carried:
        if layer in (None, name.rpartition(".")[0]):
            carried += types[name].bytes()
    weights = [graph.parameters[name] for name in names]
    return Cost(sum(w.count for w in weights), sum(w.bytes for w in weights), flops, kept, carried)


def layers(graph: Graph) -> list[str]:
    """The layers in order of appearance, "" included."""
    return list(dict.fromkeys(node.layer for node in graph.nodes))
