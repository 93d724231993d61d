"""Passes for matrix products with weights: projections of the same value, such as query and key, become one product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

from compiler.graph import Graph, numbered, prune, unique_name
from compiler.operations.operation import Node, ValueType
from compiler.operations.views import Slice
from compiler.size import Size
from compiler.weights import Concatenated, Parameter


def fuse_projections(graph: Graph) -> Graph:
    """Replace projections that read the same value with one projection that has their concatenated matrices."""
    parameters, fused = dict(graph.parameters), dict[str, list[Node]]()
    for group in _groups(graph, lambda node: node.layer):
        if len(group) > 1:
            name = unique_name(_join([node.name for node in group]), graph.types)
            names = [_join(list(column)) for column in zip(*(node.parameters for node in group), strict=True)]
            fused[group[0].name] = _fuse(group, name, names, parameters, group[0].layer)
    return _insert(graph, fused, parameters)


def fuse_memory(graph: Graph) -> Graph:
    """Project the encoder output to the keys and values of all decoder layers in one matrix product.

    All decoder layers project the same encoder output, so one product can compute all of their keys and values. Each
    layer takes a slice of the result.
    """
    parameters, fused, names = dict(graph.parameters), dict[str, list[Node]](), numbered("memory_keys_values")
    for group in _groups(graph, _stack):
        if len({node.layer for node in group}) > 1:
            stack, value = _stack(group[0]), group[0].inputs[0]
            # The product goes before the stack's first layer, but after the value that it reads.
            first = next(i for i, node in enumerate(graph.nodes) if _stack(node) == stack)
            first = max(first, 1 + max((i for i, node in enumerate(graph.nodes) if node.name == value), default=-1))
            name = next(name for name in names if name not in graph.types)
            suffixes = ("keys_values", "bias")[: len(group[0].parameters)]
            nodes = _fuse(group, name, [f"{stack}.memory.{suffix}" for suffix in suffixes], parameters, layer="")
            fused.setdefault(graph.nodes[first].name, []).extend(nodes)
    return _insert(graph, fused, parameters)


def _groups(graph: Graph, part: Callable[[Node], str]) -> Iterator[list[Node]]:
    """Yield groups of projections that read the same value in the same part of the graph.

    Groups in which only some projections have a bias are omitted.

    Args:
        graph: The graph.
        part: Function that returns the part that a node belongs to, such as its layer.
    """
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if node.operation.is_projection:
            groups.setdefault((part(node), node.inputs[0]), []).append(node)
    return (group for group in groups.values() if len({len(node.parameters) for node in group}) == 1)


def _fuse(group: list[Node], name: str, names: list[str], parameters: dict[str, Parameter], layer: str) -> list[Node]:
    """Fuse projections into one node. Return this node, followed by a slice of its result for each projection.

    Each slice has the name of the projection that it replaces.

    Args:
        group: The projections to fuse.
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


def _insert(graph: Graph, fused: Mapping[str, list[Node]], parameters: dict[str, Parameter]) -> Graph:
    """Return a graph in which fused nodes replace the projections that have the same names.

    Args:
        graph: The graph.
        fused: Lists of new nodes. The key of a list is the name of the node before which the list is inserted.
        parameters: The parameters of the new graph.
    """
    replaced = {node.name for nodes in fused.values() for node in nodes}
    nodes = []
    for node in graph.nodes:
        nodes += fused.get(node.name, [])
        if node.name not in replaced:
            nodes.append(node)
    return prune(replace(graph, nodes=tuple(nodes), parameters=parameters))


def _join(names: list[str]) -> str:
    """Join names: a.query and a.key become a.query_key. Names with a different path are kept in full."""
    stem = names[0].rpartition(".")[0]
    others = (n.removeprefix(f"{stem}.") if n.rpartition(".")[0] == stem else n.replace(".", "_") for n in names[1:])
    return "_".join([names[0], *others])


def _stack(node: Node) -> str:
    return node.layer.partition(".")[0]
