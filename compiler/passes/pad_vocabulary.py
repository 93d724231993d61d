"""A product is fastest where its sizes are multiples of what the machine takes at once; a vocabulary seldom is."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node
from compiler.operations.operation import Type
from compiler.operations.projection import Logits
from compiler.operations.views import Slice
from compiler.size import Size
from compiler.terms import Terms
from compiler.weights import Padded, Parameter
from specs import Spec


def pad_vocabulary(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Gives the pre-softmax table rows of zeros up to a multiple of `compilation.vocabulary_multiple`."""
    multiple, size = spec.compilation.vocabulary_multiple, spec.vocabulary.size
    rows = -(-size // multiple) * multiple
    tables = {n.parameters[0] for g in graphs.values() for n in g.nodes if isinstance(n.operation, Logits)}
    if rows == size:
        return graphs
    return {purpose: _padded(graph, tables, rows, size) for purpose, graph in graphs.items()}


def _padded(graph: Graph, tables: set[str], rows: int, size: int) -> Graph:
    """A tied table is padded in every graph, so that the graphs go on sharing it; its new rows are never looked up."""
    parameters = {
        name: Parameter(name, Padded(parameter.origin, rows)) if name in tables else parameter
        for name, parameter in graph.parameters.items()
    }
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operation, Logits):
            padded = replace(node, name=f"padded_{node.name}", type=Type((*node.type.shape[:-1], Size.of(rows))))
            nodes += [
                padded,
                replace(node, operation=Slice(-1, 0, size), inputs=(padded.name,), parameters=()),
            ]
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), parameters=parameters)
