"""The backend `native`: C++ kernels compiled for this processor, with the fastest decoder step on a CPU.

The kernels are compiled once with the host's C++ compiler and run all models. For them, a model is a list of
instructions with packed weights. A call runs on the calling thread, so several threads can share one program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int, Int64
from torch import Tensor

from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.eager import build_eager
from compiler.emitted import EmittedProgram
from compiler.graph import Purpose
from compiler.host import cores, cpp_compiler
from compiler.instruction import Instruction, Opcode, Operand, Status, StopReason, UnsupportedGraph
from compiler.kernels.library import InstructionStruct, load_kernels
from compiler.native_codegen import generate_native_code
from compiler.program import BeamOptions, BeamResult, TopK
from compiler.stream import Stream


class _State:
    """Handle of a decoder state in the kernels.

    Every sentence has the same number of rows, `beams`. It is 0 in a search, because the numbers may differ then.
    """

    def __init__(self, program: NativeProgram, handle: int | None, sentences: int) -> None:
        self.program, self.handle, self.sentences, self.beams = program, handle, sentences, 1

    def __del__(self) -> None:
        self.program.library.zoo_free_state(self.handle)


class NativeProgram:
    """Program that encodes and decodes with the kernels. Only `score` runs emitted PyTorch code.

    Methods change states in place. A state is invalid after it was passed to a method.
    """

    backend = "native"
    concurrent = True
    device = torch.device("cpu")

    def __init__(self, request: BuildRequest) -> None:
        """Compile and load the kernels, generate the instructions and pack the weights."""
        self.request, self.spec, self.graphs = request, request.spec, request.graphs
        self.precision = request.precision
        self.library = load_kernels(request.folder)
        self.handle: int | None = None
        self.tensors: dict[str, Tensor] = {}
        """Parameters and constants that the kernels read without packing. They must not be freed."""
        self.matrices: dict[tuple[bool, tuple[str, ...]], int] = {}
        """Handles of the packed matrices, by whether they are transposed, and their parameters."""
        self.vocabulary = request.spec.vocabulary.sizes[1]
        code = generate_native_code(request.graphs)
        self._pack_matrices([i for part in (code.encode, code.step) for i in part if i.matrix])
        encode, step = (self._instruction_array(part) for part in (code.encode, code.step))
        lengths = [(ctypes.c_int32 * len(w))(*w) for w in (code.buffers, code.memory, code.cache)]
        arrays = [argument for array in lengths for argument in (array, len(array))]
        handle = ctypes.c_void_p()
        status = self.library.zoo_open(encode, len(encode), step, len(step), *arrays, ctypes.byref(handle))
        _raise_for(status, "this model")
        self.handle = handle.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.zoo_close(self.handle)
        for handle in getattr(self, "matrices", {}).values():
            self.library.zoo_matrix_free(handle)

    def encode(self, source: Stream) -> _State:
        """Encode sources that end with EOS. Return the state before the first step. Padding is skipped."""
        sentences, length = source.values.shape
        is_token = torch.arange(length) < source.lengths[:, None]
        tokens, lengths = _as_int64(source.values[is_token]), source.lengths.int()
        handle = ctypes.c_void_p()
        arguments = (tokens.data_ptr(), lengths.data_ptr(), sentences)
        _raise_for(self.library.zoo_encode(self.handle, *arguments, ctypes.byref(handle)))
        return _State(self, handle.value, sentences)

    def restrict(self, state: _State, tokens: Sequence[Int64[np.ndarray, " listed"]]) -> _State:
        """Return the state whose sentences choose their tokens from lists (see `ShortlistDecoder.restrict`)."""
        counts, listed = np.array([len(each) for each in tokens]), np.concatenate(tokens)
        pointers = (each.astype(np.int64, copy=False).ctypes.data for each in (listed, counts))
        _raise_for(self.library.zoo_restrict(self.handle, state.handle, *pointers))
        return state

    def advance(self, state: _State, tokens: Int[Tensor, "rows k"]) -> tuple[Float[Tensor, "rows k V"], _State]:
        """Read `tokens`. Return the log-probabilities of the token after each, and the next state.

        See `StepwiseDecoder.advance`.
        """
        log_probabilities = torch.empty(*tokens.shape, self.vocabulary)
        self._step(state, tokens, 1, log_probabilities=log_probabilities)
        return log_probabilities, state

    def top_k(
        self,
        state: _State,
        tokens: Int[Tensor, "rows k"],
        count: int,
        allowed: Bool[Tensor, "#rows·k V"] | None = None,
    ) -> tuple[TopK, _State]:
        """Read `tokens`. Return the best `count` allowed tokens after each, and the next state.

        See `StepwiseDecoder.top_k`. The logits are computed and searched block by block, so that they are never all in
        memory at once.
        """
        return self._step(state, tokens, min(count, self.vocabulary), allowed), state

    def rewind(self, state: _State, counts: Int[Tensor, " rows"]) -> _State:
        """Return the state without the last `counts[i]` tokens of each row i. All tokens can be taken back."""
        counts = _as_int64(counts)
        _check_rows(state, counts, "counts")
        _raise_for(self.library.zoo_rewind(state.handle, counts.data_ptr()))
        return state

    def _step(
        self,
        state: _State,
        tokens: Tensor,
        count: int,
        allowed: Tensor | None = None,
        log_probabilities: Tensor | None = None,
    ) -> TopK:
        tokens = _as_int64(tokens)
        _check_rows(state, tokens, "rows of tokens")
        k, rows = tokens.shape[1], tokens.numel()
        mask: tuple[int | None, int] = (None, 0)
        if allowed is not None:
            allowed = allowed.to("cpu", torch.bool).expand(rows, self.vocabulary)
            allowed = allowed if allowed.stride(1) == 1 else allowed.contiguous()
            mask = (allowed.data_ptr(), allowed.stride(0))
        values, best = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
        ends = torch.empty(rows)
        outputs: list[int | None] = [tensor.data_ptr() for tensor in (values, best, ends)]
        outputs.append(None if log_probabilities is None else log_probabilities.data_ptr())
        _raise_for(self.library.zoo_step(self.handle, state.handle, tokens.data_ptr(), k, count, *outputs, *mask))
        return TopK(values, best, ends)

    def select(self, state: _State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> _State:
        """Return the state of the sentences to keep. Its rows continue old rows (see `StepwiseDecoder.select`)."""
        sentences, parents = _as_int64(sentences), _as_int64(parents)
        kept, beams = parents.shape
        _raise_for(self.library.zoo_select(state.handle, sentences.data_ptr(), kept, parents.data_ptr(), beams))
        state.sentences, state.beams = kept, beams
        return state

    def join(self, first: _State, second: _State) -> _State:
        """Return one state with the sentences of two states. Both states must have the same number of beams."""
        if first is second:
            raise ValueError("a state cannot be joined with itself")
        if first.beams != second.beams:
            raise ValueError(f"cannot join a state with {first.beams} beams and one with {second.beams}")
        _raise_for(self.library.zoo_join(first.handle, second.handle))
        first.sentences += second.sentences
        return first

    def start_search(
        self,
        state: _State,
        options: Sequence[BeamOptions],
        totals: Float32[Tensor, " sentences"],
        penalties: Sequence[Sequence[float]],
    ) -> _State:
        """Return the state for `search` (see `SearchingDecoder.start_search`)."""
        _check_rows(state, totals, "totals")
        longest = max(each.max_length for each in options) + 2
        table = torch.zeros(len(options), longest, dtype=torch.double)
        for row, each, values in zip(table, options, penalties, strict=True):
            row[: each.max_length + 2] = torch.tensor(values[: each.max_length + 2], dtype=torch.double)
        fields, totals = torch.tensor(options), totals.float().contiguous()
        pointers = (fields.data_ptr(), totals.data_ptr(), table.data_ptr())
        _raise_for(self.library.zoo_start_search(state.handle, *pointers, longest))
        state.beams = 0
        return state

    def search(
        self, state: _State, microseconds: int, allowed: Bool[Tensor, "2 V"] | None
    ) -> tuple[list[BeamResult], _State]:
        """Run steps until a sentence is done (see `SearchingDecoder.search`)."""
        if allowed is not None:
            allowed = allowed.to("cpu", torch.bool).expand(2, self.vocabulary).contiguous()
        mask = None if allowed is None else allowed.data_ptr()
        numbers, count, scores = ctypes.c_void_p(), ctypes.c_int64(), ctypes.c_void_p()
        outputs = (ctypes.byref(each) for each in (numbers, count, scores))
        arguments = (self.handle, state.handle, microseconds, mask, self.vocabulary)
        _raise_for(self.library.zoo_search(*arguments, *outputs))
        if not count.value:
            return [], state
        results = _read_results(numbers.value or 0, count.value, scores.value or 0)
        state.sentences -= len(results)
        return results, state

    def keep(self, state: _State, sentences: Int[Tensor, " kept"]) -> _State:
        """Return the state of some of the sentences, whose indices are ascending."""
        sentences = _as_int64(sentences)
        _raise_for(self.library.zoo_keep(state.handle, sentences.data_ptr(), len(sentences)))
        state.sentences = len(sentences)
        return state

    @cached_property
    def scorer(self) -> EmittedProgram:
        """The emitted PyTorch program that computes `score`, with the same weights. It is built on first use."""
        if Purpose.SCORE not in self.graphs:
            raise ValueError(f"this program was not built for the purpose `{Purpose.SCORE}`: add it to the build")
        score = {Purpose.SCORE: self.graphs[Purpose.SCORE]}
        return build_eager(BuildRequest(self.spec, score, self.request.weights, precision=self.precision))

    def score(self, source: Stream, target: Int[Tensor, "batch target+1"]) -> Float[Tensor, "batch target"]:
        """Return the log-probability of each token in target[:, 1:], given the tokens before it.

        Unit: nats. The value is 0 at PAD.
        """
        return self.scorer.score(source, target)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights in the layout of a weights file."""
        return dict(self.request.weights)

    def _instruction_array(self, instructions: tuple[Instruction, ...]) -> Any:
        return (InstructionStruct * len(instructions))(*map(self._instruction_struct, instructions))

    def _instruction_struct(self, i: Instruction) -> InstructionStruct:
        """Convert an instruction to the kernels' struct, with pointers in place of parameter names."""
        struct = InstructionStruct(matrix=self._packed_matrix(i) if i.matrix else None)
        for name, value in vars(i).items():
            if isinstance(value, Operand):
                setattr(struct, name, value.buffer)
                setattr(struct, f"{name}_column", value.column)
            elif isinstance(value, str):
                setattr(struct, name, self._unpacked_tensor(value).data_ptr())
            elif name == "constants":
                struct.constants = self._constant_tensor(value).data_ptr() if value else None
            elif name != "matrix":
                setattr(struct, name, value)
        return struct

    def _unpacked_tensor(self, name: str) -> Tensor:
        """Return a parameter in the layout that the kernels read: contiguous and in float32."""
        if name not in self.tensors:
            self.tensors[name] = self._parameter(name).float().contiguous()
        return self.tensors[name]

    def _constant_tensor(self, values: tuple[float, ...]) -> Tensor:
        name = f"constants {values}"  # not the name of a parameter
        return self.tensors.setdefault(name, torch.tensor(values))

    def _parameter(self, name: str) -> Tensor:
        graph = next(graph for graph in self.graphs.values() if name in graph.parameters)
        return graph.parameters[name].origin.make(self.request.weights).detach().cpu()

    def _pack_matrices(self, instructions: list[Instruction]) -> None:
        """Pack all matrices, in parallel: the kernels release the GIL while they pack."""
        unique = {(i.opcode is Opcode.LOGITS, i.matrix): i for i in instructions}
        with ThreadPoolExecutor(cores()) as threads:
            list(threads.map(self._packed_matrix, unique.values()))

    def _packed_matrix(self, i: Instruction) -> int:
        """Return the handle of an instruction's matrix, packed with its scales and bias. Pack it on first use.

        Matrices are [in, out], except for the table of LOGITS, which is [out, in].
        """
        is_transposed = i.opcode is Opcode.LOGITS
        if (is_transposed, i.matrix) not in self.matrices:
            matrix, *others = map(self._parameter, i.matrix)
            matrix = matrix.contiguous()
            inner, outer = matrix.shape[::-1] if is_transposed else matrix.shape
            strides = (1, inner) if is_transposed else (outer, 1)
            others = [other.float().contiguous() for other in others]
            if matrix.dtype == torch.int8:
                scales, *others = others
                pack, pointers = self.library.zoo_matrix_int8, [matrix.data_ptr(), scales.data_ptr()]
            else:
                matrix = matrix.float()
                pack, pointers = self.library.zoo_matrix, [matrix.data_ptr()]
            handle, bias = ctypes.c_void_p(), others[0].data_ptr() if others else None
            status = pack(*pointers, inner, outer, *strides, bias, ctypes.byref(handle))
            _raise_for(status, f"the weights `{i.matrix[0]}`")
            self.matrices[is_transposed, i.matrix] = handle.value or 0
        return self.matrices[is_transposed, i.matrix]


def _read_results(numbers_address: int, count: int, scores_address: int) -> list[BeamResult]:
    """Read the struct `SearchResults` of the kernels."""
    numbers = iter((ctypes.c_int64 * count).from_address(numbers_address))
    results: list[BeamResult] = []
    for sentence in numbers:
        reason, hypotheses = StopReason(next(numbers)).name.lower(), next(numbers)
        scores = iter((ctypes.c_double * (2 * hypotheses)).from_address(scores_address))
        scores_address += 16 * hypotheses
        found = []
        for score, total in zip(scores, scores, strict=True):
            tokens = [next(numbers) for _ in range(next(numbers))]
            found.append((tokens, total, score))
        results.append(BeamResult(sentence, reason, found))
    return results


def _as_int64(tensor: Tensor) -> Tensor:
    """Return the tensor as a contiguous int64 tensor on the CPU, the layout that the kernels read."""
    return tensor.to("cpu", torch.long).contiguous()


def _check_rows(state: _State, tensor: Tensor, name: str) -> None:
    """Raise ValueError unless a tensor has as many rows as the state. `name` describes the tensor in the message."""
    rows = state.sentences * state.beams
    if tensor.shape[0] != rows:
        raise ValueError(f"got {tensor.shape[0]} {name} for a state with {rows} rows: pass one for each row")


_ERRORS: Mapping[int, tuple[type[Exception], str]] = {
    Status.NO_MEMORY: (MemoryError, "not enough memory in the native kernels"),
    Status.OUT_OF_RANGE: (IndexError, "a token, position, row or sentence does not exist in the model or the state"),
    Status.TOO_LARGE: (ValueError, "a matrix is too large for exact sums in the native kernels"),
    Status.UNKNOWN: (ValueError, "the native kernels do not implement one of the instructions"),
}


def _raise_for(status: int, subject: str = "this batch") -> None:
    """Raise an exception if a call into the kernels has failed.

    Args:
        status: The status that the call returned.
        subject: What the call processed, for the message.
    """
    if status != Status.DONE:
        error, problem = _ERRORS[status]
        raise error(f"{subject}: {problem}")


def _unavailable_reason() -> str | None:
    return None if cpp_compiler() else "its kernels need a C++ compiler on first use: install g++ or clang++"


def _refuse(request: BuildRequest) -> str | None:
    try:
        generate_native_code(request.graphs)
    except UnsupportedGraph as problem:
        return str(problem)
    return None


native = Backend(
    name="native",
    summary="C++ kernels for this processor, compiled on first use, with one worker per core",
    unavailable_reason=_unavailable_reason,
    build=NativeProgram,
    device="cpu",
    precisions=("float32", "int8"),
    refuse=_refuse,
)
