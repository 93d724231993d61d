"""int8 takes a quarter of the bytes of a weight, and its products are the fastest ones of most processors."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, prune
from compiler.options import CompileOptions
from compiler.weights import Parameter, Quantised, Scales
from specs import Spec


def int8(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Compute all linear maps in int8, with one scale per row of the input and per column of the matrix.

    LSTMs and convolutions stay as they are. An embedding stays too, even if its table is that of the pre-softmax
    projection, which then gets an int8 table of its own.
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
