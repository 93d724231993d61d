"""Dropout is active in training only (5.4)."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node
from compiler.options import CompileOptions
from specs import Spec


def drop_dropout(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Remove dropout from all graphs except those for training. In training, remove only dropout of probability 0."""
    return {purpose: _drop(graph) for purpose, graph in graphs.items()}


def _drop(graph: Graph) -> Graph:
    nodes: list[Node] = []
    replaced: dict[str, str] = {}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(replaced.get(i, i) for i in node.inputs))
        if not graph.purpose.trains or not node.operation.dropout:
            operation = node.operation.without_dropout()
            if operation is None:
                replaced[node.name] = node.inputs[0]
                continue
            node = replace(node, operation=operation)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)).with_results(replaced)
