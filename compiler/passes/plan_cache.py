"""A cache that grows by one position per step is copied in each step. One with spare capacity is written in place."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Purpose, infer_types
from compiler.operations.operation import Node
from compiler.options import CompileOptions
from compiler.size import CAPACITY, PAST
from specs import Spec


def plan_cache(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Allocate the caches of the decoder step with spare capacity, and write each new position in place."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    return {**graphs, Purpose.DECODE_STEP: _plan(graphs[Purpose.DECODE_STEP])}


def _plan(graph: Graph) -> Graph:
    """Return the graph with preallocated caches, if only attention reads them, with a mask that hides unused slots.

    Several caches can be read with the same mask or bias. Either all of these are preallocated, or none.
    """
    caches = _growing_caches(graph)
    masks = {n.name: n for n in graph.nodes if n.operation.reads_cache_slots}
    readers = {mask: [n for n in graph.nodes if mask in n.inputs] for mask in masks}
    keys_and_values = {mask: {value for n in readers[mask] for value in n.inputs[1:3]} for mask in masks}
    read_without_mask = {value for n in graph.nodes if not masks.keys() & set(n.inputs) for value in n.inputs}
    excluded = read_without_mask | set(graph.outputs.values())
    while rejected := {
        mask
        for mask in masks
        if not all(n.operation.is_attention for n in readers[mask])
        or masks[mask].inputs[1] not in {caches[value] for value in keys_and_values[mask] if value in caches}
        or any(value not in caches or value in excluded for value in keys_and_values[mask])
    }:
        excluded.update(value for mask in rejected for value in keys_and_values[mask])
        masks = {mask: node for mask, node in masks.items() if mask not in rejected}
    positions = {value: node.inputs[0] for mask, node in masks.items() for value in keys_and_values[mask]}

    def plan(node: Node) -> Node:
        if node.name in positions:
            inputs = (*node.inputs, positions[node.name])
            return replace(node, operation=node.operation.for_planned_cache(), inputs=inputs)
        return replace(node, operation=node.operation.for_planned_cache()) if node.name in masks else node

    planned = {caches[value] for value in positions}
    inputs = {
        name: replace(type_, shape=(*type_.shape[:2], CAPACITY, type_.shape[3])) if name in planned else type_
        for name, type_ in graph.inputs.items()
    }
    return infer_types(replace(graph, inputs=inputs, nodes=tuple(map(plan, graph.nodes))))


def _growing_caches(graph: Graph) -> dict[str, str]:
    """Return a mapping from the result of each append operation to the cache that the operation extends.

    Caches are omitted if other operations read them directly, except for masks and biases.
    """
    caches = {}
    for node in graph.nodes:
        cache = node.inputs[0]
        state = graph.states.get(cache)
        if node.operation.appends_to_cache and state and graph.inputs[cache].shape[state.length_axis] == PAST:
            readers = [n for n in graph.nodes if cache in n.inputs]
            others = [n for n in readers if not n.operation.reads_cache_slots]
            if state.value == node.name and others == [node] and cache not in graph.results.values():
                caches[node.name] = cache
    return caches
