"""Validity of graphs: `verify` and the builder refuse every kind of mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler import Purpose, lower
from compiler.builder import GraphBuilder
from compiler.graph import Graph, StepState, verify
from compiler.operations.elementwise import Relu
from compiler.operations.operation import GraphError, Node, Operation, ValueKind
from compiler.operations.recurrence import Ssru
from compiler.operations.views import AppendToCache, Slice, WriteToCache
from compiler.size import BATCH, CAPACITY, NEW, PAST, Size
from tests.examples import small


def test_invalid_graphs() -> None:
    graph = lower(small(), Purpose.ENCODE)
    first, parameter = graph.nodes[0], next(iter(graph.parameters.values()))
    invalid = {
        "no earlier node computes": replace(graph, nodes=graph.nodes[::-1]),
        "computed twice": replace(graph, nodes=(first, *graph.nodes)),
        "not i": replace(graph, nodes=(replace(first, type=graph.inputs["source"]), *graph.nodes[1:])),
        "is not a layer": replace(graph, nodes=(replace(first, layer="Encoder 0"), *graph.nodes[1:])),
        "never computed": replace(graph, outputs={"memory": "nothing"}),
        "unused parameters": replace(graph, parameters={**graph.parameters, "unused": parameter}),
        "is not an input": replace(graph, states={"nothing": StepState(first.name, length_axis=1)}),
    }
    for message, wrong in invalid.items():
        with pytest.raises(GraphError, match=message):
            verify(wrong)


def cached(overwrite: bool = False) -> Graph:
    """Return the graph of a step with a cache that grows or, if `overwrite`, is written in place."""
    b = GraphBuilder(Purpose.DECODE_STEP)
    state = b.state("state", BATCH, 2, CAPACITY if overwrite else PAST, 4)
    new, position = b.input("new", BATCH, 2, NEW, 4), b.input("position", BATCH, NEW, kind=ValueKind.INTEGER)
    operation, inputs = (WriteToCache(), (state, new, position)) if overwrite else (AppendToCache(), (state, new))
    grown = b.node("grown", operation, inputs)
    b.update_state(state, grown, length_axis=2)
    b.output("out", grown)
    return b.graph()


def test_operations_refuse_inputs_that_do_not_fit() -> None:
    cases: list[tuple[Operation, list[tuple[int | Size, ...]]]] = [
        (AppendToCache(), [(BATCH, 2, PAST, 4), (BATCH, 2, NEW, 5)]),
        (AppendToCache(), [(BATCH, 2, PAST, 4), (BATCH, 3, NEW, 4)]),
        (AppendToCache(), [(PAST, 4), (NEW, 4)]),
        (Ssru(), [(BATCH, NEW, 4), (BATCH, NEW, 4), (BATCH, 1, 4), (BATCH, 1, 4)]),
        (Ssru(backwards=True), [(BATCH, NEW, 4), (BATCH, NEW, 4), (BATCH, 1, 4)]),
    ]
    for operation, shapes in cases:
        b = GraphBuilder(Purpose.DECODE_STEP)
        inputs = tuple(b.input(f"input{number}", *shape) for number, shape in enumerate(shapes))
        with pytest.raises(GraphError):
            b.node("result", operation, inputs)


def test_a_state_grows_along_its_length_axis() -> None:
    for wrong in (StepState("grown", length_axis=1), StepState("new", length_axis=3)):
        with pytest.raises(GraphError, match="but its next value"):
            verify(replace(cached(), states={"state": wrong}))


def test_only_a_state_is_overwritten_and_nothing_reads_it_afterwards() -> None:
    graph = cached(overwrite=True)
    with pytest.raises(GraphError, match="which is not a state"):
        verify(replace(graph, states={}))
    whole, part = graph.inputs["state"], Slice(3, 0, 2)
    view = Node("view", part, ("state",), (), part.infer([whole], []))
    for value, type_ in (("view", view.type), ("state", whole)):
        late = Node("late", Relu(), (value,), (), type_)
        with pytest.raises(GraphError, match="after it was overwritten"):
            verify(replace(graph, nodes=(view, *graph.nodes, late), outputs={"o": "late"}))
