"""Fixtures for tests of the compiler: shared artefacts, random weights, and hand-written programs for the kernels."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import Tensor
from torch.nn import functional

from compiler import graphs, runtime
from compiler.backends.native import NativeProgram
from compiler.host import cpp_compiler
from compiler.initialization import initial_weights
from compiler.instruction import ActivationKind, MatrixType, Opcode, Status
from compiler.kernels.library import FLAGS, InstructionStruct, compile_kernels, declare_functions
from compiler.kernels.program import KernelProgram, KernelState, Memory, PackedModel
from specs import Spec

ACTIVATIONS: Mapping[ActivationKind, Callable[[Tensor], Tensor]] = {
    ActivationKind.NONE: torch.clone,
    ActivationKind.RELU: torch.relu,
    ActivationKind.SILU: functional.silu,
    ActivationKind.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    ActivationKind.GELU: functional.gelu,
}
TARGETS = ("native", pytest.param("x86-64-v3", marks=pytest.mark.slow), "x86-64")
"""Processors to compile the kernels for: this one, one with AVX2, and one with SSE2 only.

`test_processors.py` has a quick test of the products with AVX2.
"""


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of pytest-xdist share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def artefacts(shared_folder: Path) -> Path:
    """The folder of compiled artefacts, so that each is compiled once per session."""
    return shared_folder / "artefacts"


def shaken(spec: Spec) -> dict[str, Tensor]:
    """Return initial weights in which no bias is 0 and no gain is 1, so that a test notices if one is left out."""
    generator = torch.Generator().manual_seed(0)
    weights = initial_weights(spec, graphs(spec))
    return {n: t + torch.randn(t.shape, generator=generator) / 3 if t.ndim == 1 else t for n, t in weights.items()}


@pytest.fixture(scope="session", params=TARGETS)
def library(request: pytest.FixtureRequest, shared_folder: Path, kernels: Callable[[Path], None]) -> Any:
    """The kernels, compiled for each target once per session."""
    target = request.param
    if cpp_compiler() is None:
        pytest.skip("no C++ compiler is installed")
    if target != "native" and platform.machine() != "x86_64":
        pytest.skip("this is not an x86-64 processor")
    if target == "x86-64-v3" and not {"avx2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("this processor has no AVX2")
    folder = shared_folder / f"kernels-{target}"
    with FileLock(f"{folder}.lock"):
        if not (folder / "native.so").exists():
            folder.mkdir(exist_ok=True)
            if target == "native":
                kernels(folder)
            else:
                flags = [flag for flag in FLAGS if not flag.startswith(("-O", "-march"))]
                done = compile_kernels(folder / "native.so", [*flags, "-O1", f"-march={target}", "-Wall", "-Werror"])
                assert done.returncode == 0, done.stderr
    return declare_functions(ctypes.CDLL(str(folder / "native.so")))


def attention(query: Tensor, keys: Tensor, values: Tensor, heads: int, scale: float) -> Tensor:
    """Compute attention of rows [n, h·d] in plain torch."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, keys, values))
    return ((q @ k.mT * scale).softmax(-1) @ v).transpose(0, 1).flatten(1)


def reference_product(x: Tensor, w: Tensor, scales: Tensor, type_: MatrixType) -> Tensor:
    """Multiply x by w times scales in torch, rounded as for a matrix of this type. Sums are in float32."""
    if type_ is MatrixType.INT8:
        return runtime.quantised_linear(x, w, scales)
    weights = w.float() * scales
    if type_ is MatrixType.BFLOAT16:
        x, weights = x.bfloat16().float(), weights.bfloat16().float()
    return x @ weights


class HandWrittenProgram(NativeProgram):
    """Program for the kernels whose instructions a test writes. Methods that create a buffer return its number."""

    def __init__(self, library: Any, memory: Sequence[int] = (), cache: Sequence[int] = ()) -> None:
        self.library, self.memory, self.cache = library, memory, cache
        self.tensors: list[Any] = []
        self.widths: list[int] = []
        self.encode: list[Any] = []
        self.step: list[Any] = []
        self.handle: int | None = None
        self.vocabulary = 0

    def buffer(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def add(self, opcode: Opcode, to: list[Any] | None = None, **fields: Any) -> int:
        """Add an instruction to the step, or to `to`. Return its output buffer."""
        i = InstructionStruct(opcode=int(opcode), b=-1, groups=1, scale=fields.pop("scale", 1.0))
        for name, value in fields.items():
            setattr(i, name, self.pointer(value) if isinstance(value, Tensor) else value)
        (self.step if to is None else to).append(i)
        return int(i.out)

    def pointer(self, tensor: Tensor) -> int:
        self.tensors.append(tensor.contiguous())
        return int(self.tensors[-1].data_ptr())

    def embed(self, table: Tensor, to: list[Any] | None = None, **fields: Any) -> int:
        width = table.shape[1]
        return self.add(Opcode.EMBED, to, out=self.buffer(width), width=width, rows=len(table), table=table, **fields)

    def matrix(
        self,
        w: Tensor,
        bias: Tensor | None = None,
        scales: Tensor | None = None,
        type_: MatrixType = MatrixType.FLOAT32,
    ) -> int:
        """Pack a matrix, of 8-bit integers if it has scales. Return its handle."""
        type_ = type_ if scales is None else MatrixType.INT8
        shape = (*w.shape, *w.stride(), self.pointer(bias) if bias is not None else None)
        size = ctypes.c_int64()
        assert self.library.zoo_matrix_bytes(*w.shape, type_, ctypes.byref(size)) == Status.DONE
        memory = Memory(size.value)
        self.tensors.append(memory)
        if scales is None:
            status = self.library.zoo_matrix(w.data_ptr(), *shape, type_, memory.address)
        else:
            status = self.library.zoo_matrix_int8(w.data_ptr(), self.pointer(scales), *shape, memory.address)
        assert status == Status.DONE
        return memory.address

    def weights(self, w: Tensor, scales: Tensor, type_: MatrixType, bias: Tensor | None = None) -> int:
        """Pack w times scales, for an int8 matrix w."""
        if type_ is MatrixType.INT8:
            return self.matrix(w, bias, scales)
        return self.matrix(w.float() * scales, bias, type_=type_)

    def logits(self, a: int, matrix: int, width: int, **fields: Any) -> None:
        self.vocabulary = width
        self.add(Opcode.LOGITS, a=a, matrix=matrix, width=width, **fields)

    def output(self, buffer: int, width: int, column: int = 0) -> None:
        """End the step with logits that are the elements of a buffer, and a 0, so that `run` can recover them."""
        self.logits(buffer, self.matrix(torch.eye(width, width + 1)), width + 1, a_column=column)

    def open(self) -> None:
        """Load the program."""
        widths = {"buffers": self.widths, "memory": self.memory, "cache": self.cache}
        code = {"encode": self.encode, "step": self.step, **widths, "vocabulary": self.vocabulary}
        KernelProgram.__init__(self, self.library, PackedModel(code, Memory(0)))  # NativeProgram's packs a spec's model

    def _instructions(self, part: Sequence[Any]) -> Any:
        return (InstructionStruct * len(part))(*part)

    def start(self, tokens: Tensor, lengths: Sequence[int]) -> KernelState:
        """Run the encoder. Return the state."""
        if not self.handle:
            self.open()
        return self._encode(tokens.numpy(), np.array(lengths, np.int32))

    def next(
        self, state: KernelState, tokens: Tensor, count: int = 1, with_all: bool = True, allowed: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Run a step that reads tokens [rows] or [rows, k]. Return the results in one row for each token.

        They are the values and IDs of the top tokens, EOS's value, and all log-probabilities.
        """
        rows = tokens.flatten().numpy()
        everything = torch.empty(len(rows), self.vocabulary)
        mask = (None, 0) if allowed is None else (allowed.data_ptr(), allowed.stride(0))
        log_probabilities = everything.numpy() if with_all else None
        best = self._step(state, rows, len(rows) // len(tokens), count, mask, log_probabilities)
        return *map(torch.from_numpy, best), everything

    def run(self, state: KernelState, tokens: Tensor) -> Tensor:
        """Run a step. Return the elements that `output` chose."""
        log_probabilities = self.next(state, tokens)[3]
        return log_probabilities[:, :-1] - log_probabilities[:, -1:]

    def run_once(self, rows: int) -> Tensor:
        """Run one step in which row i reads token i."""
        tokens = torch.arange(rows)
        return self.run(self.start(tokens, [1] * rows), tokens)

    def first_step(self, rows: int, count: int, **options: Any) -> tuple[Tensor, ...]:
        """Run `next` once, with row i reading token i."""
        tokens = torch.arange(rows)
        return self.next(self.start(tokens, [1] * rows), tokens, count, **options)


@pytest.fixture
def new_program(library: Any) -> Callable[..., HandWrittenProgram]:
    """Return an empty hand-written program."""
    return partial(HandWrittenProgram, library)
