"""A quarter of the bytes of a weight, and the fastest products of most processors."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, prune
from compiler.operations.operation import Operation
from compiler.operations.projection import Linear, Logits, QuantisedLinear, QuantisedLogits
from compiler.terms import Terms
from compiler.weights import Parameter, Quantised, Scales
from specs import Spec

_RULES: dict[type[Operation], tuple[Operation, int]] = {
    Linear: (QuantisedLinear(), 1),
    Logits: (QuantisedLogits(), 0),
}
"""What each product becomes, and which dimension of its matrix has a scale for each place."""


def int8(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Makes every linear map's product one of 8-bit integers, scaled a row of what comes in and a column of weights.

    Those of LSTMs and of convolutions stay as they are. So does a table that is an embedding, too, for that: the
    pre-softmax projection gets one of its own.
    """
    if terms.precision != "int8":
        return graphs
    return {purpose: _quantised(graph) for purpose, graph in graphs.items()}


def _quantised(graph: Graph) -> Graph:
    parameters = dict(graph.parameters)

    def quantised(node: Node) -> Node:
        if type(node.operation) not in _RULES:
            return node
        operation, dimension = _RULES[type(node.operation)]
        matrix, *bias = node.parameters
        # One that is read both ways is rounded both ways.
        origin, way = graph.parameters[matrix].origin, "" if dimension else "_rows"
        names = (f"{matrix}_int8{way}", f"{matrix}_scales{way}")
        parameters[names[0]] = Parameter(names[0], Quantised(origin, dimension))
        parameters[names[1]] = Parameter(names[1], Scales(origin, dimension))
        return replace(node, operation=operation, parameters=(*names, *bias))

    nodes = tuple(map(quantised, graph.nodes))
    return prune(replace(graph, nodes=nodes, parameters=parameters))
