"""The hypotheses of a sentence look at the same memory: they are the queries of one attention."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, inferred
from compiler.host import Host
from compiler.operation import Append, Attention, FoldBeams, MergeHeads, Type, UnfoldBeams
from compiler.size import BATCH, BEAMS
from specs import Spec


def beams_as_queries(graphs: Graphs, spec: Spec, host: Host) -> Graphs:
    """Gives the step a row a sentence with its beams side by side, so that their memory is read once for them all."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    return {**graphs, Purpose.DECODE_STEP: _by_sentence(graphs[Purpose.DECODE_STEP])}


def _by_sentence(graph: Graph) -> Graph:
    """Only attention over the caches goes on seeing each hypothesis as a row of its own."""
    own = {n.name: n for n in graph.nodes if isinstance(n.operation, Attention) and n.operation.cached}
    heads = {n.inputs[0] for n in own.values()} | {n.inputs[1] for n in graph.nodes if isinstance(n.operation, Append)}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in heads:
            rows = f"{node.inputs[0]}_rows"
            nodes.append(replace(node, name=rows, operation=FoldBeams()))
            node = replace(node, inputs=(rows,))
        if isinstance(node.operation, MergeHeads) and node.inputs[0] in own:
            merged = f"{node.name}_rows"
            nodes.append(replace(node, name=merged))
            node = replace(node, operation=UnfoldBeams(), inputs=(merged, "position"))
        nodes.append(node)
    inputs = {name: _input(name, type_, graph) for name, type_ in graph.inputs.items()}
    return inferred(replace(graph, inputs=inputs, nodes=tuple(nodes)))


def _input(name: str, type_: Type, graph: Graph) -> Type:
    if name in ("token", "position"):
        return replace(type_, shape=(BATCH, BEAMS))
    return replace(type_, shape=(BATCH * BEAMS, *type_.shape[1:])) if name in graph.carried else type_
