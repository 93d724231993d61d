"""The graph: what a spec means, before anything runs.

A graph is a list of nodes in order, each one operation on values that came before. It has no weights and knows no
file names. `verify` is its grammar, and is asked between all passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from compiler.operation import Attention, GraphError, Kind, Operation, Type
from compiler.size import Size
from compiler.weights import Parameter, Stored


class Purpose(StrEnum):
    """What a graph computes. The inputs and outputs of each are listed in `lower.py`."""

    TRAIN = "train"
    SCORE = "score"
    ENCODE = "encode"
    DECODE_STEP = "decode_step"


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
class Graph:
    """Nodes in order. `outputs` gives each output's value; an output called as an input is carried to the next step."""

    purpose: Purpose
    inputs: Mapping[str, Type]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, str]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def types(self) -> dict[str, Type]:
        """The type of every value."""
        return {**self.inputs, **{node.name: node.type for node in self.nodes}}

    @property
    def carried(self) -> tuple[str, ...]:
        """The caches: inputs that an output of the same name replaces."""
        return tuple(name for name in self.outputs if name in self.inputs)

    def shapes(self, node: Node) -> tuple[tuple[Size, ...], ...]:
        return tuple(self.parameters[name].shape for name in node.parameters)


Graphs = Mapping[Purpose, Graph]
"""Graphs that run on the same weights, such as those of the encoder and of the decoder's step."""


def verify(graph: Graph) -> None:
    """Raises GraphError where a value is used before it is made, made twice, or is not of the type it says it is."""
    known = dict(graph.inputs)
    for node in graph.nodes:
        if node.name in known:
            raise GraphError(f"`{node.name}` is made twice")
        absent = [i for i in node.inputs if i not in known] + [p for p in node.parameters if p not in graph.parameters]
        if absent:
            raise GraphError(f"`{node.name}` uses {absent} before it is made")
        if isinstance(node.operation, Attention) and not set(node.operation.masked_by) <= set(graph.inputs):
            raise GraphError(f"`{node.name}` is masked by {node.operation.masked_by}, which are not all inputs")
        inferred = node.operation.infer(tuple(known[i] for i in node.inputs), graph.shapes(node))
        if inferred != node.type:
            raise GraphError(f"`{node.name}` is {inferred}, not {node.type}")
        known[node.name] = node.type
    if absent := [v for v in graph.outputs.values() if v not in known]:
        raise GraphError(f"the outputs {absent} are never made")
    used = {p for node in graph.nodes for p in node.parameters}
    if used != set(graph.parameters):
        raise GraphError(f"parameters that nothing uses: {sorted(set(graph.parameters) - used)}")


def inferred(graph: Graph) -> Graph:
    """The graph with the type of every node found anew, after inputs have changed theirs."""
    types = dict(graph.inputs)
    nodes = []
    for node in graph.nodes:
        types[node.name] = node.operation.infer(tuple(types[i] for i in node.inputs), graph.shapes(node))
        nodes.append(replace(node, type=types[node.name]))
    return replace(graph, nodes=tuple(nodes))


def prune(graph: Graph) -> Graph:
    """Without the nodes, parameters and inputs that no output needs."""
    needed = set(graph.outputs.values())
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node.name in needed:
            nodes.append(node)
            needed.update(node.inputs)
            if isinstance(node.operation, Attention):
                needed.update(node.operation.masked_by)
    used = {p for node in nodes for p in node.parameters}
    return Graph(
        graph.purpose,
        {name: type for name, type in graph.inputs.items() if name in needed},
        tuple(reversed(nodes)),
        graph.outputs,
        {name: parameter for name, parameter in graph.parameters.items() if name in used},
    )


def stored(graphs: Iterable[Graph]) -> dict[str, Stored]:
    """The tensors of a weights file that these graphs need, by name."""
    parameters = [p for graph in graphs for p in graph.parameters.values()]
    return {tensor.name: tensor for p in parameters for tensor in p.origin.stored()}


__all__ = [
    "Graph",
    "GraphError",
    "Graphs",
    "Kind",
    "Node",
    "Parameter",
    "Purpose",
    "inferred",
    "prune",
    "stored",
    "verify",
]
