"""A graph as a short list of instructions for a machine with buffers of rows: what the native backend executes.

A row is a token of a source, or a hypothesis. What only names part of a row (a slice, its heads) is no instruction but
a place in a buffer, and a projection with its activation or a residual with its norm is one instruction instead of two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from compiler.graph import Graph, Graphs, Node, Purpose
from compiler.instruction import Code, Inexpressible, Instruction, Place
from compiler.operations.attention import Attention
from compiler.operations.mask import PaddingMask, UnwrittenMask
from compiler.operations.operation import ValueKind, ValueType
from compiler.operations.views import Slice
from compiler.size import BEAMS


@dataclass(frozen=True)
class Listing:
    """The instructions of encoder and step; the widths of buffers, memory slots and cache slots."""

    encode: tuple[Instruction, ...]
    step: tuple[Instruction, ...]
    buffers: tuple[int, ...]
    memory: tuple[int, ...]
    cache: tuple[int, ...]


def listing(graphs: Graphs) -> Listing:
    """The instructions of the graphs for ENCODE and DECODE_STEP. Raises Inexpressible."""
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    if step.inputs["token"].shape[1] != BEAMS:
        raise Inexpressible(_NEEDED.format("beams_as_queries"))
    memory = [name for name in encode.outputs if name in step.inputs]
    keys = {n.inputs[1] for n in step.nodes if isinstance(n.operation, Attention)}
    widths: list[int] = []
    first = Lister(encode, widths, memory)
    first.list()
    first.keep(keys)
    second = Lister(step, widths, memory)
    second.free = {width: [b for b, w in enumerate(widths) if w == width] for width in set(widths)}
    second.list()
    return Listing(
        tuple(first.made),
        tuple(second.made),
        tuple(widths),
        tuple(_width(step.inputs[name]) for name in memory),
        tuple(_width(step.inputs[name]) for name in step.states),
    )


_NEEDED = "it needs the pass `{}`: take it out of `compilation.without`"


class Lister:
    """Lists one graph. Each operation adds its own instructions, or says where its result already is."""

    def __init__(self, graph: Graph, widths: list[int], memory: list[str]) -> None:
        self.graph, self.widths, self.memory = graph, widths, memory
        self.made: list[Instruction] = []
        self.places: dict[str, Place] = {}
        self.nodes = {node.name: node for node in graph.nodes}
        self.uses = Counter(i for node in graph.nodes for i in node.inputs) + Counter(graph.results.values())
        self.waiting: set[str] = set()
        """Residuals that their norm adds, and products that their activation makes."""
        self.free: dict[int, list[int]] = {}

    def list(self) -> None:
        self._count()
        for node in self.graph.nodes:
            node.operation.native(self, node)
            for name in self._read(node):
                self._release(name)

    def keep(self, keys: set[str]) -> None:
        """What the encoder leaves for the step: each output into its slot."""
        for slot, name in enumerate(self.memory):
            value = self.graph.outputs[name]
            type_, a = self.nodes[value].type, self.place(value)
            if len(type_.shape) != 4:
                raise Inexpressible(_NEEDED.format("hoist_memory"))
            heads, width = type_.shape[1].constant, _width(type_)
            self.made.append(Instruction(Code.KEEP, Place(slot), a, width=width, heads=heads, keys=name in keys))

    # What operations ask for.

    def add(self, node: Node, code: Code, *inputs: str, **fields: Any) -> None:
        """An instruction from the places of at most three values to a new one, of the node's result."""
        if any(len(self.graph.types[value].shape) > 3 for value in inputs) and "key_width" not in fields:
            raise Inexpressible(
                f"it has no instruction for {type(node.operation).__name__} of heads: take the backend `eager`"
            )
        fields = {**dict(zip("abc", map(self.place, inputs), strict=False)), "width": self.width(node.name), **fields}
        self.made.append(Instruction(code, self._new(node), **fields))

    def same(self, node: Node) -> None:
        """The result lies where the first input does."""
        if node.type.kind is ValueKind.FLOAT:  # tokens and positions lie in no buffer
            self.places[node.name] = self.place(node.inputs[0])

    def place(self, value: str) -> Place:
        """Where a value lies. Raises Inexpressible for what a step would have to compute of the memory."""
        if value in self.places:
            return self.places[value]
        raise Inexpressible(_NEEDED.format("hoist_memory"))

    def read(self, node: Node) -> tuple[str, ...]:
        """The values that a node reads; of a residual or a product that waits for it, what that reads."""
        return tuple(i for name in node.inputs for i in (self.nodes[name].inputs if name in self.waiting else (name,)))

    def width(self, value: str) -> int:
        """Numbers of a row."""
        return _width(self.graph.types[value])

    def shape(self, parameter: str) -> tuple[int, ...]:
        return self.graph.parameters[parameter].origin.shape

    def sole_reader(self, node: Node, kind: type) -> Node | None:
        """The node of this kind that alone reads its result."""
        readers = [n for n in self.graph.nodes if node.name in n.inputs]
        alone = self.uses[node.name] == 1 and len(readers) == 1
        return readers[0] if alone and isinstance(readers[0].operation, kind) else None

    def cached(self, node: Node) -> None:
        """The result is the slot of the cache that it extends."""
        slot = Place(list(self.graph.states).index(node.inputs[0]))
        heads = node.type.shape[1].constant
        new = self.place(node.inputs[1])
        self.made.append(Instruction(Code.APPEND, slot, new, width=self.width(node.name), heads=heads))
        self.places[node.name] = slot

    def carried(self, node: Node, state: str) -> Place:
        """The slot of the cache of a state that becomes the node's result, which has one position."""
        to = self.nodes.get(self.graph.states[state].value)
        if to is None or to.operation != Slice(1, start=-1) or to.inputs != (node.name,) or to.type != node.type:
            name = type(node.operation).__name__
            raise Inexpressible(f"it has no instruction for {name} of another state: take the backend `eager`")
        return Place(list(self.graph.states).index(state))

    def beside(self, node: Node) -> None:
        """One after the other into a place for both."""
        given = [(self.place(name), self.width(name)) for name in node.inputs]
        out, column = self._new(node), 0
        for a, width in given:
            self.made.append(Instruction(Code.COPY, replace(out, column=column), a, width=width))
            column += width

    def attention(self, node: Node, scale: float) -> None:
        """Over the source itself, over a cache or over the memory: its mask says which."""
        query, keys, values, *masks = node.inputs
        hidden = [self.nodes[mask].operation for mask in masks]
        others = [each for each in hidden if not isinstance(each, PaddingMask | UnwrittenMask)]
        if others or len(hidden) != 1:
            names = ", ".join(type(each).__name__ for each in others) or f"{len(hidden)} masks"
            raise Inexpressible(f"it has no instruction for attention with {names}: take the backend `eager`")
        of_memory = keys in self.graph.inputs
        if of_memory:
            slots = {name: Place(slot) for slot, name in enumerate(self.memory)}
            if keys == values or not {keys, values} <= slots.keys():
                raise Inexpressible(
                    "it has no instruction for attention whose keys are its values: take the backend `eager`"
                )
            code, b, c = Code.ATTEND_MEMORY, slots[keys], slots[values]
        else:
            cached = isinstance(hidden[0], UnwrittenMask)
            code, b, c = Code.ATTEND_CACHE if cached else Code.ATTEND_SOURCE, self.place(keys), self.place(values)
        _, heads, _, width = node.type.shape
        self.add(
            node,
            code,
            query,
            b=b,
            c=c,
            heads=heads.constant,
            key_width=self.graph.types[query].shape[3].constant,
            value_width=width.constant,
            scale=scale,
        )

    # Buffers, given back once nothing is left that reads them.

    def _count(self) -> None:
        self.base: dict[str, str] = {}
        for node in self.graph.nodes:
            if node.operation.shares_buffer:
                self.base[node.name] = self.base.get(node.inputs[0], node.inputs[0])
        self.readers = Counter(
            self.base.get(i, i) for n in self.graph.nodes if not n.operation.shares_buffer for i in n.inputs
        ) + Counter(self.base.get(v, v) for v in self.graph.results.values())

    def _read(self, node: Node) -> tuple[str, ...]:
        if node.operation.shares_buffer or node.name in self.waiting:
            return ()
        return tuple(self.base.get(i, i) for i in self.read(node))

    def _release(self, name: str) -> None:
        self.readers[name] -= 1
        place = self.places.get(name)
        if self.readers[name] == 0 and place and name in self.nodes:
            self.free.setdefault(self.widths[place.buffer], []).append(place.buffer)

    def _new(self, node: Node) -> Place:
        width = self.width(node.name)
        free = self.free.setdefault(width, [])
        if not free:
            self.widths.append(width)
            free.append(len(self.widths) - 1)
        self.places[node.name] = Place(free.pop())
        return self.places[node.name]


def _width(type_: ValueType) -> int:
    """Numbers of a row: heads times their width where there are heads."""
    if len(type_.shape) == 4:
        return type_.shape[1].constant * type_.shape[3].constant
    return type_.shape[-1].constant
