"""A cache that grows by a position is copied whole in every step; one that has room is written in one place."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, inferred
from compiler.operations.attention import Attention
from compiler.operations.cache import Append, Write
from compiler.operations.mask import UnwrittenMask
from compiler.size import ROOM
from compiler.terms import Terms
from specs import Spec


def plan_cache(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Gives each layer's caches room for more positions than there are, and writes each position where it belongs."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    return {**graphs, Purpose.DECODE_STEP: _planned(graphs[Purpose.DECODE_STEP])}


def _planned(graph: Graph) -> Graph:
    """Caches that grow, and are read under a mask that says which positions the new ones are."""
    masks = {n.name: n for n in graph.nodes if isinstance(n.operation, UnwrittenMask)}
    positions = {
        read: masks[mask].inputs[0]
        for node in graph.nodes
        if isinstance(node.operation, Attention)
        for mask in node.inputs
        if mask in masks
        for read in node.inputs[1:3]
    }

    def planned(node: Node) -> Node:
        if isinstance(node.operation, Append) and node.name in positions:
            return replace(node, operation=Write(), inputs=(*node.inputs, positions[node.name]))
        if isinstance(node.operation, UnwrittenMask):
            return replace(node, operation=replace(node.operation, planned=True))
        return node

    inputs = dict(graph.inputs)
    for name, cache in graph.carried.items():
        if cache.value in positions and cache.grows is not None:
            shape = list(inputs[name].shape)
            shape[cache.grows] = ROOM
            inputs[name] = replace(inputs[name], shape=tuple(shape))
    nodes = tuple(map(planned, graph.nodes))
    return inferred(replace(graph, inputs=inputs, nodes=nodes))
