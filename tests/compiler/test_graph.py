"""Validity of graphs: `verify` and the builder refuse every kind of mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler import Purpose, lower
from compiler.builder import GraphBuilder
from compiler.graph import Graph, StepState, verify
from compiler.operations.elementwise import Relu
from compiler.operations.operation import GraphError, Node, Operation, ValueKind, ValueType
from compiler.operations.views import AppendToCache, Slice, WriteToCache
from compiler.size import BATCH, CAPACITY, NEW, PAST, SOURCE, Size
from tests.examples import small


def test_invalid_graphs() -> None:
    graph = lower(small(), Purpose.ENCODE)
    first = graph.nodes[0]
    unused = {"unused": next(iter(graph.parameters.values()))}
    invalid = {
        "no earlier node computes": replace(graph, nodes=graph.nodes[::-1]),
        "computed twice": replace(graph, nodes=(first, *graph.nodes)),
        "not i": replace(graph, nodes=(replace(first, type=graph.inputs["source"]), *graph.nodes[1:])),
        "is not a layer": replace(graph, nodes=(replace(first, layer="Encoder 0"), *graph.nodes[1:])),
        "never computed": replace(graph, outputs={"memory": "nothing"}),
        "unused parameters": replace(graph, parameters={**graph.parameters, **unused}),
        "is not an input": replace(graph, states={"nothing": StepState(first.name, length_axis=1)}),
    }
    for message, wrong in invalid.items():
        with pytest.raises(GraphError, match=message):
            verify(wrong)


def test_inputs_and_parameters_are_added_once() -> None:
    b = GraphBuilder(Purpose.ENCODE)
    b.input("x", BATCH, SOURCE, 4)
    b.parameter("w", 4, 4)
    assert b.parameter("w", 4, 4) == "w"
    with pytest.raises(GraphError, match="`x` is added twice"):
        b.input("x", BATCH, SOURCE, 4)
    with pytest.raises(GraphError, match="`w` is added as"):
        b.parameter("w", 5, 4)
    with pytest.raises(GraphError, match="`bias` is not a matrix: pass `initial="):
        b.parameter("bias", 4)
    with pytest.raises(ValueError, match="'kaiming' is not a valid Initializer"):
        b.parameter("other", 4, 4, initial="kaiming")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [Slice(-1, 0, 5), Slice(-1, 3, 2), Slice(-1, -5), Slice(3)])
def test_a_slice_stays_within_its_dimension(part: Slice) -> None:
    with pytest.raises(GraphError, match="does not accept"):
        part.infer([ValueType((BATCH, SOURCE, Size.of(4)))], [])


class TestStates:
    def graph(self, state: StepState | None, overwrite: bool = False) -> Graph:
        inputs = {
            "state": ValueType((BATCH, Size.of(2), CAPACITY if overwrite else PAST, Size.of(4))),
            "new": ValueType((BATCH, Size.of(2), NEW, Size.of(4))),
            "position": ValueType((BATCH, NEW), ValueKind.INTEGER),
        }
        operation: Operation = WriteToCache() if overwrite else AppendToCache()
        names = ("state", "new", "position") if overwrite else ("state", "new")
        grown = Node("grown", operation, names, (), operation.infer([inputs[i] for i in names], []))
        return Graph(Purpose.DECODE_STEP, inputs, (grown,), {"out": "grown"}, {}, {"state": state} if state else {})

    def test_a_state_grows_along_its_length_axis(self) -> None:
        verify(self.graph(StepState("grown", length_axis=2)))
        for wrong in (StepState("grown", length_axis=1), StepState("new", length_axis=3)):
            with pytest.raises(GraphError, match="but its next value"):
                verify(self.graph(wrong))

    def test_only_a_state_is_overwritten_and_nothing_reads_it_afterwards(self) -> None:
        graph = self.graph(StepState("grown", length_axis=2), overwrite=True)
        verify(graph)
        with pytest.raises(GraphError, match="which is not a state"):
            verify(self.graph(None, overwrite=True))
        part = Slice(3, 0, 2)
        view = Node("view", part, ("state",), (), part.infer([graph.inputs["state"]], []))
        for nodes, value in (((view, *graph.nodes), "view"), (graph.nodes, "state")):
            type_ = view.type if value == "view" else graph.inputs["state"]
            late = Node("late", Relu(), (value,), (), type_)
            with pytest.raises(GraphError, match="after it was overwritten"):
                verify(Graph(graph.purpose, graph.inputs, (*nodes, late), {"o": "late"}, {}, graph.states))
