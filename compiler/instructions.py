"""A graph as a short list of instructions for a machine with buffers of rows: what the native backend executes.

A row is a token of a source, or a hypothesis. What only names part of a row (a slice, its heads) is no instruction but
a place in a buffer, and a projection with its ReLU or a residual with its norm is one instruction instead of two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum

from compiler import operation as op
from compiler.graph import Graph, Graphs, Node, Purpose


class Code(IntEnum):
    """The instructions, numbered as in kernels/native.cpp."""

    EMBED = 0
    POSITION = 1
    LINEAR = 2
    ADD = 3
    NORM = 4
    ATTEND_SOURCE = 5
    KEEP = 6
    APPEND = 7
    ATTEND_CACHE = 8
    ATTEND_MEMORY = 9
    LOGITS = 10


class Inexpressible(ValueError):
    """A graph that these instructions have no words for; its text says why, and what to do."""


@dataclass(frozen=True)
class Place:
    """Columns of a buffer from `column` on, or (with column 0) a slot of the memory or of the cache."""

    buffer: int
    column: int = 0


NOWHERE = Place(-1)


@dataclass(frozen=True)
class Instruction:
    """`parameters` name those of the graph; `relu` also marks a slot that holds keys."""

    code: Code
    out: Place = NOWHERE
    a: Place = NOWHERE
    b: Place = NOWHERE
    c: Place = NOWHERE
    width: int = 0
    heads: int = 0
    key_width: int = 0
    value_width: int = 0
    relu: bool = False
    scale: float = 1.0
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """The instructions of encoder and step; the widths of buffers, memory slots and cache slots."""

    encode: tuple[Instruction, ...]
    step: tuple[Instruction, ...]
    buffers: tuple[int, ...]
    memory: tuple[int, ...]
    cache: tuple[int, ...]


_VIEWS = op.SplitHeads | op.MergeHeads | op.FoldBeams | op.UnfoldBeams | op.Slice | op.Activation
"""What takes no place of its own: it names another's, or is done by the instruction that fills it."""


def listing(graphs: Graphs) -> Listing:
    """The instructions of the graphs for ENCODE and DECODE_STEP. Raises Inexpressible."""
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    for name, of in (("hoist_memory", "memory"), ("beams_as_queries", "")):
        if of in step.inputs or (not of and not step.inputs["token"].shape[1].symbols):
            raise Inexpressible(f"it needs the pass `{name}`: take it out of `compilation.without`")
    memory = [name for name in encode.outputs if name in step.inputs]
    keys = {n.inputs[1] for n in step.nodes if isinstance(n.operation, op.Attention)}
    widths: list[int] = []
    first = _Lister(encode, widths, memory)
    first.list()
    first.keep(keys)
    second = _Lister(step, widths, memory)
    second.free = {width: [b for b, w in enumerate(widths) if w == width] for width in set(widths)}
    second.list()
    return Listing(
        tuple(first.made),
        tuple(second.made),
        tuple(widths),
        tuple(_width(step.inputs[name]) for name in memory),
        tuple(_width(step.inputs[name]) for name in step.carried),
    )


class _Lister:
    def __init__(self, graph: Graph, widths: list[int], memory: list[str]) -> None:
        self.graph, self.widths, self.memory = graph, widths, memory
        self.made: list[Instruction] = []
        self.places: dict[str, Place] = {}
        self.nodes = {node.name: node for node in graph.nodes}
        self.uses = Counter(i for node in graph.nodes for i in node.inputs) + Counter(graph.outputs.values())
        self.waiting: set[str] = set()  # residuals that their norm adds
        self.free: dict[int, list[int]] = {}

    def list(self) -> None:
        self._count()
        for node in self.graph.nodes:
            rule = _RULES.get(type(node.operation))
            if rule is None:
                raise Inexpressible(f"it has no instruction for {type(node.operation).__name__}")
            rule(self, node)
            for name in self._read(node):
                self._release(name)

    def keep(self, keys: set[str]) -> None:
        """What the encoder leaves for the step: each output into its slot."""
        for slot, name in enumerate(self.memory):
            value = self.graph.outputs[name]
            type_, a = self.nodes[value].type, self.places[value]
            heads, width = type_.shape[1].constant, _width(type_)
            self.made.append(Instruction(Code.KEEP, Place(slot), a, width=width, heads=heads, relu=name in keys))

    # Buffers, given back once nothing is left that reads them.

    def _count(self) -> None:
        self.base: dict[str, str] = {}
        for node in self.graph.nodes:
            if isinstance(node.operation, _VIEWS):
                self.base[node.name] = self.base.get(node.inputs[0], node.inputs[0])
        self.readers = Counter(
            self.base.get(i, i) for n in self.graph.nodes if not isinstance(n.operation, _VIEWS) for i in n.inputs
        ) + Counter(self.base.get(v, v) for v in self.graph.outputs.values())

    def _read(self, node: Node) -> tuple[str, ...]:
        if isinstance(node.operation, _VIEWS) or node.name in self.waiting:
            return ()
        inputs = [i for name in node.inputs for i in (self.nodes[name].inputs if name in self.waiting else (name,))]
        return tuple(self.base.get(i, i) for i in inputs)

    def _release(self, name: str) -> None:
        self.readers[name] -= 1
        place = self.places.get(name)
        if self.readers[name] == 0 and place and name in self.nodes:
            self.free.setdefault(self.widths[place.buffer], []).append(place.buffer)

    def _new(self, node: Node) -> Place:
        width = _width(node.type)
        free = self.free.setdefault(width, [])
        if not free:
            self.widths.append(width)
            free.append(len(self.widths) - 1)
        self.places[node.name] = Place(free.pop())
        return self.places[node.name]

    def _sole_reader(self, node: Node, kind: type[op.Operation]) -> Node | None:
        readers = [n for n in self.graph.nodes if node.name in n.inputs]
        alone = self.uses[node.name] == 1 and len(readers) == 1
        return readers[0] if alone and isinstance(readers[0].operation, kind) else None

    # One rule for each operation.

    def embed(self, node: Node) -> None:
        o = node.operation
        assert isinstance(o, op.Embed)
        width = _width(node.type)
        made = Instruction(Code.EMBED, self._new(node), width=width, scale=o.scale, parameters=node.parameters)
        self.made.append(made)

    def position(self, node: Node) -> None:
        a, out = self.places[node.inputs[0]], self._new(node)
        self.made.append(Instruction(Code.POSITION, out, a, width=_width(node.type), parameters=node.parameters))

    def view(self, node: Node) -> None:
        place, o = self.places.get(node.inputs[0]), node.operation
        if place is None:  # of log-probabilities alone
            return
        if isinstance(o, op.Slice):
            if o.dimension != -1:
                raise Inexpressible("it has no instruction for a slice of positions")
            place = replace(place, column=place.column + o.start)
        self.places[node.name] = place

    def linear(self, node: Node) -> None:
        a, out = self.places[node.inputs[0]], self._new(node)
        activation = self._sole_reader(node, op.Activation)
        width = _width(node.type)
        made = Instruction(Code.LINEAR, out, a, width=width, relu=bool(activation), parameters=node.parameters)
        self.made.append(made)

    def activation(self, node: Node) -> None:
        if not isinstance(self.nodes[node.inputs[0]].operation, op.Linear | op.QuantisedLinear):
            raise Inexpressible("it has no instruction for an activation by itself")
        if self.uses[node.inputs[0]] > 1:
            raise Inexpressible("it has no instruction for a projection that is read with and without activation")
        self.places[node.name] = self.places[node.inputs[0]]

    def add(self, node: Node) -> None:
        if self._sole_reader(node, op.Norm):
            self.waiting.add(node.name)
            return
        a, b = (self.places[i] for i in node.inputs)
        self.made.append(Instruction(Code.ADD, self._new(node), a, b, width=_width(node.type)))

    def norm(self, node: Node) -> None:
        o, (x,) = node.operation, node.inputs
        assert isinstance(o, op.Norm)
        a, b = [*(self.places[i] for i in (self.nodes[x].inputs if x in self.waiting else (x,))), NOWHERE][:2]
        width, out = _width(node.type), self._new(node)
        made = Instruction(Code.NORM, out, a, b, width=width, scale=o.epsilon, parameters=node.parameters)
        self.made.append(made)

    def write(self, node: Node) -> None:
        slot = Place(self.graph.carried.index(node.inputs[0]))
        new, heads = self.places[node.inputs[1]], node.type.shape[1].constant
        self.made.append(Instruction(Code.APPEND, slot, new, width=_width(node.type), heads=heads))
        self.places[node.name] = slot

    def attention(self, node: Node) -> None:
        o = node.operation
        assert isinstance(o, op.Attention)
        query, keys, values = node.inputs
        if o.causal:
            raise Inexpressible("it has no instruction for causal attention")
        if o.cached:
            code, b, c = Code.ATTEND_CACHE, self.places[keys], self.places[values]
        elif keys in self.graph.inputs:
            code, b, c = Code.ATTEND_MEMORY, *(Place(self.memory.index(name)) for name in (keys, values))
        else:
            code, b, c = Code.ATTEND_SOURCE, self.places[keys], self.places[values]
        _, heads, _, width = node.type.shape
        key_width = self.graph.types[query].shape[3].constant
        a, out = self.places[query], self._new(node)
        self.made.append(
            Instruction(
                code,
                out,
                a,
                b,
                c,
                width=heads.constant * width.constant,
                heads=heads.constant,
                key_width=key_width,
                value_width=width.constant,
                scale=o.scale,
            )
        )

    def logits(self, node: Node) -> None:
        """What is left of them after padded places were sliced off are the vocabulary's."""
        width = _width(node.type)
        if slice_ := self._sole_reader(node, op.Slice):
            width = _width(slice_.type)
        a = self.places[node.inputs[0]]
        self.made.append(Instruction(Code.LOGITS, NOWHERE, a, width=width, parameters=node.parameters))

    def log_softmax(self, node: Node) -> None:
        """Part of LOGITS."""


_RULES = {
    op.Embed: _Lister.embed,
    op.Position: _Lister.position,
    op.Slice: _Lister.view,
    op.SplitHeads: _Lister.view,
    op.MergeHeads: _Lister.view,
    op.FoldBeams: _Lister.view,
    op.UnfoldBeams: _Lister.view,
    op.Linear: _Lister.linear,
    op.QuantisedLinear: _Lister.linear,
    op.Activation: _Lister.activation,
    op.Add: _Lister.add,
    op.Norm: _Lister.norm,
    op.Write: _Lister.write,
    op.Append: _Lister.write,
    op.Attention: _Lister.attention,
    op.Logits: _Lister.logits,
    op.QuantisedLogits: _Lister.logits,
    op.LogSoftmax: _Lister.log_softmax,
}


def _width(type_: op.Type) -> int:
    """Numbers of a row: heads times their width where there are heads."""
    if len(type_.shape) == 4:
        return type_.shape[1].constant * type_.shape[3].constant
    return type_.shape[-1].constant
