"""The `native` backend: C++ kernels compiled for this processor, with the fastest decoder steps on a CPU.

The kernels are compiled once with the host's C++ compiler and run all models. For the kernels, a model is a list of
instructions with packed weights. A call runs on the calling thread, so several threads can share one program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.eager import build_eager
from compiler.emitted import EmittedProgram
from compiler.graph import Graphs, Purpose
from compiler.host import cores, cpp_compiler
from compiler.instruction import Instruction, MatrixType, Opcode, refusal
from compiler.kernels.library import load_kernels
from compiler.kernels.program import ALIGNMENT, KernelProgram, KernelState, Memory, PackedModel, raise_for
from compiler.padded_batch import PaddedBatch
from compiler.program import TopK


class NativeProgram(KernelProgram):
    """Compiled model that encodes and decodes with our C++ kernels. Only `score` runs emitted PyTorch code.

    Methods change decoder states in place. A state is invalid after it has been passed to a method.
    """

    device = torch.device("cpu")

    def __init__(self, request: BuildRequest) -> None:
        """Compile and load the kernels, and pack the weights if the request contains no packed weights."""
        self.request, self.spec, self.graphs = request, request.spec, request.graphs
        self.precision = request.precision
        library = load_kernels(request.folder)
        super().__init__(library, request.packed or _Packer(request, library).pack())

    def encode(self, source: PaddedBatch) -> KernelState:
        """Encode sources that end with EOS. Return the state before the first decoder step. Padding is skipped."""
        is_token = torch.arange(source.values.shape[1]) < source.lengths[:, None]
        return self._encode(_as_int64(source.values[is_token]), source.lengths.int().numpy())

    def advance(
        self, state: KernelState, tokens: Int[Tensor, "rows k"]
    ) -> tuple[Float[Tensor, "rows k V"], KernelState]:
        """Read `tokens`. Return the log-probabilities of the next token after each token, and the next state.

        See `StepwiseDecoder.advance`.
        """
        log_probabilities = torch.empty(*tokens.shape, self.vocabulary)
        rows = log_probabilities.view(-1, self.vocabulary).numpy()
        self._step(state, _as_int64(tokens.flatten()), tokens.shape[1], 1, log_probabilities=rows)
        return log_probabilities, state

    def top_k(
        self,
        state: KernelState,
        tokens: Int[Tensor, "rows k"],
        count: int,
        allowed: Bool[Tensor, "#rows·k V"] | None = None,
    ) -> tuple[TopK, KernelState]:
        """Read `tokens`. Return the `count` most probable allowed tokens after each token, and the next state.

        See `StepwiseDecoder.top_k`. The logits are computed and searched block by block, so that they are never all in
        memory at once.
        """
        rows, k = tokens.numel(), tokens.shape[1]
        mask: tuple[int | None, int] = (None, 0)
        if allowed is not None:
            allowed = allowed.to("cpu", torch.bool).expand(rows, self.vocabulary)
            allowed = allowed if allowed.stride(1) == 1 else allowed.contiguous()
            mask = (allowed.data_ptr(), allowed.stride(0))
        best = self._step(state, _as_int64(tokens.flatten()), k, min(count, self.vocabulary), mask)
        return TopK(*map(torch.from_numpy, best)), state

    def select(
        self, state: KernelState, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]
    ) -> KernelState:
        """Return the state with only the given sentences. `parents` selects and reorders their hypotheses.

        See `StepwiseDecoder.select`.
        """
        kept, beams = parents.shape
        arrays = (_as_int64(sentences), _as_int64(parents))
        raise_for(self.library.zoo_select(state.handle, arrays[0].ctypes.data, kept, arrays[1].ctypes.data, beams))
        state.sentences, state.beams = kept, beams
        return state

    @cached_property
    def scorer(self) -> EmittedProgram:
        """Model that computes `score` with emitted PyTorch code and the same weights. It is built on first use."""
        score: Graphs = {purpose: graph for purpose, graph in self.graphs.items() if purpose is Purpose.SCORE}
        return build_eager(replace(self.request, graphs=score))

    def score(self, source: PaddedBatch | None, target: Int[Tensor, "batch target+1"]) -> Float[Tensor, "batch target"]:
        """Return the log-probability, in nats, of each token in target[:, 1:], given the tokens before it.

        The value is 0 at PAD.
        """
        return self.scorer.score(source, target)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights in the layout of a weights file."""
        return dict(self.request.weights)


class _Packer:
    """Packer that places all weights of a model in one memory block, in the kernels' layout."""

    def __init__(self, request: BuildRequest, library: Any) -> None:
        self._request, self._library = request, library
        self._parameters = {name: p for graph in request.graphs.values() for name, p in graph.parameters.items()}
        self._size = 0
        self._offsets: dict[object, int] = {}
        self._writers: list[tuple[int, Callable[[int], None]]] = []
        """For each tensor, its offset and the function that writes it to an address."""

    def pack(self) -> PackedModel:
        """Generate the instructions, and pack the weights. The kernels release the GIL, so threads pack in parallel."""
        code = self._request.native_code
        parts = {"encode": [*map(self._fields, code.encode)], "step": [*map(self._fields, code.step)]}
        memory = Memory(self._size)
        with ThreadPoolExecutor(cores()) as threads:
            list(threads.map(lambda writer: writer[1](memory.address + writer[0]), self._writers))
        return PackedModel({**vars(code), **parts}, memory)

    def _fields(self, i: Instruction) -> dict[str, Any]:
        """Return the fields of the C struct for an instruction. Offsets of weights replace the names of parameters."""
        operands, constants = {"out": i.out, "a": i.a, "b": i.b, "c": i.c}, i.constants
        return {
            **vars(i),
            **{name: operand.buffer for name, operand in operands.items()},
            **{f"{name}_column": operand.column for name, operand in operands.items()},
            "constants": self._place_tensor(constants, partial(torch.tensor, constants), len(constants)),
            "table": self._place_parameter(i.table),
            "gain": self._place_parameter(i.gain),
            "bias": self._place_parameter(i.bias),
            "matrix": self._place_matrix(i) if i.matrix else None,
        }

    def _place(self, key: object, size: int, write: Callable[[int], None]) -> int:
        """Return the offset of a tensor in the packed weights.

        The first call with a key reserves `size` bytes. Later, `pack` calls `write` with the address of these bytes.
        """
        if key not in self._offsets:
            self._offsets[key] = self._size
            self._writers.append((self._size, write))
            self._size += -(-size // ALIGNMENT) * ALIGNMENT
        return self._offsets[key]

    def _place_parameter(self, name: str | None) -> int | None:
        if name is None:
            return None
        return self._place_tensor(name, partial(self._parameter, name), self._parameters[name].count)

    def _place_tensor(self, key: object, make: Callable[[], Tensor], count: int) -> int | None:
        """Return the offset of a float32 tensor in the packed weights, or None if it has no elements.

        Args:
            key: Identifies the tensor. A tensor is packed only once per key.
            make: Function that returns the tensor.
            count: Number of elements in the tensor.
        """

        def write(address: int) -> None:
            tensor = make().float().contiguous()
            ctypes.memmove(address, tensor.data_ptr(), tensor.nbytes)

        return self._place(key, 4 * count, write) if count else None

    def _parameter(self, name: str) -> Tensor:
        return self._parameters[name].origin.make(self._request.weights).detach().cpu()

    def _place_matrix(self, i: Instruction) -> int:
        """Pack an instruction's matrix with its scales and bias. Return the offset of the result in the packed weights.

        Matrices are [in, out], except for the matrix that computes the logits, which is [out, in].
        """
        is_transposed, parameter = i.opcode is Opcode.LOGITS, self._parameters[i.matrix[0]]
        outer, inner = parameter.origin.shape if is_transposed else parameter.origin.shape[::-1]
        strides = (1, inner) if is_transposed else (outer, 1)
        type_, size = MatrixType[parameter.type.upper()], ctypes.c_int64()
        status = self._library.zoo_matrix_bytes(inner, outer, type_, ctypes.byref(size))
        raise_for(status, f"the weights `{parameter.name}`")

        def write(address: int) -> None:
            matrix, *others = map(self._parameter, i.matrix)
            vectors, is_int8 = [other.float().contiguous() for other in others], type_ is MatrixType.INT8
            matrix = (matrix if is_int8 else matrix.float()).contiguous()
            bias = vectors[-1].data_ptr() if len(vectors) > is_int8 else None
            shape = (inner, outer, *strides, bias)
            if is_int8:
                status = self._library.zoo_matrix_int8(matrix.data_ptr(), vectors[0].data_ptr(), *shape, address)
            else:
                status = self._library.zoo_matrix(matrix.data_ptr(), *shape, type_, address)
            raise_for(status, f"the weights `{parameter.name}`")

        return self._place((is_transposed, i.matrix), size.value, write)


def _as_int64(tensor: Tensor) -> Int64[np.ndarray, ...]:
    """Convert a tensor to a contiguous int64 array, as the kernels require."""
    return tensor.to("cpu", torch.long).contiguous().numpy()


def _refuse(request: BuildRequest) -> str | None:
    problem = refusal(lambda: request.native_code)
    return problem and f"{problem}: use the `eager` backend"


native = Backend(
    name="native",
    summary="C++ kernels for this processor, compiled on first use, with one worker per core",
    unavailable_reason=lambda: None if cpp_compiler() else "its kernels need a C++ compiler: install g++ or clang++",
    build=NativeProgram,
    device="cpu",
    refuse=_refuse,
)
