"""Passes for matrix products with weights.

Projections of the same value, such as query, key and value, become one product. A constant factor is multiplied into
the weights once, instead of into every value at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from compiler.graph import Graph, Graphs, Purpose, prune, unique_name
from compiler.operations.operation import Node, Operation, ValueType
from compiler.operations.views import Slice
from compiler.options import CompileOptions
from compiler.size import Size
from compiler.weights import Concatenated, Parameter, Scaled
from specs import Spec


class _Scale(NamedTuple):
    """Constant factor of a node, the parameters that the factor could scale, and the operation without the factor."""

    factor: float
    parameters: tuple[str, ...]
    unscaled: Operation


def fold_scales(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Multiply 1/sqrt(d_k) into the weights of queries and sqrt(d_model) into embeddings, except for training.

    A parameter is not scaled if another operation reads it without this factor, as with an embedding table that is also
    used by the pre-softmax projection. In training, nothing is scaled, because Adam's steps depend on the scale of the
    weights.
    """
    if Purpose.TRAIN in graphs:
        return graphs
    scales = {purpose: dict(_scales(graph)) for purpose, graph in graphs.items()}
    all_scales = [scale for of_graph in scales.values() for scale in of_graph.values()]
    uses = Counter(name for graph in graphs.values() for node in graph.nodes for name in node.parameters)
    requested: dict[str, list[float]] = {}
    for scale in all_scales:
        for name in scale.parameters:
            requested.setdefault(name, []).append(scale.factor)
    # All readers of a parameter must request the same factor, and all parameters of a projection must have it.
    factors = {n: each[0] for n, each in requested.items() if len(each) == uses[n] and len(set(each)) == 1}
    while True:
        incomplete = {
            n for scale in all_scales if not set(scale.parameters) <= factors.keys() for n in scale.parameters
        }
        if not incomplete & factors.keys():
            break
        factors = {name: factor for name, factor in factors.items() if name not in incomplete}
    return {purpose: _fold(graph, scales[purpose], factors) for purpose, graph in graphs.items()}


def _scales(graph: Graph) -> Iterator[tuple[str, _Scale]]:
    """Yield the name and the `_Scale` of each node whose constant factor could be multiplied into parameters.

    For attention, these are the parameters of the query projection.
    """
    by_name = {node.name: node for node in graph.nodes}
    uses = Counter(i for node in graph.nodes for i in node.inputs) + Counter(graph.results.values())
    for node in graph.nodes:
        if not node.operation.has_scale:
            continue
        operation: Any = node.operation
        factor, unscaled = operation.scale, replace(operation, scale=1.0)
        if len(node.inputs) == 1:  # an embedding; everything else with a factor is attention
            yield node.name, _Scale(factor, node.parameters, unscaled)
        elif not node.parameters and (heads := by_name.get(node.inputs[0])):
            query = by_name.get(heads.inputs[0]) if heads.operation.splits_heads else None
            if query and query.operation.is_projection and uses[heads.name] == uses[query.name] == 1:
                yield node.name, _Scale(factor, query.parameters, unscaled)


def _fold(graph: Graph, scales: dict[str, _Scale], factors: dict[str, float]) -> Graph:
    def unscaled(node: Node) -> Node:
        scale = scales.get(node.name)
        folded = scale is not None and factors.keys() >= set(scale.parameters)
        return replace(node, operation=scale.unscaled) if scale and folded else node

    parameters = {
        name: Parameter(name, Scaled(parameter.origin, factors[name])) if name in factors else parameter
        for name, parameter in graph.parameters.items()
    }
    return replace(graph, nodes=tuple(map(unscaled, graph.nodes)), parameters=parameters)


def fuse_projections(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Replace projections that read the same value with one projection that has their concatenated matrices."""
    return {purpose: _fuse(graph) for purpose, graph in graphs.items()}


def _fuse(graph: Graph) -> Graph:
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
    """Fuse projections. Return the fused node, and one slice of its result per projection, with the projection's name.

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


def fuse_memory(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Project the memory to the keys and values of all layers in one matrix product. Each layer takes a slice.

    All decoder layers project the same memory, so one matrix product can compute all of their keys and values.
    """
    return {purpose: _fuse_memory(graph) for purpose, graph in graphs.items()}


def _fuse_memory(graph: Graph) -> Graph:
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
