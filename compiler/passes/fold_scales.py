"""A constant factor can be multiplied with the weights once, instead of with every value at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from compiler.graph import Graph, Graphs, Purpose
from compiler.operations.operation import Node, Operation
from compiler.options import CompileOptions
from compiler.weights import Parameter, Scaled
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
    """Yield the name and the `_Scale` of each node that has a factor which could be multiplied into parameters.

    For attention, these are the parameters of the query projection.
    """
    by_name = {node.name: node for node in graph.nodes}
    uses = Counter(i for node in graph.nodes for i in node.inputs) + Counter(graph.results.values())
    for node in graph.nodes:
        if not node.operation.has_scale:
            continue
        operation: Any = node.operation
        factor, unscaled = operation.scale, replace(operation, scale=1.0)
        if len(node.inputs) == 1:  # an embedding; everything else with a factor is an attention
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
