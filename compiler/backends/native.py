"""The fast step for a CPU: the graph's instructions, executed by kernels that are compiled for this very processor.

The kernels are compiled once with the host's C++ compiler, whatever the model; a model is a list of instructions and
its packed weights. A call runs on the thread that makes it, so several threads can share one program.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from compiler.backends.backend import Backend, Order
from compiler.backends.eager import emitted
from compiler.emitted import EmittedProgram
from compiler.graph import Purpose
from compiler.host import cores, cpp_compiler
from compiler.instruction import Code, Inexpressible, Instruction, Place, Status
from compiler.kernels.abi import Record
from compiler.kernels.library import library
from compiler.listing import listing
from compiler.top_k import TopK
from specs import PAD

KINDS = {"self_attention", "cross_attention", "feed_forward", "ssru"}
"""The sub-layers that its instructions can say."""


class _State:
    """A handle on the state of some sentences, which all have `beams` rows."""

    def __init__(self, program: Native, handle: int | None, sentences: int) -> None:
        self.program, self.handle, self.sentences, self.beams = program, handle, sentences, 1

    def __del__(self) -> None:
        self.program.library.zoo_free_state(self.handle)


def _numbers(tensor: Tensor) -> Tensor:
    """As the kernels read them: 64 bits each, one after another, in this machine's memory."""
    return tensor.to("cpu", torch.long).contiguous()


def _check(status: int, what: str = "this batch") -> None:
    """Of a call into the kernels, which did not need memory for anything but `what`."""
    match Status(status):
        case Status.DONE:
            return
        case Status.IMPOSSIBLE:
            raise IndexError("a token, a position or a row is none that the model or the state has")
        case Status.TOO_WIDE:
            raise ValueError(f"{what}: it is wider than the kernels' sums can hold")
        case Status.UNKNOWN:
            raise ValueError(f"{what}: it has an instruction that these kernels do not know")
        case Status.NO_MEMORY:
            raise MemoryError(f"the native step has no memory for {what}")


class Native:
    """A program whose search runs in the kernels. What it scores, it scores in the emitted PyTorch.

    A state is changed in place: what was handed to a verb is used up.
    """

    search: Literal["steps"] = "steps"
    backend = "native"
    concurrent = True
    device = torch.device("cpu")

    def __init__(self, order: Order) -> None:
        self.order, self.spec, self.graphs, self.precision = order, order.spec, order.graphs, order.precision
        self.library = library(order.folder)
        self.handle: int | None = None
        self.kept: dict[str, Tensor] = {}  # what the kernels read where it lies
        self.matrices: dict[tuple[bool, tuple[str, ...]], int] = {}
        self.vocabulary = order.spec.vocabulary.sizes[1]
        listed = listing(order.graphs)
        self._pack([i for part in (listed.encode, listed.step) for i in part if i.matrix])
        encode, step = (self._array(part) for part in (listed.encode, listed.step))
        widths = [(ctypes.c_int32 * len(w))(*w) for w in (listed.buffers, listed.memory, listed.cache)]
        sizes = [part for w in widths for part in (w, len(w))]
        opened = ctypes.c_void_p()
        status = self.library.zoo_open(encode, len(encode), step, len(step), *sizes, ctypes.byref(opened))
        _check(status, "this model")
        self.handle = opened.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.zoo_close(self.handle)
        for handle in getattr(self, "matrices", {}).values():
            self.library.zoo_matrix_free(handle)

    # The verbs of a search.

    def encode(self, source: Int[Tensor, "sentences source"]) -> _State:
        """The state before the first step. Rows of any length share a batch without padding."""
        real = source != PAD
        tokens, lengths = _numbers(source[real]), real.sum(1).int().cpu()
        made = ctypes.c_void_p()
        given = (tokens.data_ptr(), lengths.data_ptr(), source.shape[0])
        _check(self.library.zoo_encode(self.handle, *given, ctypes.byref(made)))
        return _State(self, made.value, source.shape[0])

    def decode_step(self, state: _State, token: Int[Tensor, " rows"]) -> tuple[Float[Tensor, "rows V"], _State]:
        """Log-probabilities of the next token after `token`, and the state after it."""
        every = torch.empty(token.shape[0], self.vocabulary)
        self._step(state, token, 1, every=every)
        return every, state

    def top_k(
        self,
        state: _State,
        token: Int[Tensor, " rows"],
        count: int,
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> tuple[TopK, _State]:
        """Of each row the `count` top_k tokens, found while the logits are made, which never exist whole."""
        return self._step(state, token, min(count, self.vocabulary), allowed), state

    def _step(
        self, state: _State, token: Tensor, count: int, allowed: Tensor | None = None, every: Tensor | None = None
    ) -> TopK:
        rows, token = state.sentences * state.beams, _numbers(token)
        if token.shape[0] != rows:
            raise ValueError(f"{token.shape[0]} tokens for {rows} rows")
        bars: tuple[int | None, int] = (None, 0)
        if allowed is not None:
            allowed = allowed.to("cpu", torch.bool).expand(rows, self.vocabulary)
            allowed = allowed if allowed.stride(1) == 1 else allowed.contiguous()
            bars = (allowed.data_ptr(), allowed.stride(0))
        values, tokens = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
        ends = torch.empty(rows)
        pointers: list[int | None] = [t.data_ptr() for t in (values, tokens, ends)]
        pointers.append(None if every is None else every.data_ptr())
        _check(self.library.zoo_step(self.handle, state.handle, token.data_ptr(), count, *pointers, *bars))
        return TopK(values, tokens, ends)

    def select(self, state: _State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> _State:
        """Some of the sentences, and for each row of theirs which row of the sentence it goes on from."""
        sentences, parents = _numbers(sentences), _numbers(parents)
        kept, beams = parents.shape
        _check(self.library.zoo_select(state.handle, sentences.data_ptr(), kept, parents.data_ptr(), beams))
        state.sentences, state.beams = kept, beams
        return state

    def join(self, first: _State, second: _State) -> _State:
        """The sentences of both, which have the same number of beams."""
        if first is second:
            raise ValueError("a state cannot join itself")
        if first.beams != second.beams:
            raise ValueError(f"{first.beams} and {second.beams} beams")
        _check(self.library.zoo_join(first.handle, second.handle))
        first.sentences += second.sentences
        return first

    # What else a program answers.

    @cached_property
    def scorer(self) -> EmittedProgram:
        """The emitted PyTorch on the same weights, made when it is first asked for."""
        if Purpose.SCORE not in self.graphs:
            raise ValueError(f"this program was not built to {Purpose.SCORE}")
        score = {Purpose.SCORE: self.graphs[Purpose.SCORE]}
        return emitted(Order(self.spec, score, self.order.weights, precision=self.precision))

    def score(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]
    ) -> Float[Tensor, "batch target"]:
        """The log-probability of each target token given those before it, in nats, and 0 at padding."""
        return self.scorer.score(source, target)

    def weights(self) -> dict[str, Tensor]:
        """The tensors of a weights file, in its layout."""
        return dict(self.order.weights)

    # Instructions as the kernels read them.

    def _array(self, instructions: tuple[Instruction, ...]) -> Any:
        return (Record * len(instructions))(*map(self._instruction, instructions))

    def _instruction(self, i: Instruction) -> Record:
        record = Record(matrix=self._matrix(i) if i.matrix else None)
        for name, value in vars(i).items():
            if isinstance(value, Place):
                setattr(record, name, value.buffer)
                setattr(record, f"{name}_at", value.column)
            elif isinstance(value, str):
                setattr(record, name, self._tensor(value).data_ptr())
            elif name != "matrix":
                setattr(record, name, value)
        return record

    def _tensor(self, name: str) -> Tensor:
        """Where the kernels read it: in the weights file itself, if it is memory-mapped."""
        if name not in self.kept:
            self.kept[name] = self._made(name).float().contiguous()
        return self.kept[name]

    def _made(self, name: str) -> Tensor:
        graph = next(graph for graph in self.graphs.values() if name in graph.parameters)
        return graph.parameters[name].origin.make(self.order.weights).detach().cpu()

    def _pack(self, products: list[Instruction]) -> None:
        """All matrices, on all cores: the kernels pack without Python's lock."""
        each = {(i.code is Code.LOGITS, i.matrix): i for i in products}
        with ThreadPoolExecutor(cores()) as threads:
            list(threads.map(self._matrix, each.values()))

    def _matrix(self, i: Instruction) -> int:
        """A matrix packed for the kernels with its bias: rows in, columns out; a table of logits lies across."""
        across = i.code is Code.LOGITS
        if (across, i.matrix) not in self.matrices:
            matrix, *others = map(self._made, i.matrix)
            matrix = matrix.contiguous()
            inner, outer = matrix.shape[::-1] if across else matrix.shape
            strides = (1, inner) if across else (outer, 1)
            others = [other.float().contiguous() for other in others]
            if matrix.dtype == torch.int8:
                scales, *others = others
                pack, given = self.library.zoo_matrix_int8, [matrix.data_ptr(), scales.data_ptr()]
            else:
                matrix = matrix.float()
                pack, given = self.library.zoo_matrix, [matrix.data_ptr()]
            packed, bias = ctypes.c_void_p(), others[0].data_ptr() if others else None
            _check(pack(*given, inner, outer, *strides, bias, ctypes.byref(packed)), f"the weights `{i.matrix[0]}`")
            self.matrices[across, i.matrix] = packed.value or 0
        return self.matrices[across, i.matrix]


def _absent() -> str | None:
    return None if cpp_compiler() else "it is compiled on first use: install a C++ compiler (g++ or clang++)"


def _refuses(order: Order) -> str | None:
    if order.device != "cpu":
        return f"it runs on a CPU, not on `{order.device}`"
    if Purpose.TRAIN in order.graphs:
        return "it only translates"
    if order.precision == "bfloat16":
        return "it computes in float32 or int8; for bfloat16 take `eager`"
    if not {Purpose.ENCODE, Purpose.DECODE_STEP} <= order.graphs.keys():
        return "it translates, and nothing else"
    a = order.spec.architecture
    if strange := [each.kind for each in (*a.encoder, *a.decoder) if each.kind not in KINDS]:
        return f"it has no instructions for `{strange[0]}`: take the backend `eager`"
    try:
        listing(order.graphs)
    except Inexpressible as problem:
        return str(problem)
    return None


native = Backend(
    name="native",
    summary="C++ kernels for this processor, compiled on first use, with a worker a core",
    absent=_absent,
    refuses=_refuses,
    build=Native,
)
