"""All decoder layers project the same memory, so one matrix product can compute the keys and values of all layers."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, prune, unique_name
from compiler.options import CompileOptions
from compiler.passes.fuse_projections import fuse_group
from specs import Spec


def fuse_memory(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Project the memory to the keys and values of all layers in one matrix product. Each layer takes a slice."""
    return {purpose: _fuse(graph) for purpose, graph in graphs.items()}


def _fuse(graph: Graph) -> Graph:
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
