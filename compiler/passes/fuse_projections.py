"""Projections of the same value are one product: query, key and value of self-attention, key and value of a memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from compiler.graph import Graph, Graphs, Node, fresh, prune
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
            name = fresh(_join([node.name for node in group]), graph.types)
            names = [_join(list(each)) for each in zip(*(node.parameters for node in group), strict=True)]
            replaced[first.name] = one_product(group, name, names, parameters, first.layer)
            replaced.update({node.name: [] for node in others})
    nodes = tuple(new for node in graph.nodes for new in replaced.get(node.name, [node]))
    return prune(replace(graph, nodes=nodes, parameters=parameters))


def one_product(
    group: list[Node], name: str, names: list[str], parameters: dict[str, Parameter], layer: str
) -> list[Node]:
    """The product, then a slice for each projection under its old name; adds the new parameters under their names."""
    for number, wish in enumerate(names):
        joined = Parameter(wish, Concatenated(tuple(parameters[node.parameters[number]].origin for node in group)))
        if parameters.get(wish, joined) != joined:
            joined = replace(joined, name=fresh(wish, parameters))
        names[number] = joined.name
        parameters[joined.name] = joined
    widths = [node.type.shape[-1].constant for node in group]
    type_ = Type((*group[0].type.shape[:-1], Size.of(sum(widths))))
    return [
        replace(group[0], name=name, parameters=tuple(names), type=type_, layer=layer),
        *(
            replace(node, operation=Slice(-1, stop - width, stop), inputs=(name,), parameters=(), layer=layer)
            for node, width, stop in zip(group, widths, accumulate(widths), strict=True)
        ),
    ]


def _join(names: list[str]) -> str:
    """a.query, a.key -> a.query_key; what stands elsewhere is called in full."""
    stem = names[0].rpartition(".")[0]
    others = (n.removeprefix(f"{stem}.") if n.rpartition(".")[0] == stem else n.replace(".", "_") for n in names[1:])
    return "_".join([names[0], *others])
