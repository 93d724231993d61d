"""All hypotheses of a sentence attend to the same memory, so they can be the queries of one attention."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, infer_types, unique_name, verify
from compiler.operations.operation import GraphError, Operation, ValueKind, ValueType
from compiler.operations.views import FoldBeams, UnfoldBeams
from compiler.options import CompileOptions
from compiler.size import BATCH, BEAMS, NEW
from specs import Spec


def beams_as_queries(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Put all beams of a sentence into one row of the decoder step, so that they read the memory only once."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    try:
        return {**graphs, Purpose.DECODE_STEP: _rows_per_sentence(graphs[Purpose.DECODE_STEP])}
    except GraphError:  # some value needs one row per hypothesis
        return graphs


def _rows_per_sentence(graph: Graph) -> Graph:
    """Use the axis of new positions for beams. Nodes that depend on states still get one row per hypothesis."""
    types, (separate, rows) = graph.types, _separate_hypotheses(graph)
    like = next((n for n, type_ in graph.inputs.items() if type_ == ValueType((BATCH, NEW), ValueKind.INTEGER)), None)
    if like is None:
        raise GraphError("no input has the shape [batch, new], which gives the number of hypotheses")
    nodes: dict[str, Node] = {}
    folded: dict[str, str] = {}

    def fold(value: str, layer: str) -> str:
        if value not in folded:
            folded[value] = unique_name(f"{value}_rows", types, nodes)
            nodes[folded[value]] = Node(folded[value], FoldBeams(), (value,), (), types[value], layer)
        return folded[value]

    for node in graph.nodes:
        if node.name in separate:
            read = (i if i in rows or NEW not in types[i].shape else fold(i, node.layer) for i in node.inputs)
            node = replace(node, inputs=tuple(read))
            if node.name not in rows:
                folded[node.name] = unique_name(f"{node.name}_rows", types, nodes)
                nodes[folded[node.name]] = replace(node, name=folded[node.name])
                node = replace(node, operation=UnfoldBeams(), inputs=(folded[node.name], like), parameters=())
        nodes[node.name] = node
    states = {
        name: state if state.value in rows else replace(state, value=fold(state.value, ""))
        for name, state in graph.states.items()
    }
    inputs = {name: _input_type(name, type_, graph) for name, type_ in graph.inputs.items()}
    changed = infer_types(replace(graph, inputs=inputs, nodes=tuple(nodes.values()), states=states))
    verify(changed)
    return changed


def _separate_hypotheses(graph: Graph) -> tuple[set[str], set[str]]:
    """Return the nodes that need one row per hypothesis: those that read a state, or remove the axis of new positions.

    Also return the values that keep one row per hypothesis, because `UnfoldBeams` does not apply to their shape.
    """
    by_name, types = {node.name: node for node in graph.nodes}, graph.types
    separate, rows = set[str](), set(graph.states)
    while True:
        known = len(separate)
        for node in graph.nodes:
            shape = node.type.shape
            reduces = NEW not in shape and any(NEW in types[i].shape for i in node.inputs)
            if node.name in separate or reduces or rows.intersection(node.inputs):
                separate.add(node.name)
                separate.update(i for i in node.inputs if i in by_name and _has_heads(by_name[i].operation))
                if node.type.kind is not ValueKind.FLOAT or len(shape) != 3 or shape[1] != NEW:
                    rows.add(node.name)
        if len(separate) == known:
            return separate, rows


def _has_heads(operation: Operation) -> bool:
    return operation.splits_heads or operation.keeps_heads


def _input_type(name: str, type_: ValueType, graph: Graph) -> ValueType:
    if name in graph.states:
        shape = list(type_.shape)
        shape[graph.states[name].row_axis] = BATCH * BEAMS
        return replace(type_, shape=tuple(shape))
    return replace(type_, shape=tuple(BEAMS if size == NEW else size for size in type_.shape))
