"""Every layer of the decoder projects the same memory: together they are one product."""

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
        nodes[first:first] = _one_product(group, parameters)
        nodes = [n for n in nodes if not (n.name in names and isinstance(n.operation, Linear))]
    return prune(replace(graph, nodes=tuple(nodes), parameters=parameters))


def _stack(node: Node) -> str:
    return node.layer.partition(".")[0]


def _one_product(group: list[Node], parameters: dict[str, Parameter]) -> list[Node]:
    """The product, then under each old name its slice; both outside of the layers, which so stay alike."""
    names = [f"{_stack(group[0])}.memory.{name}" for name in ("keys_values", "bias")[: len(group[0].parameters)]]
    for i, name in enumerate(names):
        parameters[name] = Parameter(name, Concatenated(tuple(parameters[n.parameters[i]].origin for n in group)))
    widths = [node.type.shape[-1].constant for node in group]
    joined = replace(
        group[0],
        name="memory_keys_values",
        parameters=tuple(names),
        type=Type((*group[0].type.shape[:-1], Size.of(sum(widths)))),
        layer="",
    )
    return [
        joined,
        *(
            replace(n, operation=Slice(-1, stop - width, stop), inputs=(joined.name,), parameters=(), layer="")
            for n, width, stop in zip(group, widths, accumulate(widths), strict=True)
        ),
    ]
