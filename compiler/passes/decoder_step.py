"""Passes for the decoder step, which runs once per token of a translation.

All decoder steps need the same keys and values of the encoder output, so the encoder can compute them once. All
hypotheses for a sentence attend to the same encoder output, so they can be the queries of one operation. A cache that
grows by one position per step is copied in each step. A cache with spare capacity is written in place.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Purpose, infer_types, prune, unique_name, verify
from compiler.operations.operation import GraphError, Node, Operation, ValueKind, ValueType
from compiler.operations.views import BeamsToRows, QueriesToRows, RowsToQueries, WriteToCache
from compiler.size import BATCH, BEAMS, CAPACITY, NEW, PAST


def hoist_memory(graphs: Graphs) -> Graphs:
    """Compute the keys and values of cross-attention once, in the encoder, instead of in each decoder step."""
    if Purpose.ENCODE not in graphs or Purpose.DECODE_STEP not in graphs:
        return graphs
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    memory = {name: value for name, value in encode.outputs.items() if name in step.inputs}
    moved, known = list[Node](), set(memory)  # nodes that depend only on the encoder output
    for node in step.nodes:
        if known.issuperset(node.inputs):
            moved.append(node)
            known.add(node.name)
    names = {node.name for node in moved}
    if names & encode.types.keys():  # a moved node would need a new name
        return graphs
    read = {i for node in step.nodes if node.name not in names for i in node.inputs} | set(step.results.values())
    frontier = [node for node in moved if node.name in read]
    outputs = {output: value for output, value in encode.outputs.items() if output not in memory or output in read}
    hoisted = (replace(n, inputs=tuple(memory.get(i, i) for i in n.inputs)) for n in moved)
    outputs = {**outputs, **{name: name for name in sorted(node.name for node in frontier)}}
    parameters = {**encode.parameters, **{p: step.parameters[p] for n in moved for p in n.parameters}}
    encode = replace(encode, nodes=(*encode.nodes, *hoisted), outputs=outputs, parameters=parameters)
    inputs = {**step.inputs, **{node.name: node.type for node in frontier}}
    step = replace(step, inputs=inputs, nodes=tuple(node for node in step.nodes if node.name not in names))
    return {**graphs, Purpose.ENCODE: prune(encode), Purpose.DECODE_STEP: prune(step)}


def beams_as_queries(graph: Graph) -> Graph:
    """Compute cross-attention for all beams of a sentence together, to read the encoder output only once."""
    try:
        return _one_memory_per_sentence(graph)
    except GraphError:  # some value needs one memory per hypothesis
        return graph


def _one_memory_per_sentence(graph: Graph) -> Graph:
    """Add a beam axis to the inputs of a decoder step, so that all hypotheses for a sentence share an encoder output.

    Nodes that read both the encoder output and hypotheses get one row per sentence. Other nodes get one row per
    hypothesis.

    Raises:
        GraphError: A value needs a separate copy of the encoder output for each hypothesis.
    """
    types, per_sentence = graph.types, _nodes_per_sentence(graph)
    inputs, given = dict(graph.inputs), list[str]()
    for name, type_ in graph.inputs.items():
        if name in graph.states:
            inputs[name] = replace(type_, shape=(BATCH * BEAMS, *type_.shape[1:]))
        elif NEW in type_.shape:
            inputs[name] = replace(type_, shape=(BATCH, BEAMS, *type_.shape[1:]))
            given.append(name)
    if not given:
        raise GraphError("no input has the axis of new positions, which gives the number of hypotheses")
    nodes: dict[str, Node] = {}
    rows = {name: name for name in types}
    """For each value, the name of its variant with one row per hypothesis."""
    queries: dict[str, str] = {}
    """For each converted value, the name of its variant with one row per sentence."""

    def convert(value: str, suffix: str, operation: Operation, layer: str, *inputs: str) -> str:
        name = unique_name(f"{value}_{suffix}", types, nodes)
        nodes[name] = Node(name, operation, inputs, (), types[value], layer)
        return name

    for name in given:
        rows[name] = convert(name, "rows", BeamsToRows(), "", name)
    for node in graph.nodes:
        if node.name not in per_sentence:
            nodes[node.name] = replace(node, inputs=tuple(rows[i] for i in node.inputs))
            continue
        for i in node.inputs:
            if i not in per_sentence and _is_per_row(types[i]) and i not in queries:
                queries[i] = convert(i, "queries", RowsToQueries(), node.layer, rows[i], given[0])
        nodes[node.name] = replace(node, inputs=tuple(queries.get(i, i) for i in node.inputs))
        if _is_per_row(node.type):
            rows[node.name] = convert(node.name, "rows", QueriesToRows(), node.layer, node.name, given[0])
    changed = prune(infer_types(replace(graph, inputs=inputs, nodes=tuple(nodes.values())).with_results(rows)))
    verify(changed)
    return changed


def _nodes_per_sentence(graph: Graph) -> set[str]:
    """Return the names of the nodes with one row per sentence instead of one row per hypothesis.

    These are the nodes that combine the encoder output with hypotheses (cross-attention), and the neighbouring nodes
    that split or merge heads. The hypotheses for a sentence become a dimension of its row.

    Raises:
        GraphError: One of these nodes needs a value that cannot have one row per sentence.
    """
    types, by_name = graph.types, graph.by_name
    depends = {name for name, type_ in graph.inputs.items() if name in graph.states or NEW in type_.shape}
    for node in graph.nodes:
        if depends.intersection(node.inputs):
            depends.add(node.name)
    found = {
        node.name
        for node in graph.nodes
        if node.name in depends and any(i not in depends and BATCH in types[i].shape for i in node.inputs)
    }
    known = 0
    while len(found) > known:
        known = len(found)
        for node in graph.nodes:
            needed = {i for i in node.inputs if i in depends and not _is_per_row(types[i])}
            if node.name in found or needed & found:
                found |= {node.name, *needed}
    if not found <= by_name.keys():
        raise GraphError(f"the inputs {found - by_name.keys()} have one row per hypothesis")
    for name in found:
        node = by_name[name]
        field = node.operation.receptive_field()
        mixes = field is not None and any(node.inputs[i] in depends for i in field.inputs)
        if mixes or len(node.type.shape) < 3 or (node.type.shape[0], node.type.shape[-2]) != (BATCH, NEW):
            raise GraphError(f"`{name}` combines positions of hypotheses")
    if lost := [value for value in graph.results.values() if value in found and not _is_per_row(types[value])]:
        raise GraphError(f"the outputs {lost} have one row per sentence")
    return found


def _is_per_row(type_: ValueType) -> bool:
    """Return whether a value has the shape [batch, new, w], so that its rows can be hypotheses or sentences."""
    return type_.kind is ValueKind.FLOAT and len(type_.shape) == 3 and type_.shape[:2] == (BATCH, NEW)


def plan_cache(graph: Graph) -> Graph:
    """Allocate the caches of the decoder step with spare capacity, and write each new position in place.

    Caches are preallocated if only attention reads them, with a mask that hides unused entries. If several caches are
    read with the same mask or bias, either all or none of these caches are preallocated.
    """
    caches = _growing_caches(graph)
    masks = {n.name: n for n in graph.nodes if n.operation.with_planned_cache()}
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
            return replace(node, operation=WriteToCache(), inputs=(*node.inputs, positions[node.name]))
        operation = node.operation.with_planned_cache() if node.name in masks else None
        return replace(node, operation=operation) if operation else node

    planned = {caches[value] for value in positions}
    inputs = {
        name: replace(type_, shape=(*type_.shape[:2], CAPACITY, type_.shape[3])) if name in planned else type_
        for name, type_ in graph.inputs.items()
    }
    return infer_types(replace(graph, inputs=inputs, nodes=tuple(map(plan, graph.nodes))))


def _growing_caches(graph: Graph) -> dict[str, str]:
    """Return a mapping from the result of each append operation to the cache that the operation extends.

    Omit a cache that other operations read directly, unless these operations compute masks or biases.
    """
    caches = {}
    for node in graph.nodes:
        cache = node.inputs[0]
        state = graph.states.get(cache)
        if node.operation.appends_to_cache and state and graph.inputs[cache].shape[state.length_axis] == PAST:
            others = [n for n in graph.nodes if cache in n.inputs and n.operation.with_planned_cache() is None]
            if state.value == node.name and others == [node] and cache not in graph.results.values():
                caches[node.name] = cache
    return caches
