"""The hypotheses of a sentence look at the same memory: they are the queries of one attention."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, inferred
from compiler.operations import Append, Attention, FoldBeams, MergeHeads, Type, UnfoldBeams, UnwrittenMask
from compiler.size import BATCH, BEAMS, NEW
from compiler.terms import Terms
from specs import Spec


def beams_as_queries(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Gives the step a row a sentence with its beams side by side, so that their memory is read once for them all."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    return {**graphs, Purpose.DECODE_STEP: _by_sentence(graphs[Purpose.DECODE_STEP])}


def _by_sentence(graph: Graph) -> Graph:
    """Each hypothesis reads one new piece. Only what is carried goes on seeing it as a row of its own."""
    masks = {n.name: n.inputs[0] for n in graph.nodes if isinstance(n.operation, UnwrittenMask)}
    own = {n.name: n for n in graph.nodes if isinstance(n.operation, Attention) and masks.keys() & set(n.inputs)}
    rows = {n.inputs[0] for n in own.values()} | {n.inputs[1] for n in graph.nodes if isinstance(n.operation, Append)}
    nodes: list[Node] = []
    for node in graph.nodes:
        read = masks.get(node.name) or (node.inputs[0] if node.name in rows else None)
        if read is not None:
            folded = f"{read}_rows"
            if all(each.name != folded for each in nodes):
                nodes.append(replace(node, name=folded, operation=FoldBeams(), inputs=(read,)))
            node = replace(node, inputs=(folded, *node.inputs[1:]))
        if isinstance(node.operation, MergeHeads) and node.inputs[0] in own:
            merged = f"{node.name}_rows"
            nodes.append(replace(node, name=merged))
            position = next(masks[mask] for mask in own[node.inputs[0]].inputs if mask in masks)
            node = replace(node, operation=UnfoldBeams(), inputs=(merged, position))
        nodes.append(node)
    inputs = {name: _input(name, type_, graph) for name, type_ in graph.inputs.items()}
    return inferred(replace(graph, inputs=inputs, nodes=tuple(nodes)))


def _input(name: str, type_: Type, graph: Graph) -> Type:
    if name in graph.carried:
        shape = list(type_.shape)
        shape[graph.carried[name].rows] = BATCH * BEAMS
        return replace(type_, shape=tuple(shape))
    return replace(type_, shape=tuple(BEAMS if size == NEW else size for size in type_.shape))
