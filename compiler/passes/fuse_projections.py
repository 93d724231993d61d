"""Projections of the same value are one product: query, key and value of self-attention, key and value of a memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from compiler.graph import Graph, Graphs, Node, prune
from compiler.operations.operation import Type
from compiler.operations.projection import Linear
from compiler.operations.views import Slice
from compiler.size import Size
from compiler.terms import Terms
from compiler.weights import Concatenated, Parameter
from specs import Spec


def fuse_projections(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Makes one product of the projections that read the same value, their matrices side by side."""
    return {purpose: _fused(graph) for purpose, graph in graphs.items()}


def _fused(graph: Graph) -> Graph:
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.operation, Linear):
            groups.setdefault((node.layer, node.inputs[0]), []).append(node)
    parameters = dict(graph.parameters)
    replaced: dict[str, list[Node]] = {}
    for group in groups.values():
        if len(group) > 1 and len({len(node.parameters) for node in group}) == 1:
            first, *others = group
            replaced[first.name] = _one_product(group, parameters)
            replaced.update({node.name: [] for node in others})
    nodes = tuple(new for node in graph.nodes for new in replaced.get(node.name, [node]))
    return prune(replace(graph, nodes=nodes, parameters=parameters))


def _one_product(group: list[Node], parameters: dict[str, Parameter]) -> list[Node]:
    """The product, then a slice for each projection under its old name; adds the new parameters."""
    first = group[0]
    names = [_join([node.parameters[i] for node in group]) for i in range(len(first.parameters))]
    for i, name in enumerate(names):
        origins = tuple(parameters[node.parameters[i]].origin for node in group)
        parameters[name] = Parameter(name, Concatenated(origins))
    widths = [node.type.shape[-1].constant for node in group]
    joined = replace(
        first,
        name=_join([node.name for node in group]),
        parameters=tuple(names),
        type=Type((*first.type.shape[:-1], Size.of(sum(widths)))),
    )
    slices = [
        replace(node, operation=Slice(-1, stop - width, stop), inputs=(joined.name,), parameters=())
        for node, width, stop in zip(group, widths, accumulate(widths), strict=True)
    ]
    return [joined, *slices]


def _join(names: list[str]) -> str:
    """a.query, a.key -> a.query_key"""
    stem = names[0].rpartition(".")[0]
    return ".".join(filter(None, (stem, "_".join(name.rpartition(".")[2] for name in names))))
