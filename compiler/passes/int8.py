"""int8 weights have a quarter of the size of float32, and most processors multiply int8 faster than other types."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, prune
from compiler.options import CompileOptions
from compiler.weights import Parameter, Quantised, Scales
from specs import Spec


def int8(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Compute all linear maps in int8, with one scale per row of the input and per column of the matrix.

    LSTMs and convolutions are not quantised. Embeddings are not quantised either. If the pre-softmax projection has the
    same table as an embedding, it gets a separate int8 copy of the table.
    """
    if options.precision != "int8":
        return graphs
    return {purpose: _quantise(graph) for purpose, graph in graphs.items()}


def _quantise(graph: Graph) -> Graph:
    parameters = dict(graph.parameters)

    def quantise(node: Node) -> Node:
        variant = node.operation.quantised()
        if variant is None:
            return node
        operation, dimension = variant
        matrix, *bias = node.parameters
        # A matrix that is read both as W and as Wᵀ gets two int8 copies with different scales.
        origin, suffix = graph.parameters[matrix].origin, "" if dimension else "_rows"
        names = (f"{matrix}_int8{suffix}", f"{matrix}_scales{suffix}")
        parameters[names[0]] = Parameter(names[0], Quantised(origin, dimension))
        parameters[names[1]] = Parameter(names[1], Scales(origin, dimension))
        return replace(node, operation=operation, parameters=(*names, *bias))

    nodes = tuple(map(quantise, graph.nodes))
    return prune(replace(graph, nodes=nodes, parameters=parameters))
