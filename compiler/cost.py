"""What a graph costs, before anything runs.

FLOPs are those of the matrix products alone, a multiply-add counted as two, as torch's FlopCounterMode counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.graph import Graph, Node
from compiler.operation import FoldBeams, Kind, Slice, SplitHeads, Type, UnfoldBeams, Write
from compiler.size import Size, product

FLOAT_BYTES = 4


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
    nodes = [node for node in graph.nodes if layer in (None, node.layer)]
    names = {p for node in nodes for p in node.parameters}
    return Cost(
        sum(graph.parameters[name].count for name in names),
        sum(graph.parameters[name].bytes for name in names),
        _sum(node.operation.products(tuple(types[i] for i in node.inputs), graph.shapes(node)) for node in nodes),
        _sum(_bytes(node.type) for node in nodes if not _is_view(node))
        + FLOAT_BYTES
        * _sum(node.operation.kept(tuple(types[i] for i in node.inputs), graph.shapes(node)) for node in nodes),
        _sum(_bytes(graph.inputs[name]) for name in graph.carried if layer in (None, name.rpartition(".")[0])),
    )


def layers(graph: Graph) -> list[str]:
    """The layers in order of appearance, "" included."""
    return list(dict.fromkeys(node.layer for node in graph.nodes))


def _bytes(type_: Type) -> Size:
    return product(type_.shape) * (8 if type_.kind is Kind.INTEGER else FLOAT_BYTES)


def _is_view(node: Node) -> bool:
    return isinstance(node.operation, Slice | SplitHeads | FoldBeams | UnfoldBeams | Write)


def _sum(sizes: Iterable[Size]) -> Size:
    return sum(sizes, Size())
