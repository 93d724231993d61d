"""Native code generation: translate a graph into the instructions of the native backend, which work on buffers.

A buffer has one row for each token of the sources or, in a decoder step, for each hypothesis. Operations that only
select a part of a row, such as a slice, need no instruction: their result is an operand inside another buffer. A
projection and its activation are fused into one instruction, and so are a residual connection and its norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from compiler.graph import Graph, Graphs, Purpose
from compiler.instruction import Instruction, Opcode, Operand, Unsupported
from compiler.operations.operation import MaskRole, Node, ValueKind, ValueType
from compiler.size import BEAMS

_NEEDS_PASS = "it needs the `{0}` pass, which is disabled or does not apply to this model"


@dataclass(frozen=True)
class NativeCode:
    """Instructions for the encoder and for a decoder step, and the length of a row in each buffer.

    `memory` contains the row lengths of the encoder's outputs, and `cache` the row lengths of keys and values. All
    lengths are counted in floats. `vocabulary` is the size of the target vocabulary.
    """

    encode: tuple[Instruction, ...]
    step: tuple[Instruction, ...]
    buffers: tuple[int, ...]
    memory: tuple[int, ...]
    cache: tuple[int, ...]
    vocabulary: int


def generate_native_code(graphs: Graphs) -> NativeCode:
    """Return the native code for encoding and for a decoder step.

    Args:
        graphs: The graphs, keyed by purpose. Only the ENCODE and DECODE_STEP graphs are used.

    Raises:
        Unsupported: The native backend has no instruction for a part of the graphs.
    """
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    if any(type_.kind is ValueKind.FLOAT for type_ in encode.inputs.values()):
        raise Unsupported("its kernels read tokens, not features")
    if step.inputs["token"].shape[1] != BEAMS:
        raise Unsupported(_NEEDS_PASS.format("beams_as_queries"))
    # The padding mask has no array: the rows of a sentence contain no padding.
    memory = [name for name in encode.outputs if name in step.inputs and step.inputs[name].kind is ValueKind.FLOAT]
    keys = {n.inputs[1] for n in step.nodes if n.operation.is_attention}
    buffers: list[int] = []
    encoder = NativeCodeGenerator(encode, buffers, memory)
    encoder.generate()
    encoder.store_memory(keys)
    decoder = NativeCodeGenerator(step, buffers, memory)
    decoder.generate()
    return NativeCode(
        tuple(encoder.instructions),
        tuple(decoder.instructions),
        tuple(buffers),
        tuple(_row_length(step.inputs[name]) for name in memory),
        tuple(_row_length(step.inputs[name]) for name in step.states),
        _row_length(step.types[step.outputs["log_probabilities"]]),
    )


class NativeCodeGenerator:
    """Generator of native instructions for one graph. Each operation's `native` method uses it to add instructions."""

    def __init__(self, graph: Graph, buffers: list[int], memory: list[str]) -> None:
        """Create a code generator for one graph.

        Args:
            graph: The graph of the encoder or of a decoder step.
            buffers: The row length of each existing buffer. New buffers are appended to the list.
            memory: The encoder's outputs that a decoder step reads, in the order of their memory arrays.
        """
        self.graph, self.buffers, self.memory = graph, buffers, memory
        self.instructions: list[Instruction] = []
        self.operands: dict[str, Operand] = {}
        self.nodes = graph.by_name
        self.fused: set[str] = set()
        """Nodes without an instruction, because the instruction of the next node (norm or activation) computes them."""
        self.with_state = set[str]()
        """Results of recurrences, whose first position is the state before the new positions."""
        self.free = {length: [b for b, size in enumerate(buffers) if size == length] for length in set(buffers)}
        """The unused buffers, by row length. At first, these are all buffers."""
        self.owner = {name: name for name in graph.types}
        """For each value, the value whose buffer it shares, or the value itself if it has its own buffer."""
        for node in graph.nodes:
            if node.operation.shares_buffer:
                self.owner[node.name] = self.owner[node.inputs[0]]
        read = chain(*(node.inputs for node in graph.nodes if not node.operation.shares_buffer), graph.results.values())
        self.readers = Counter(self.owner[name] for name in read)
        """How many nodes and results read each buffer. Values that share a buffer are counted together."""

    def generate(self) -> None:
        """Generate the instructions of all nodes. A buffer is reused after the last instruction that reads it."""
        for node in self.graph.nodes:
            node.operation.native(self, node)
            if not node.operation.shares_buffer and node.name not in self.fused:
                for name in self.inputs(node):
                    self._release(name)

    def store_memory(self, keys: set[str]) -> None:
        """Add instructions that store the encoder's outputs in the memory arrays. Outputs in `keys` are transposed."""
        for array, name in enumerate(self.memory):
            value = self.graph.outputs[name]
            type_, a = self.nodes[value].type, self.operand(value)
            if len(type_.shape) != 4:
                raise Unsupported(_NEEDS_PASS.format("hoist_memory"))
            heads, width = type_.shape[1].constant, _row_length(type_)
            self.instructions.append(
                Instruction(Opcode.STORE_MEMORY, Operand(array), a, width=width, heads=heads, keys=name in keys)
            )

    # Methods for operations.

    def add(self, node: Node, opcode: Opcode, *inputs: str, **fields: Any) -> None:
        """Add an instruction that computes a node's result in a new buffer.

        Args:
            node: The node to compute.
            opcode: The operation of the instruction.
            *inputs: The values to read, at most three.
            **fields: Other fields of the instruction.
        """
        if any(len(self.graph.types[value].shape) > 3 for value in inputs) and "key_width" not in fields:
            name = type(node.operation).__name__
            raise Unsupported(f"it has no instruction for {name} on separate attention heads")
        operands = dict(zip("abc", map(self.operand, inputs), strict=False))
        fields = {**operands, "width": self.row_length(node.name), **fields}
        self.instructions.append(Instruction(opcode, self._allocate(node), **fields))

    def alias_input(self, node: Node) -> None:
        """Let a node's result share the buffer of the node's first input. No instruction is added."""
        if node.type.kind is ValueKind.FLOAT:  # tokens and positions have no buffer
            self.operands[node.name] = self.operand(node.inputs[0])

    def operand(self, value: str) -> Operand:
        """Return the operand that contains a value.

        Raises:
            Unsupported: No buffer contains the value. The pass `hoist_memory` must first move its computation to
                the encoder.
        """
        if value in self.operands:
            return self.operands[value]
        raise Unsupported(_NEEDS_PASS.format("hoist_memory"))

    def inputs(self, node: Node) -> tuple[str, ...]:
        """Return the names of the values that a node's instruction reads.

        If the node that computes an input is fused into this instruction, the inputs of that node are returned instead.
        """
        return tuple(i for name in node.inputs for i in (self.nodes[name].inputs if name in self.fused else (name,)))

    def row_length(self, value: str) -> int:
        """Return the number of elements in each row of a value."""
        return _row_length(self.graph.types[value])

    def parameter_shape(self, parameter: str) -> tuple[int, ...]:
        """Return the shape of a parameter of the graph."""
        return self.graph.parameters[parameter].origin.shape

    def sole_reader(self, node: Node) -> Node | None:
        """Return the only reader of a node's result, or None if the result is an output or has several readers."""
        readers = [n for n in self.graph.nodes if node.name in n.inputs]
        return readers[0] if self.graph.uses[node.name] == 1 and readers else None

    def append_to_cache(self, node: Node) -> None:
        """Add an instruction that appends a node's second input to its first input, a cache."""
        array = Operand(list(self.graph.states).index(node.inputs[0]))
        heads = node.type.shape[1].constant
        new = self.operand(node.inputs[1])
        width = self.row_length(node.name)
        self.instructions.append(Instruction(Opcode.APPEND_CACHE, array, new, width=width, heads=heads))
        self.operands[node.name] = array

    def recurrent_state(self, node: Node, state: str) -> Operand:
        """Return the cache array of a recurrent layer's state.

        The state needs its own array, because the buffer of the layer's result contains only the new positions, not the
        initial state. The layer's result must become the state of the next step.

        Args:
            node: The node of the recurrent layer.
            state: The name of the state.

        Raises:
            Unsupported: The layer's result is not the state of the next step.
        """
        if self.graph.states[state].value != node.name:
            name = type(node.operation).__name__
            raise Unsupported(f"it has no instruction for {name} if the result is not the next state")
        self.with_state.add(node.name)
        return Operand(list(self.graph.states).index(state))

    def concatenate(self, node: Node) -> None:
        """Add instructions that concatenate a node's inputs in one buffer."""
        inputs = [(self.operand(name), self.row_length(name)) for name in node.inputs]
        out, column = self._allocate(node), 0
        for a, width in inputs:
            self.instructions.append(Instruction(Opcode.COPY, replace(out, column=column), a, width=width))
            column += width

    def attention(self, node: Node, scale: float, *, biased: bool) -> None:
        """Add an instruction for attention.

        The mask and the keys determine whether queries attend to source positions, the cache or the encoder output.

        Args:
            node: The node of the attention.
            scale: Factor by which the dot products are multiplied.
            biased: Whether the last input is a bias that is added to the scores.
        """
        query, keys, values, *masks = node.inputs
        bias: Mapping[str, Any] = {}
        if biased:
            *masks, name = masks
            bias = self.nodes[name].operation.native_bias(self, self.nodes[name])
        mask_operations = [self.nodes[mask].operation for mask in masks if mask in self.nodes]
        unsupported = [mask for mask in mask_operations if mask.mask_role not in (MaskRole.PADDING, MaskRole.UNWRITTEN)]
        if unsupported or len(masks) != 1:
            names = ", ".join(type(mask).__name__ for mask in unsupported) or f"{len(masks)} masks"
            raise Unsupported(f"it has no instruction for attention with {names}")
        if keys in self.graph.inputs:
            arrays = {name: Operand(array) for array, name in enumerate(self.memory)}
            if keys == values or not {keys, values} <= arrays.keys():
                raise Unsupported("it has no instruction for attention that uses one tensor as keys and as values")
            opcode, b, c = Opcode.ATTEND_MEMORY, arrays[keys], arrays[values]
        else:
            is_cached = any(mask.mask_role is MaskRole.UNWRITTEN for mask in mask_operations)
            opcode = Opcode.ATTEND_CACHE if is_cached else Opcode.ATTEND_SOURCE
            b, c = self.operand(keys), self.operand(values)
        _, heads, _, width = node.type.shape
        self.add(
            node,
            opcode,
            query,
            b=b,
            c=c,
            heads=heads.constant,
            groups=heads.constant // self.graph.types[keys].shape[1].constant,
            key_width=self.graph.types[query].shape[3].constant,
            value_width=width.constant,
            scale=scale,
            **bias,
        )

    # Allocation of buffers.

    def _release(self, value: str) -> None:
        """Record that a node has read the buffer of a value. After the last read, mark the buffer as free."""
        name = self.owner[value]
        self.readers[name] -= 1
        operand = self.operands.get(name)
        if self.readers[name] == 0 and operand and name in self.nodes:
            self.free.setdefault(self.buffers[operand.buffer], []).append(operand.buffer)

    def _allocate(self, node: Node) -> Operand:
        """Return a free or new buffer for the result of a node."""
        length = self.row_length(node.name)
        free = self.free.setdefault(length, [])
        if not free:
            self.buffers.append(length)
            free.append(len(self.buffers) - 1)
        self.operands[node.name] = Operand(free.pop())
        return self.operands[node.name]


def _row_length(type_: ValueType) -> int:
    """Return the number of elements in a row: the last dimension, times the number of heads if there are heads."""
    if len(type_.shape) == 4:
        return type_.shape[1].constant * type_.shape[3].constant
    return type_.shape[-1].constant
