"""Passes for matrix products with weights: projections of the same value, such as query and key, become one product."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from compiler.graph import Graph, prune, unique_name
from compiler.operations.operation import Node, ValueType
from compiler.operations.views import Slice
from compiler.size import Size
from compiler.weights import Concatenated, Parameter


def fuse_projections(graph: Graph) -> Graph:
    """Replace projections that read the same value with one projection that has their concatenated matrices."""
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if node.operation.is_projection:
            groups.setdefault((node.layer, node.inputs[0]), []).append(node)
    parameters = dict(graph.parameters)
    replaced: dict[str, list[Node]] = {}
    for group in groups.values():
        if len(group) > 1 and len({len(node.parameters) for node in group}) == 1:
            first, *others = group
            name = unique_name(_join([node.name for node in group]), graph.types)
            names = [_join(list(column)) for column in zip(*(node.parameters for node in group), strict=True)]
            replaced[first.name] = fuse_group(group, name, names, parameters, first.layer)
            replaced.update({node.name: [] for node in others})
    nodes = tuple(new for node in graph.nodes for new in replaced.get(node.name, [node]))
    return prune(replace(graph, nodes=nodes, parameters=parameters))


def fuse_group(
    group: list[Node], name: str, names: list[str], parameters: dict[str, Parameter], layer: str
) -> list[Node]:
    """Fuse projections into one node. Return this node, followed by a slice of its result for each projection.

    Each slice has the name of the projection that it replaces.

    Args:
        group: The projections.
        name: Name of the fused value.
        names: Names of the concatenated parameters.
        parameters: The parameters of the graph. The concatenated parameters are added to this mapping.
        layer: Layer of the new nodes.
    """
    for index, wanted in enumerate(names):
        joined = Parameter(wanted, Concatenated(tuple(parameters[node.parameters[index]].origin for node in group)))
        if parameters.get(wanted, joined) != joined:
            joined = replace(joined, name=unique_name(wanted, parameters))
        names[index] = joined.name
        parameters[joined.name] = joined
    widths = [node.type.shape[-1].constant for node in group]
    type_ = ValueType((*group[0].type.shape[:-1], Size.of(sum(widths))))
    return [
        replace(group[0], name=name, parameters=tuple(names), type=type_, layer=layer),
        *(
            replace(node, operation=Slice(-1, stop - width, stop), inputs=(name,), parameters=(), layer=layer)
            for node, width, stop in zip(group, widths, accumulate(widths), strict=True)
        ),
    ]


def _join(names: list[str]) -> str:
    """Join names: a.query and a.key become a.query_key. Names outside the first name's path are kept in full."""
    stem = names[0].rpartition(".")[0]
    others = (n.removeprefix(f"{stem}.") if n.rpartition(".")[0] == stem else n.replace(".", "_") for n in names[1:])
    return "_".join([names[0], *others])


def fuse_memory(graph: Graph) -> Graph:
    """Project the encoder output to the keys and values of all decoder layers in one matrix product.

    All decoder layers project the same encoder output, so one product can compute all of their keys and values. Each
    layer takes a slice of the result.
    """
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if node.operation.is_projection and node.layer:
            groups.setdefault((_stack(node), node.inputs[0]), []).append(node)
    parameters, nodes = dict(graph.parameters), list(graph.nodes)
    for (stack, value), group in groups.items():
        if len({n.layer for n in group}) == 1 or len({len(n.parameters) for n in group}) > 1:
            continue
        # The product goes before the stack's first layer, but after the value that it reads.
        first = next(index for index, node in enumerate(nodes) if _stack(node) == stack)
        first = max(first, 1 + max((i for i, n in enumerate(nodes) if n.name == value), default=-1))
        name = unique_name("memory_keys_values", {node.name for node in nodes}, graph.inputs)
        suffixes = ("keys_values", "bias")[: len(group[0].parameters)]
        fused = fuse_group(group, name, [f"{stack}.memory.{suffix}" for suffix in suffixes], parameters, layer="")
        nodes[first:first] = fused
        names = {node.name for node in group}
        nodes = [n for n in nodes if not (n.name in names and n.operation.is_projection)]
    return prune(replace(graph, nodes=tuple(nodes), parameters=parameters))


def _stack(node: Node) -> str:
    return node.layer.partition(".")[0]
