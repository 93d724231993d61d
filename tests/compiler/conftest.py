"""Fixtures for tests of the compiler: shared artefacts, random weights, and hand-written programs for the kernels."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
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

from compiler import TRANSLATE, Purpose, graphs
from compiler.assemble import initial_weights
from compiler.backends import BuildRequest
from compiler.backends.native import NativeProgram
from compiler.host import cpp_compiler
from compiler.instruction import ActivationKind, MatrixType, Opcode, Status
from compiler.kernels.library import FLAGS, InstructionStruct, compile_kernels, declare_functions
from compiler.kernels.program import KernelProgram, KernelState, Memory, PackedModel
from compiler.runtime import layers
from specs import Spec

ACTIVATIONS: Mapping[ActivationKind, Callable[[Tensor], Tensor]] = {
    ActivationKind.NONE: torch.clone,
    ActivationKind.RELU: torch.relu,
    ActivationKind.SILU: functional.silu,
    ActivationKind.GELU_TANH: partial(functional.gelu, approximate="tanh"),
    ActivationKind.GELU: functional.gelu,
}
DEFAULTS = {"b": -1, "groups": 1, "scale": 1.0}
"""The fields of an instruction that are not 0 by default."""
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
    generator, weights = torch.Generator().manual_seed(0), initial_weights(spec, graphs(spec))
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


def requested(
    spec: Spec, purposes: Sequence[Purpose] = TRANSLATE, device: str = "cpu", precision: str = "float32"
) -> BuildRequest:
    """Return a request to build a spec with initial weights."""
    optimised = graphs(spec, purposes, device, precision)
    return BuildRequest(spec, optimised, initial_weights(spec, optimised), device, precision)


def run_python(code: str, **environment: str) -> str:
    """Run code in a new Python process. Return its output."""
    command, env, root = [sys.executable, "-c", code], os.environ | environment, Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def attention(query: Tensor, keys: Tensor, values: Tensor, heads: int, scale: float) -> Tensor:
    """Compute attention of rows [n, h·d] in plain torch."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, keys, values))
    return ((q @ k.mT * scale).softmax(-1) @ v).transpose(0, 1).flatten(1)


def reference_product(x: Tensor, w: Tensor, scales: Tensor, type_: MatrixType) -> Tensor:
    """Multiply x by w times scales in torch, rounded as for a matrix of this type. Sums are in float32."""
    if type_ is MatrixType.INT8:
        return layers.quantised_linear(x, w, scales)
    weights = w.float() * scales
    if type_ is MatrixType.BFLOAT16:
        x, weights = x.bfloat16().float(), weights.bfloat16().float()
    return x @ weights


class HandWrittenProgram(NativeProgram):
    """Program for the kernels whose instructions a test writes. Methods that create a buffer return its number."""

    def __init__(self, library: Any, memory: Sequence[int] = (), cache: Sequence[int] = ()) -> None:
        self.library, self.memory, self.cache = library, memory, cache
        self.tensors: list[Any] = []
        self.encode: list[Any] = []
        self.step: list[Any] = []
        self.widths: list[int] = []
        self.handle: int | None = None
        self.vocabulary = 0

    def buffer(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def add(self, opcode: Opcode, to: list[Any] | None = None, **fields: Any) -> int:
        """Add an instruction to the step, or to `to`. Return its output buffer."""
        given = {name: self.pointer(value) if isinstance(value, Tensor) else value for name, value in fields.items()}
        (self.step if to is None else to).append(InstructionStruct(**{**DEFAULTS, "opcode": opcode, **given}))
        return int(given.get("out", -1))

    def pointer(self, tensor: Tensor) -> int:
        self.tensors.append(tensor.contiguous())
        return int(self.tensors[-1].data_ptr())

    def embed(self, table: Tensor, to: list[Any] | None = None, **fields: Any) -> int:
        width = table.shape[1]
        return self.add(Opcode.EMBED, to, out=self.buffer(width), width=width, rows=len(table), table=table, **fields)

    def matrix(
        self, w: Tensor, scales: Tensor | None = None, type_: int = MatrixType.FLOAT32, bias: Tensor | None = None
    ) -> int:
        """Pack w, times the scales of its columns. Return its handle."""
        if scales is not None and type_ != MatrixType.INT8:
            w = w.float() * scales
        shape, size = (*w.shape, *w.stride(), None if bias is None else self.pointer(bias)), ctypes.c_int64()
        assert self.library.zoo_matrix_bytes(*w.shape, type_, ctypes.byref(size)) == Status.DONE
        memory = Memory(size.value)
        self.tensors.append(memory)
        if type_ == MatrixType.INT8:
            assert scales is not None
            status = self.library.zoo_matrix_int8(w.data_ptr(), self.pointer(scales), *shape, memory.address)
        else:
            status = self.library.zoo_matrix(w.data_ptr(), *shape, type_, memory.address)
        assert status == Status.DONE
        return memory.address

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
        best = self._step(state, rows, len(rows) // len(tokens), count, mask, everything.numpy() if with_all else None)
        return *map(torch.from_numpy, best), everything

    def run(self, state: KernelState, tokens: Tensor) -> Tensor:
        """Run a step. Return the elements that `output` chose."""
        log_probabilities = self.next(state, tokens)[3]
        return log_probabilities[:, :-1] - log_probabilities[:, -1:]

    def run_once(self, rows: int) -> Tensor:
        """Run one step in which row i reads token i."""
        tokens = torch.arange(rows)
        return self.run(self.start(tokens, [1] * rows), tokens)

    def apply(self, opcode: Opcode, x: Tensor, width: int, **fields: Any) -> Tensor:
        """Apply one instruction to the rows of x. Return the result."""
        self.output(self.add(opcode, a=self.embed(x), out=self.buffer(width), width=width, **fields), width)
        return self.run_once(len(x))

    def top(self, x: Tensor, matrix: int, width: int, count: int) -> tuple[Tensor, ...]:
        """Run one step that computes logits from the rows of x. Return the results of `next`."""
        self.logits(self.embed(x), matrix, width)
        tokens = torch.arange(len(x))
        return self.next(self.start(tokens, [1] * len(x)), tokens, count)


def attending_program(new: Callable[..., Any], tables: Sequence[Tensor], heads: int) -> HandWrittenProgram:
    """Return a program whose queries, keys and values are rows of three tables, and whose scores have the scale 0.3.

    A step writes the attention of the encoder at the token of the step, which it finds by an attention whose only match
    is this token; its own attention over the source; its attention over the past; and an SSRU of queries and keys.
    """
    ids, (_, k, v) = len(tables[0]), [table.shape[1] for table in tables]
    program: HandWrittenProgram = new(memory=[ids, v, k, v], cache=[k, v, k])
    size = {"heads": heads, "key_width": k // heads, "value_width": v // heads, "scale": 0.3, "width": v}
    lookup = {"heads": 1, "key_width": ids, "value_width": v, "width": v}
    a, b, c = (program.embed(table, program.encode) for table in tables)
    own, one_hot = program.buffer(v), program.embed(torch.eye(ids), program.encode)
    program.add(Opcode.ATTEND_SOURCE, program.encode, a=a, b=b, c=c, out=own, **size)
    arrays = ((one_hot, ids, 1, 1), (own, v, 1, 0), (b, k, heads, 1), (c, v, heads, 0))
    for array, (buffer, width, parts, keys) in enumerate(arrays):
        program.add(Opcode.STORE_MEMORY, program.encode, out=array, a=buffer, width=width, heads=parts, keys=keys)
    out, (query, key, value) = program.buffer(3 * v + k), map(program.embed, tables)
    program.add(Opcode.ATTEND_MEMORY, a=program.embed(torch.eye(ids) * 1000), b=0, c=1, out=out, **lookup)
    program.add(Opcode.ATTEND_MEMORY, a=query, b=2, c=3, out=out, out_column=v, **size)
    program.add(Opcode.APPEND_CACHE, a=key, out=0, width=k)
    program.add(Opcode.APPEND_CACHE, a=value, out=1, width=v)
    program.add(Opcode.ATTEND_CACHE, a=query, b=0, c=1, out=out, out_column=2 * v, **size)
    program.add(Opcode.SSRU_STEP, a=query, b=key, c=2, out=out, out_column=3 * v, width=k)
    program.output(out, 3 * v + k)
    return program


@pytest.fixture
def new_program(library: Any) -> Callable[..., HandWrittenProgram]:
    """Return an empty hand-written program."""
    return partial(HandWrittenProgram, library)
