"""Draws a graph node by node, so that `lower.py` can be read as the figure it draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.graph import Graph, Kind, Node, Purpose, prune, verify
from compiler.operation import Add, Operation, Type
from compiler.size import Size
from compiler.weights import Initial, Parameter, Stored


@dataclass(frozen=True)
class Value:
    """A value of the graph being drawn. `x + y` draws the residual connection."""

    builder: Builder
    name: str
    type: Type

    def __add__(self, other: Value) -> Value:
        return self.builder.node("residual", Add(), (self, other))

    @property
    def width(self) -> int:
        return self.type.shape[-1].constant


class Builder:
    """Collects inputs, nodes and parameters. Names are made of the layer that is being drawn and a hint."""

    def __init__(self, purpose: Purpose) -> None:
        self.purpose = purpose
        self._inputs: dict[str, Type] = {}
        self._nodes: list[Node] = []
        self._outputs: dict[str, str] = {}
        self._parameters: dict[str, Parameter] = {}
        self._names: Counter[str] = Counter()
        self._layer = ""
        self._part = ""

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Nodes drawn inside belong to this layer."""
        self._layer = name
        yield
        self._layer = ""

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Parameters named inside belong to this part of the layer."""
        self._part = name
        yield
        self._part = ""

    def _path(self, *names: str) -> str:
        return ".".join(filter(None, names))

    def input(self, name: str, *shape: int | Size, kind: Kind = Kind.FLOAT) -> Value:
        self._inputs[name] = Type(tuple(map(Size.of, shape)), kind)
        return Value(self, name, self._inputs[name])

    def cache(self, name: str, *shape: int | Size) -> Value:
        """An input of this layer that an output of the same name will replace."""
        return self.input(self._path(self._layer, name), *shape)

    def output(self, name: str, value: Value) -> None:
        self._outputs[name] = value.name

    def carry(self, cache: Value, value: Value) -> None:
        self.output(cache.name, value)

    def parameter(self, name: str, *shape: int, initial: Initial = Initial.MATRIX) -> str:
        path = self._path(self._layer, self._part, name)
        self._parameters.setdefault(path, Parameter(path, Stored(path, shape, initial)))
        return path

    def node(self, hint: str, operation: Operation, inputs: tuple[Value, ...], *parameters: str) -> Value:
        stem = "memory_" if self._part == "memory_attention" else ""
        path = self._path(self._layer, stem + hint)
        self._names[path] += 1
        name = path if self._names[path] == 1 else f"{path}_{self._names[path]}"
        shapes = tuple(self._parameters[p].shape for p in parameters)
        type_ = operation.infer(tuple(v.type for v in inputs), shapes)
        self._nodes.append(Node(name, operation, tuple(v.name for v in inputs), parameters, type_, self._layer))
        return Value(self, name, type_)

    def graph(self) -> Graph:
        """What was drawn, verified."""
        drawn = Graph(self.purpose, self._inputs, tuple(self._nodes), self._outputs, self._parameters)
        verify(drawn)
        return prune(drawn)
