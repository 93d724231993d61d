"""A product is fastest where its sizes are multiples of what the machine takes at once; a vocabulary seldom is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, fresh
from compiler.operations.operation import Type
from compiler.operations.projection import Logits
from compiler.operations.views import Slice
from compiler.terms import Terms
from compiler.weights import Padded, Parameter
from specs import Spec


def pad_vocabulary(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Gives the pre-softmax table (and bias) rows of zeros up to a multiple of `compilation.vocabulary_multiple`."""
    multiple, padded = spec.compilation.vocabulary_multiple, dict[str, Parameter]()
    for graph in graphs.values():
        for node in graph.nodes:
            if isinstance(node.operation, Logits):
                for name in node.parameters:
                    size = graph.parameters[name].origin.shape[0]
                    if more := -size % multiple:
                        padded[name] = Parameter(name, Padded(graph.parameters[name].origin, size + more))
    return {purpose: _padded(graph, padded) for purpose, graph in graphs.items()}


def _padded(graph: Graph, padded: Mapping[str, Parameter]) -> Graph:
    """A tied table is padded in every graph, so that the graphs go on sharing it; its new rows are never looked up."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operation, Logits) and node.parameters[0] in padded:
            rows, size = padded[node.parameters[0]].shape[0], node.type.shape[-1].constant
            name = fresh(f"padded_{node.name}", graph.types)
            nodes.append(replace(node, name=name, type=Type((*node.type.shape[:-1], rows))))
            node = replace(node, operation=Slice(-1, 0, size), inputs=(name,), parameters=())
        nodes.append(node)
    parameters = {name: padded.get(name, parameter) for name, parameter in graph.parameters.items()}
    return replace(graph, nodes=tuple(nodes), parameters=parameters)
