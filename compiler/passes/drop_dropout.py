"""Dropout is for training only."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose
from compiler.operations.attention import Attention
from compiler.operations.residual import Dropout
from compiler.operations.restricted import RestrictedAttention
from compiler.terms import Terms
from specs import Spec


def drop_dropout(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Takes dropout out where nothing is trained, and everywhere that its probability is 0."""
    return {purpose: _without(graph) for purpose, graph in graphs.items()}


def _without(graph: Graph) -> Graph:
    kept: list[Node] = []
    same: dict[str, str] = {}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(same.get(i, i) for i in node.inputs))
        operation = node.operation
        if isinstance(operation, Dropout) and (graph.purpose is not Purpose.TRAIN or not operation.probability):
            same[node.name] = node.inputs[0]
            continue
        if isinstance(operation, Attention | RestrictedAttention) and graph.purpose is not Purpose.TRAIN:
            node = replace(node, operation=replace(operation, dropout=0.0))
        kept.append(node)
    return replace(graph, nodes=tuple(kept)).with_values(same)
