"""Graph of a model: the computation that a spec describes, as data.

A graph is an ordered list of nodes. Each node is one operation on earlier values. The graph contains neither weights
nor file names. A node depends only on its inputs and parameters. The names of values have no meaning. `verify` checks
that a graph is valid, and runs after each pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING

from compiler.operations.operation import GraphError, Node, ValueType
from compiler.size import Size
from compiler.weights import Parameter, ParameterOrigin, StoredTensor

if TYPE_CHECKING:
    from torch import Tensor


class Purpose(StrEnum):
    """Purpose of a graph, such as training. `lowering/transformer.py` lists the inputs and outputs for each purpose."""

    TRAIN = "train"
    UPDATE = "update"
    SCORE = "score"
    ENCODE = "encode"
    DECODE_STEP = "decode_step"
    ATTEND = "attend"

    @property
    def trains(self) -> bool:
        """Whether graphs with this purpose compute a loss and apply dropout."""
        return self in (Purpose.TRAIN, Purpose.UPDATE)


@dataclass(frozen=True)
class StepState:
    """State that one decoder step passes to the next. `value` is the result that becomes the next step's input.

    The size of this input along `length_axis` determines which positions of `value` the next step gets:

    - PAST: all positions. The value is a cache that grows.
    - CAPACITY: all positions. The value is a cache that is written in place.
    - a number r: the last r positions. The value contains the r positions before the step and the new positions.
    """

    value: str
    length_axis: int
    """The axis of the positions. Axis 0 is the axis of the hypotheses."""


@dataclass(frozen=True)
class Graph:
    """Computation graph: nodes in order of computation, with inputs, outputs and parameters.

    `outputs` maps the name of each output to a value. `states` maps an input of a decoder step to the value that
    becomes this input in the next step.
    """

    purpose: Purpose
    inputs: Mapping[str, ValueType]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, str]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    states: Mapping[str, StepState] = field(default_factory=dict)

    @cached_property
    def types(self) -> Mapping[str, ValueType]:
        """The type of each value, keyed by name."""
        return {**self.inputs, **{node.name: node.type for node in self.nodes}}

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes, keyed by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def uses(self) -> Counter[str]:
        """How many times each value is read by nodes, or becomes an output or the next value of a state."""
        return Counter(chain(self.results.values(), *(node.inputs for node in self.nodes)))

    @property
    def results(self) -> dict[str, str]:
        """The value of each output, and the value that each state takes in the next step, keyed by name."""
        return {**self.outputs, **{name: state.value for name, state in self.states.items()}}

    def shapes(self, node: Node) -> tuple[tuple[Size, ...], ...]:
        """Return the shapes of a node's parameters."""
        return tuple(self.parameters[name].shape for name in node.parameters)

    def with_results(self, names: Mapping[str, str]) -> Graph:
        """Return the graph with different values as outputs and states. The nodes stay the same.

        Args:
            names: A mapping from values to the values that replace them.
        """
        return replace(
            self,
            outputs={output: names.get(value, value) for output, value in self.outputs.items()},
            states={n: replace(s, value=names.get(s.value, s.value)) for n, s in self.states.items()},
        )


Graphs = Mapping[Purpose, Graph]
"""Graphs that share weights, keyed by purpose, such as the graphs of the encoder and the decoder step."""

_LAYER = re.compile(r"([a-z_]+\.\d+)?")


def verify(graph: Graph) -> None:
    """Check that a graph is valid.

    Raises:
        GraphError: A value is computed twice, is used before it is computed or after it is overwritten, or does not
            have the type that its node declares. An output or a state is invalid. A parameter is unused.
    """
    known, overwritten, base = dict(graph.inputs), set[str](), {name: name for name in graph.inputs}
    for node in graph.nodes:
        if node.name in known:
            raise GraphError(f"`{node.name}` is computed twice")
        missing = [i for i in node.inputs if i not in known] + [p for p in node.parameters if p not in graph.parameters]
        if missing:
            raise GraphError(f"`{node.name}` uses {missing}, which no earlier node computes")
        if lost := [i for i in node.inputs if base[i] in overwritten]:
            raise GraphError(f"`{node.name}` uses {lost} after it was overwritten")
        if not _LAYER.fullmatch(node.layer):
            raise GraphError(f"`{node.layer}` is not a layer: expected a stack and an index, such as `encoder.0`")
        inferred = node.operation.infer(tuple(known[i] for i in node.inputs), graph.shapes(node))
        if inferred != node.type:
            raise GraphError(f"`{node.name}` has type {inferred}, not {node.type}")
        if node.operation.overwrites is not None:
            target = node.inputs[node.operation.overwrites]
            if target not in graph.states:
                raise GraphError(f"`{node.name}` overwrites `{target}`, which is not a state")
            overwritten.add(target)
        base[node.name] = base[node.inputs[0]] if node.operation.view else node.name
        known[node.name] = node.type
    if missing := [value for value in graph.results.values() if value not in known or base[value] in overwritten]:
        raise GraphError(f"the outputs {missing} are never computed")
    _verify_states(graph, known)
    used = {p for node in graph.nodes for p in node.parameters}
    if used != set(graph.parameters):
        raise GraphError(f"unused parameters: {sorted(set(graph.parameters) - used)}")


def _verify_states(graph: Graph, types: Mapping[str, ValueType]) -> None:
    """Check that the next value of each state has the same type as the state, except for the number of positions."""
    for name, state in graph.states.items():
        if name not in graph.inputs:
            raise GraphError(f"the state `{name}` is not an input of the graph")
        before, after = (list(types[value].shape) for value in (name, state.value))
        axis = state.length_axis
        if len(before) == len(after):
            before[axis] = after[axis]
        if before != after or types[name].kind is not types[state.value].kind or axis == 0:
            raise GraphError(f"the state `{name}` has type {types[name]}, but its next value has {types[state.value]}")


def unique_name(name: str, *taken: Container[str]) -> str:
    """Return `name` if it is in no `taken` container. Otherwise append the smallest number that makes it unique."""
    return next(each for each in numbered(name) if not any(each in group for group in taken))


def numbered(name: str) -> Iterator[str]:
    """Yield `name`, and then `name` with the suffixes _2, _3 and so on."""
    return chain([name], (f"{name}_{number}" for number in count(2)))


def infer_types(graph: Graph) -> Graph:
    """Infer the types of all nodes again, and return a new graph. Call this after the types of inputs have changed."""
    types = dict(graph.inputs)
    nodes = []
    for node in graph.nodes:
        types[node.name] = node.operation.infer(tuple(types[i] for i in node.inputs), graph.shapes(node))
        nodes.append(replace(node, type=types[node.name]))
    return replace(graph, nodes=tuple(nodes))


def prune(graph: Graph) -> Graph:
    """Return the graph with only the nodes, parameters and inputs that its outputs and states depend on."""
    needed = set(graph.results.values())
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node.name in needed:
            nodes.append(node)
            needed.update(node.inputs)
    used = {p for node in nodes for p in node.parameters}
    return replace(
        graph,
        inputs={name: type for name, type in graph.inputs.items() if name in needed or name in graph.states},
        nodes=tuple(reversed(nodes)),
        parameters={name: parameter for name, parameter in graph.parameters.items() if name in used},
    )


def origins(graphs: Iterable[Graph]) -> dict[str, ParameterOrigin]:
    """Return how each parameter is computed from a weights file, keyed by parameter name."""
    return {name: parameter.origin for graph in graphs for name, parameter in graph.parameters.items()}


def stored_tensors(graphs: Iterable[Graph]) -> dict[str, StoredTensor]:
    """Return the tensors that the graphs need from a weights file, keyed by name."""
    return {tensor.name: tensor for origin in origins(graphs).values() for tensor in origin.stored()}


def interpret(graph: Graph, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the outputs and states of a graph, and return them, keyed by name. Dropout is off.

    Args:
        graph: The graph to run.
        weights: The tensors of a weights file, keyed by name.
        inputs: The inputs of the graph, keyed by name.
    """
    parameters = {name: parameter.origin.make(weights) for name, parameter in graph.parameters.items()}
    values = dict(inputs)
    for node in graph.nodes:
        arguments = [values[i] for i in node.inputs], [parameters[p] for p in node.parameters]
        values[node.name] = node.operation.interpret(*arguments)
    return {name: values[value] for name, value in graph.results.items()}
