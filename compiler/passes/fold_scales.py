"""A number that every element is multiplied by can be multiplied into the weights, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose
from compiler.operations.attention import Attention
from compiler.operations.embedding import Embed
from compiler.operations.projection import Linear
from compiler.operations.restricted import RestrictedAttention
from compiler.operations.views import SplitHeads
from compiler.terms import Terms
from compiler.weights import Parameter, Scaled
from specs import Spec


def fold_scales(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Multiplies 1/sqrt(d_k) into the query's weights and sqrt(d_model) into embeddings, where nothing is trained.

    A table that is the pre-softmax projection as well keeps its scale, as does whatever something else reads; and so
    does training: Adam would take other steps for scaled weights.
    """
    if Purpose.TRAIN in graphs:
        return graphs
    users = Counter(name for graph in graphs.values() for node in graph.nodes for name in node.parameters)
    wanted: dict[str, list[float]] = {}
    for graph in graphs.values():
        for _, scale, names in _scales(graph):
            for name in names:
                wanted.setdefault(name, []).append(scale)
    # All who use a parameter must want the same of it.
    factors = {n: each[0] for n, each in wanted.items() if len(each) == users[n] and len(set(each)) == 1}
    together = [set(names) for graph in graphs.values() for _, _, names in _scales(graph)]
    while halved := set().union(*(names for names in together if not names <= factors.keys())) & factors.keys():
        factors = {name: factor for name, factor in factors.items() if name not in halved}
    return {purpose: _folded(graph, factors) for purpose, graph in graphs.items()}


def _scales(graph: Graph) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Each node with a scale, and the parameters that may have it instead: those of an attention's query."""
    made = {node.name: node for node in graph.nodes}
    uses = Counter(i for node in graph.nodes for i in node.inputs) + Counter(graph.results.values())
    for node in graph.nodes:
        if isinstance(node.operation, Embed):
            yield node.name, node.operation.scale, node.parameters
        if (
            isinstance(node.operation, Attention | RestrictedAttention)
            and not node.parameters
            and (heads := made.get(node.inputs[0]))
        ):
            query = made.get(heads.inputs[0]) if isinstance(heads.operation, SplitHeads) else None
            if query and isinstance(query.operation, Linear) and uses[heads.name] == uses[query.name] == 1:
                yield node.name, node.operation.scale, query.parameters


def _folded(graph: Graph, factors: dict[str, float]) -> Graph:
    done = {node for node, _, names in _scales(graph) if factors.keys() >= set(names)}

    def without_scale(node: Node) -> Node:
        if node.name in done and isinstance(node.operation, Embed | Attention | RestrictedAttention):
            return replace(node, operation=replace(node.operation, scale=1.0))
        return node

    parameters = {
        name: Parameter(name, Scaled(parameter.origin, factors[name])) if name in factors else parameter
        for name, parameter in graph.parameters.items()
    }
    return replace(graph, nodes=tuple(map(without_scale, graph.nodes)), parameters=parameters)
