"""A number that every element is multiplied by can be multiplied into the weights, once."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose
from compiler.operations.attention import Attention
from compiler.operations.embedding import Embed
from compiler.operations.projection import Linear, Logits
from compiler.terms import Terms
from compiler.weights import Parameter, Scaled
from specs import Spec


def fold_scales(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Multiplies 1/sqrt(d_k) into the query's weights and sqrt(d_model) into embeddings, where nothing is trained.

    A table that is the pre-softmax projection as well keeps its scale, and so does training: Adam would take other
    steps for scaled weights.
    """
    if Purpose.TRAIN in graphs:
        return graphs
    factors: dict[str, float] = {}
    tables = {n.parameters[0] for g in graphs.values() for n in g.nodes if isinstance(n.operation, Logits)}
    for graph in graphs.values():
        made = {node.name: node for node in graph.nodes}
        for node in graph.nodes:
            if isinstance(node.operation, Embed) and node.parameters[0] not in tables:
                factors[node.parameters[0]] = node.operation.scale
            if isinstance(node.operation, Attention) and (query := _query(node, made)):
                factors.update(dict.fromkeys(query.parameters, node.operation.scale))
    return {purpose: _folded(graph, factors) for purpose, graph in graphs.items()}


def _query(attention: Node, made: dict[str, Node]) -> Node | None:
    """The projection that gives an attention its query, through the splitting of heads."""
    heads = made.get(attention.inputs[0])
    query = made.get(heads.inputs[0]) if heads else None
    return query if query and isinstance(query.operation, Linear) else None


def _folded(graph: Graph, factors: dict[str, float]) -> Graph:
    made = {node.name: node for node in graph.nodes}

    def without_scale(node: Node) -> Node:
        operation = node.operation
        if isinstance(operation, Embed) and node.parameters[0] in factors:
            return replace(node, operation=replace(operation, scale=1.0))
        if isinstance(operation, Attention) and _query(node, made):
            return replace(node, operation=replace(operation, scale=1.0))
        return node

    parameters = {
        name: Parameter(name, Scaled(parameter.origin, factors[name])) if name in factors else parameter
        for name, parameter in graph.parameters.items()
    }
    return replace(graph, nodes=tuple(map(without_scale, graph.nodes)), parameters=parameters)
