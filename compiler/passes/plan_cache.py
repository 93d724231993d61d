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
    """Caches that grow, and are read under masks that say which positions the new ones are; all of a mask or none."""
    caches = _caches(graph)
    masks = {n.name: n for n in graph.nodes if isinstance(n.operation, UnwrittenMask)}
    readers = {mask: [n for n in graph.nodes if mask in n.inputs] for mask in masks}
    of = {mask: {value for n in readers[mask] for value in n.inputs[1:3]} for mask in masks}
    plain = {value for n in graph.nodes if not masks.keys() & set(n.inputs) for value in n.inputs} | set(
        graph.outputs.values()
    )
    while left := {
        mask
        for mask in masks
        if not all(isinstance(n.operation, Attention) for n in readers[mask])
        or masks[mask].inputs[1] not in {caches[value] for value in of[mask] if value in caches}
        or any(value not in caches or value in plain for value in of[mask])
    }:
        plain.update(value for mask in left for value in of[mask])
        masks = {mask: node for mask, node in masks.items() if mask not in left}
    positions = {value: node.inputs[0] for mask, node in masks.items() for value in of[mask]}

    def planned(node: Node) -> Node:
        if node.name in positions:
            return replace(node, operation=Write(), inputs=(*node.inputs, positions[node.name]))
        if node.name in masks and isinstance(node.operation, UnwrittenMask):
            return replace(node, operation=replace(node.operation, planned=True))
        return node

    rooms = {caches[value]: graph.inputs[caches[value]].shape for value in positions}
    inputs = {
        name: replace(type_, shape=(*rooms[name][:2], ROOM, rooms[name][3])) if name in rooms else type_
        for name, type_ in graph.inputs.items()
    }
    return inferred(replace(graph, inputs=inputs, nodes=tuple(map(planned, graph.nodes))))


def _caches(graph: Graph) -> dict[str, str]:
    """Of each value that a cache grows to, that cache, where nothing else reads it as it was."""
    found = {}
    for node in graph.nodes:
        if isinstance(node.operation, Append) and (carried := graph.carried.get(node.inputs[0])):
            cache = node.inputs[0]
            others = [n for n in graph.nodes if cache in n.inputs and not isinstance(n.operation, UnwrittenMask)]
            if carried.value == node.name and others == [node] and cache not in graph.results.values():
                found[node.name] = cache
    return found
