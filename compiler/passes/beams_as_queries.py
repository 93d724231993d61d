"""The hypotheses of a sentence look at the same memory: they are the queries of one attention."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, fresh, inferred, verify
from compiler.operations.operation import GraphError, Kind, Type
from compiler.operations.views import FoldBeams, SplitHeads, UnfoldBeams
from compiler.size import BATCH, BEAMS, NEW
from compiler.terms import Terms
from specs import Spec


def beams_as_queries(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Gives the step a row a sentence with its beams side by side, so that their memory is read once for them all."""
    if Purpose.DECODE_STEP not in graphs:
        return graphs
    try:
        return {**graphs, Purpose.DECODE_STEP: _by_sentence(graphs[Purpose.DECODE_STEP])}
    except GraphError:  # something of it has a row a hypothesis, and cannot have one a sentence
        return graphs


def _by_sentence(graph: Graph) -> Graph:
    """Each hypothesis reads one new token. Only what is computed with what is carried sees it as a row of its own."""
    types, (apart, rows) = graph.types, _apart(graph)
    like = next((n for n, type_ in graph.inputs.items() if type_ == Type((BATCH, NEW), Kind.INTEGER)), None)
    if like is None:
        raise GraphError("nothing says how many hypotheses there are")
    nodes: dict[str, Node] = {}
    folded: dict[str, str] = {}

    def fold(value: str, layer: str) -> str:
        if value not in folded:
            folded[value] = fresh(f"{value}_rows", types, nodes)
            nodes[folded[value]] = Node(folded[value], FoldBeams(), (value,), (), types[value], layer)
        return folded[value]

    for node in graph.nodes:
        if node.name in apart:
            read = (i if i in rows or NEW not in types[i].shape else fold(i, node.layer) for i in node.inputs)
            node = replace(node, inputs=tuple(read))
            if node.name not in rows:
                folded[node.name] = fresh(f"{node.name}_rows", types, nodes)
                nodes[folded[node.name]] = replace(node, name=folded[node.name])
                node = replace(node, operation=UnfoldBeams(), inputs=(folded[node.name], like), parameters=())
        nodes[node.name] = node
    carried = {
        name: each if each.value in rows else replace(each, value=fold(each.value, ""))
        for name, each in graph.carried.items()
    }
    inputs = {name: _input(name, type_, graph) for name, type_ in graph.inputs.items()}
    changed = inferred(replace(graph, inputs=inputs, nodes=tuple(nodes.values()), carried=carried))
    verify(changed)
    return changed


def _apart(graph: Graph) -> tuple[set[str], set[str]]:
    """The nodes that see each hypothesis as a row, and the values that stay so, as they cannot be unfolded.

    They read something that is carried, or make of new positions what has none.
    """
    made, types = {node.name: node for node in graph.nodes}, graph.types
    apart, rows = set[str](), set(graph.carried)
    while True:
        known = len(apart)
        for node in graph.nodes:
            shape = node.type.shape
            ends = NEW not in shape and any(NEW in types[i].shape for i in node.inputs)
            if node.name in apart or ends or rows.intersection(node.inputs):
                apart.add(node.name)
                apart.update(i for i in node.inputs if i in made and isinstance(made[i].operation, SplitHeads))
                if node.type.kind is not Kind.FLOAT or len(shape) != 3 or shape[1] != NEW:
                    rows.add(node.name)
        if len(apart) == known:
            return apart, rows


def _input(name: str, type_: Type, graph: Graph) -> Type:
    if name in graph.carried:
        shape = list(type_.shape)
        shape[graph.carried[name].rows] = BATCH * BEAMS
        return replace(type_, shape=tuple(shape))
    return replace(type_, shape=tuple(BEAMS if size == NEW else size for size in type_.shape))
