"""Graph builder, with which the modules in `lowering/` describe a model layer by layer, as in the paper's figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.graph import Graph, Purpose, StepState, prune, verify
from compiler.operations.elementwise import Add
from compiler.operations.operation import GraphError, Node, Operation, ValueKind, ValueType
from compiler.size import Size
from compiler.weights import Initializer, Parameter, StoredTensor


@dataclass(frozen=True)
class Value:
    """Value in a graph that is being built: an input, or the result of a node.

    `x + y` adds a residual connection to the graph, and returns its result.
    """

    builder: GraphBuilder
    name: str
    type: ValueType

    def __add__(self, other: Value) -> Value:
        return self.builder.node("residual", Add(), (self, other))

    @property
    def width(self) -> int:
        """The number of features in the value: the size of its last dimension."""
        return self.type.shape[-1].constant


class GraphBuilder:
    """Builder of one graph. It collects the graph's inputs, nodes, parameters and outputs.

    The names of nodes and parameters start with the current layer, such as `encoder.0` (see `layer`).
    """

    def __init__(self, purpose: Purpose) -> None:
        self.purpose = purpose
        self._inputs: dict[str, ValueType] = {}
        self._nodes: list[Node] = []
        self._outputs: dict[str, str] = {}
        self._states: dict[str, StepState] = {}
        self._parameters: dict[str, Parameter] = {}
        self._names: Counter[str] = Counter()
        self._shared: dict[tuple[Operation, str, tuple[str, ...]], Value] = {}
        self._layer, self._layer_start = "", 0
        self._sublayer = self._prefix = ""

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Set the current layer. All nodes that are added in the `with` block belong to this layer."""
        self._layer, self._layer_start = name, len(self._nodes)
        yield
        self._layer = ""

    @contextmanager
    def sublayer(self, name: str, prefix: str = "") -> Iterator[None]:
        """Set the current sub-layer for the `with` block.

        Args:
            name: The name of the sub-layer. It is part of the names of the sub-layer's parameters.
            prefix: The names of the sub-layer's values start with this prefix.
        """
        self._sublayer, self._prefix = name, prefix
        yield
        self._sublayer = self._prefix = ""

    @property
    def path(self) -> str:
        """The current layer and sub-layer, such as `encoder.0.self_attention`."""
        return _join(self._layer, self._sublayer)

    def input(self, name: str, *shape: int | Size, kind: ValueKind = ValueKind.FLOAT) -> Value:
        """Add an input to the graph, and return its value."""
        if name in self._inputs:
            raise GraphError(f"the input `{name}` is added twice")
        self._inputs[name] = ValueType(tuple(map(Size.of, shape)), kind)
        return Value(self, name, self._inputs[name])

    def state(self, name: str, *shape: int | Size) -> Value:
        """Add a state to the current layer, and return its value.

        A state is an input that each decoder step passes to the next step. `update_state` defines its next value.
        """
        return self.input(_join(self._layer, self._prefix + name), *shape)

    def update_state(self, state: Value, value: Value, length_axis: int) -> None:
        """Define the value that a state has in the next decoder step.

        If the state has a fixed number of positions, the next step gets only the last positions of the value.

        Args:
            state: A value that the `state` method returned.
            value: The state's positions, followed by the new positions. Axis 0 is the axis of the hypotheses.
            length_axis: The axis of the positions.
        """
        self._states[state.name] = StepState(value.name, length_axis)

    def output(self, name: str, value: Value) -> None:
        """Make a value an output of the graph, under the given name."""
        self._outputs[name] = value.name

    def parameter(self, name: str, *shape: int, initial: Initializer = Initializer.MATRIX) -> str:
        """Add a parameter to the current sub-layer, unless the parameter already exists. Return its full name."""
        return self.stack_parameter(_join(self._layer, self._sublayer, name), *shape, initial=initial)

    def stack_parameter(self, path: str, *shape: int, initial: Initializer) -> str:
        """Add a parameter with the full name `path`, unless the parameter already exists. Return the name."""
        if len(shape) < 2 and initial is Initializer.MATRIX:
            raise GraphError(f"`{path}` is not a matrix: pass `initial=Initializer.ZERO` or `initial=Initializer.ONE`")
        parameter = Parameter(path, StoredTensor(path, shape, initial))
        if self._parameters.setdefault(path, parameter) != parameter:
            raise GraphError(f"`{path}` is added as {self._parameters[path].origin} and as {parameter.origin}")
        return path

    def node(self, hint: str, operation: Operation, inputs: tuple[Value, ...], *parameters: str) -> Value:
        """Add a node that applies an operation to the inputs. Return its result, whose name contains `hint`."""
        name = self._unique(_join(self._layer, self._prefix + hint))
        shapes = tuple(self._parameters[p].shape for p in parameters)
        type_ = operation.infer(tuple(v.type for v in inputs), shapes)
        self._nodes.append(Node(name, operation, tuple(v.name for v in inputs), parameters, type_, self._layer))
        return Value(self, name, type_)

    def shared(self, name: str, operation: Operation, inputs: tuple[Value, ...], *parameters: str) -> Value:
        """Return a value that several layers share, such as a mask.

        The value is computed once, before the first layer that uses it. Calls with the same operation, first input and
        parameters return the same value.
        """
        key = (operation, inputs[0].name, parameters)
        if key not in self._shared:
            name = self._unique(name)
            type_ = operation.infer(tuple(v.type for v in inputs), tuple(self._parameters[p].shape for p in parameters))
            node = Node(name, operation, tuple(v.name for v in inputs), parameters, type_)
            self._nodes.insert(self._layer_start if self._layer else len(self._nodes), node)
            self._layer_start += 1
            self._shared[key] = Value(self, name, type_)
        return self._shared[key]

    def _unique(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"

    def graph(self) -> Graph:
        """Verify the graph, and return it without unused nodes, parameters and inputs."""
        graph = Graph(self.purpose, self._inputs, tuple(self._nodes), self._outputs, self._parameters, self._states)
        verify(graph)
        return prune(graph)


def _join(*names: str) -> str:
    return ".".join(filter(None, names))
