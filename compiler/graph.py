"""The graph: what a spec means, before anything runs.

A graph is a list of nodes in order, each one operation on values that came before. It has no weights and knows no
file names. What a node depends on is in its edges: a value's name means nothing. `verify` is the grammar, and is asked
between all passes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, count

from compiler.operations.operation import GraphError, Operation, Type
from compiler.size import READ, ROOM, Size
from compiler.weights import Parameter, Stored


class Purpose(StrEnum):
    """What a graph computes. The inputs and outputs of each are listed in `lower/transformer.py`."""

    TRAIN = "train"
    SCORE = "score"
    ENCODE = "encode"
    DECODE_STEP = "decode_step"
    ATTEND = "attend"


@dataclass(frozen=True)
class Node:
    """One operation, whose result is the value called `name`. `layer` is "encoder.0" and the like, or ""."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    type: Type
    layer: str = ""


@dataclass(frozen=True)
class Carried:
    """What a step hands to the next one, whose input of the same name it becomes."""

    value: str
    rows: int = 0
    """The axis of its rows, each a hypothesis."""
    grows: int | None = None
    """The axis of its positions; None where it has none, and is of one size for good."""


@dataclass(frozen=True)
class Graph:
    """Nodes in order. `outputs` gives each output's value, `carried` that of each input that a step hands on."""

    purpose: Purpose
    inputs: Mapping[str, Type]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, str]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    carried: Mapping[str, Carried] = field(default_factory=dict)

    @property
    def types(self) -> dict[str, Type]:
        """The type of every value."""
        return {**self.inputs, **{node.name: node.type for node in self.nodes}}

    @property
    def results(self) -> dict[str, str]:
        """The values that leave it: outputs, then what is carried."""
        return {**self.outputs, **{name: carried.value for name, carried in self.carried.items()}}

    def shapes(self, node: Node) -> tuple[tuple[Size, ...], ...]:
        return tuple(self.parameters[name].shape for name in node.parameters)

    def with_values(self, names: Mapping[str, str]) -> Graph:
        """The graph in which what leaves it is read from the values that these have become."""
        return replace(
            self,
            outputs={output: names.get(value, value) for output, value in self.outputs.items()},
            carried={n: replace(c, value=names.get(c.value, c.value)) for n, c in self.carried.items()},
        )


Graphs = Mapping[Purpose, Graph]
"""Graphs that run on the same weights, such as those of the encoder and of the decoder's step."""

_LAYER = re.compile(r"([a-z_]+\.\d+)?")


def verify(graph: Graph) -> None:
    """Raises GraphError where a value is used before it is made, made twice, or is not of the type it says it is."""
    known, gone, base = dict(graph.inputs), set[str](), {name: name for name in graph.inputs}
    for node in graph.nodes:
        if node.name in known:
            raise GraphError(f"`{node.name}` is made twice")
        absent = [i for i in node.inputs if i not in known] + [p for p in node.parameters if p not in graph.parameters]
        if absent:
            raise GraphError(f"`{node.name}` uses {absent} before it is made")
        if lost := [i for i in node.inputs if base[i] in gone]:
            raise GraphError(f"`{node.name}` uses {lost} after it was overwritten")
        if not _LAYER.fullmatch(node.layer):
            raise GraphError(f"`{node.layer}` is no layer: it is a stack and a number, such as `encoder.0`")
        inferred = node.operation.infer(tuple(known[i] for i in node.inputs), graph.shapes(node))
        if inferred != node.type:
            raise GraphError(f"`{node.name}` is {inferred}, not {node.type}")
        if node.operation.overwrites is not None:
            overwritten = node.inputs[node.operation.overwrites]
            if overwritten not in graph.carried:
                raise GraphError(f"`{node.name}` overwrites `{overwritten}`, which nothing carries on")
            gone.add(overwritten)
        base[node.name] = base[node.inputs[0]] if node.operation.view else node.name
        known[node.name] = node.type
    if absent := [value for value in graph.results.values() if value not in known or base[value] in gone]:
        raise GraphError(f"the outputs {absent} are never made")
    _verify_carried(graph, known)
    used = {p for node in graph.nodes for p in node.parameters}
    if used != set(graph.parameters):
        raise GraphError(f"parameters that nothing uses: {sorted(set(graph.parameters) - used)}")


def _verify_carried(graph: Graph, types: Mapping[str, Type]) -> None:
    """What comes out is what went in, but for its length where it grows: from the positions that were read."""
    for name, carried in graph.carried.items():
        if name not in graph.inputs:
            raise GraphError(f"`{name}` is carried on and does not come in")
        before, after = (list(types[value].shape) for value in (name, carried.value))
        if carried.grows is not None and len(before) == len(after) and before[carried.grows] in (READ, ROOM):
            before[carried.grows] = after[carried.grows]
        if before != after or types[name].kind is not types[carried.value].kind or carried.rows == carried.grows:
            raise GraphError(f"`{name}` is {types[name]}, and goes on as {types[carried.value]}")


def fresh(wish: str, *taken: Container[str]) -> str:
    """A name that is not taken: the wish, or that with a number."""
    names = chain([wish], (f"{wish}_{number}" for number in count(2)))
    return next(name for name in names if not any(name in each for each in taken))


def inferred(graph: Graph) -> Graph:
    """The graph with the type of every node found anew, after inputs have changed theirs."""
    types = dict(graph.inputs)
    nodes = []
    for node in graph.nodes:
        types[node.name] = node.operation.infer(tuple(types[i] for i in node.inputs), graph.shapes(node))
        nodes.append(replace(node, type=types[node.name]))
    return replace(graph, nodes=tuple(nodes))


def prune(graph: Graph) -> Graph:
    """Without the nodes, parameters and inputs that nothing needs which leaves the graph."""
    needed = set(graph.results.values())
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node.name in needed:
            nodes.append(node)
            needed.update(node.inputs)
    used = {p for node in nodes for p in node.parameters}
    return replace(
        graph,
        inputs={name: type for name, type in graph.inputs.items() if name in needed or name in graph.carried},
        nodes=tuple(reversed(nodes)),
        parameters={name: parameter for name, parameter in graph.parameters.items() if name in used},
    )


def stored(graphs: Iterable[Graph]) -> dict[str, Stored]:
    """The tensors of a weights file that these graphs need, by name."""
    parameters = [p for graph in graphs for p in graph.parameters.values()]
    return {tensor.name: tensor for p in parameters for tensor in p.origin.stored()}
