"""Draws a graph node by node, so that `lower/` can be read as the figure it draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.graph import Carried, Graph, Node, Purpose, prune, verify
from compiler.operations.operation import GraphError, Kind, Operation, Type
from compiler.operations.residual import Add
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
        self._carried: dict[str, Carried] = {}
        self._parameters: dict[str, Parameter] = {}
        self._names: Counter[str] = Counter()
        self._shared: dict[Hashable, Value] = {}
        self._layer, self._begun = "", 0
        self._part = self._prefix = ""

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Nodes drawn inside belong to this layer."""
        self._layer, self._begun = name, len(self._nodes)
        yield
        self._layer = ""

    @contextmanager
    def part(self, name: str, prefix: str = "") -> Iterator[None]:
        """Parameters named inside belong to this part of the layer; values have their names with the prefix."""
        self._part, self._prefix = name, prefix
        yield
        self._part = self._prefix = ""

    @property
    def place(self) -> str:
        """The layer and its part that are being drawn, such as `encoder.0.self_attention`."""
        return self._path(self._layer, self._part)

    def _path(self, *names: str) -> str:
        return ".".join(filter(None, names))

    def input(self, name: str, *shape: int | Size, kind: Kind = Kind.FLOAT) -> Value:
        if name in self._inputs:
            raise GraphError(f"the input `{name}` is drawn twice")
        self._inputs[name] = Type(tuple(map(Size.of, shape)), kind)
        return Value(self, name, self._inputs[name])

    def state(self, name: str, *shape: int | Size) -> Value:
        """An input of this layer that one step hands to the next (see `carry`)."""
        return self.input(self._path(self._layer, self._prefix + name), *shape)

    def output(self, name: str, value: Value) -> None:
        self._outputs[name] = value.name

    def carry(self, state: Value, value: Value, grows: int | None = None) -> None:
        """The state becomes this value, which has its rows first, and may have grown along an axis."""
        self._carried[state.name] = Carried(value.name, grows=grows)

    def parameter(self, name: str, *shape: int, initial: Initial = Initial.MATRIX) -> str:
        path = self._path(self._layer, self._part, name)
        drawn = Parameter(path, Stored(path, shape, initial))
        if self._parameters.setdefault(path, drawn) != drawn:
            raise GraphError(f"`{path}` is drawn as {self._parameters[path].origin} and as {drawn.origin}")
        return path

    def node(self, hint: str, operation: Operation, inputs: tuple[Value, ...], *parameters: str) -> Value:
        path = self._path(self._layer, self._prefix + hint)
        self._names[path] += 1
        name = path if self._names[path] == 1 else f"{path}_{self._names[path]}"
        shapes = tuple(self._parameters[p].shape for p in parameters)
        type_ = operation.infer(tuple(v.type for v in inputs), shapes)
        self._nodes.append(Node(name, operation, tuple(v.name for v in inputs), parameters, type_, self._layer))
        return Value(self, name, type_)

    def shared(self, name: str, operation: Operation, inputs: tuple[Value, ...], same: Hashable) -> Value:
        """The value that is drawn once for all layers that ask for the `same`: outside of them, before the first."""
        key = (operation, inputs[0].name, same)
        if key not in self._shared:
            self._names[name] += 1
            name = name if self._names[name] == 1 else f"{name}_{self._names[name]}"
            type_ = operation.infer(tuple(v.type for v in inputs), ())
            node = Node(name, operation, tuple(v.name for v in inputs), (), type_)
            self._nodes.insert(self._begun if self._layer else len(self._nodes), node)
            self._begun += 1
            self._shared[key] = Value(self, name, type_)
        return self._shared[key]

    def graph(self) -> Graph:
        """What was drawn, verified."""
        drawn = Graph(self.purpose, self._inputs, tuple(self._nodes), self._outputs, self._parameters, self._carried)
        verify(drawn)
        return prune(drawn)
