"""Every layer of the decoder projects the same memory: together they are one product."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, fresh, prune
from compiler.operations.projection import Linear
from compiler.passes.fuse_projections import one_product
from compiler.terms import Terms
from specs import Spec


def fuse_memory(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Makes one product of the memory's keys and values in all layers, each layer taking its slice."""
    return {purpose: _fused(graph) for purpose, graph in graphs.items()}


def _fused(graph: Graph) -> Graph:
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.operation, Linear) and node.layer:
            groups.setdefault((_stack(node), node.inputs[0]), []).append(node)
    alike = [g for g in groups.values() if len({n.layer for n in g}) > 1 and len({len(n.parameters) for n in g}) == 1]
    parameters, nodes = dict(graph.parameters), list(graph.nodes)
    for group in alike:
        names = {node.name for node in group}
        first = next(place for place, node in enumerate(nodes) if _stack(node) == _stack(group[0]))
        first = max(first, 1 + max((i for i, n in enumerate(nodes) if n.name == group[0].inputs[0]), default=-1))
        name = fresh("memory_keys_values", {node.name for node in nodes}, graph.inputs)
        kinds = ("keys_values", "bias")[: len(group[0].parameters)]
        made = [f"{_stack(group[0])}.memory.{kind}" for kind in kinds]
        nodes[first:first] = one_product(group, name, made, parameters, layer="")
        nodes = [n for n in nodes if not (n.name in names and isinstance(n.operation, Linear))]
    return prune(replace(graph, nodes=tuple(nodes), parameters=parameters))


def _stack(node: Node) -> str:
    return node.layer.partition(".")[0]
