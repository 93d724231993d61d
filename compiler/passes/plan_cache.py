"""A cache that grows by a position is copied whole in every step; one that has room is written in one place."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, inferred
from compiler.host import Host
from compiler.operation import Append, Attention, Cached, Write
from compiler.size import ROOM
from specs import Spec


def plan_cache(graphs: Graphs, spec: Spec, host: Host) -> Graphs:
    """Gives each layer's caches room for more positions than there are, and writes each position where it belongs."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    return {**graphs, Purpose.DECODE_STEP: _planned(graphs[Purpose.DECODE_STEP])}


def _planned(graph: Graph) -> Graph:
    def planned(node: Node) -> Node:
        if isinstance(node.operation, Append):
            return replace(node, operation=Write(), inputs=(*node.inputs, "position"))
        if isinstance(node.operation, Attention) and node.operation.cached:
            return replace(node, operation=replace(node.operation, cached=Cached.PLANNED))
        return node

    caches = {
        n: replace(t, shape=(*t.shape[:2], ROOM, t.shape[3])) for n, t in graph.inputs.items() if n in graph.carried
    }
    nodes = tuple(map(planned, graph.nodes))
    return inferred(replace(graph, inputs={**graph.inputs, **caches}, nodes=nodes))
