"""The kernels of the native backend for every kind of processor that this one can be, and programs by hand for them."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from compiler import graphs
from compiler.host import cpp_compiler
from compiler.initial import initial_weights
from compiler.instruction import Opcode, Status
from compiler.kernels.abi import Record, declared
from compiler.kernels.library import FLAGS as USUAL
from compiler.kernels.library import compile_kernels
from specs import Spec

FLAGS = {
    "native": ("-O3", "-march=native"),
    "x86-64-v3": ("-O1", "-march=x86-64-v3"),
    "x86-64": ("-O1", "-march=x86-64"),
}


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests keep what takes a backend long to compile, so that it is compiled for one of them."""
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture
def shaken() -> Callable[[Spec], dict[str, Tensor]]:
    """Weights of before training, but that no bias is 0 and no gain 1: one that is left out is seen."""

    def make(spec: Spec) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(0)
        weights = initial_weights(spec, graphs(spec))
        return {n: t + torch.randn(t.shape, generator=generator) / 3 if t.ndim == 1 else t for n, t in weights.items()}

    return make


@pytest.fixture(scope="session", params=FLAGS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tmp_path_factory.mktemp("kernels") / "native.so"
    if cpp_compiler() is None:
        pytest.skip("there is no C++ compiler")
    if request.param != "native" and platform.machine() != "x86_64":
        pytest.skip("this processor is not an x86-64")
    if request.param == "x86-64-v3" and not {"avx2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("this processor has no AVX2")
    others = [flag for flag in USUAL if not flag.startswith(("-O", "-march"))]
    done = compile_kernels(made, [*others, *FLAGS[request.param], "-Wall", "-Werror"])
    assert done.returncode == 0, done.stderr
    return declared(ctypes.CDLL(str(made)))


class Machine:
    """A program that is written by hand. Each method that adds a buffer returns its number."""

    def __init__(self, library: Any, memory: Sequence[int] = (), cache: Sequence[int] = ()) -> None:
        self.library, self.memory, self.cache = library, memory, cache
        self.kept: list[Any] = []
        self.widths: list[int] = []
        self.encode: list[Any] = []
        self.step: list[Any] = []
        self.program: int | None = None
        self.vocabulary = 0

    def buffer(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def add(self, code: Opcode, to: list[Any] | None = None, **fields: Any) -> int:
        i = Record(code=int(code), b=-1, scale=fields.pop("scale", 1.0))
        for name, value in fields.items():
            setattr(i, name, self.pointer(value) if isinstance(value, Tensor) else value)
        (self.step if to is None else to).append(i)
        return int(i.out)

    def pointer(self, tensor: Tensor) -> int:
        self.kept.append(tensor.contiguous())
        return int(self.kept[-1].data_ptr())

    def embed(self, table: Tensor, to: list[Any] | None = None, **fields: Any) -> int:
        width = table.shape[1]
        return self.add(Opcode.EMBED, to, out=self.buffer(width), width=width, rows=len(table), table=table, **fields)

    def matrix(self, w: Tensor, bias: Tensor | None = None, scales: Tensor | None = None) -> int:
        shape = (*w.shape, *w.stride(), self.pointer(bias) if bias is not None else None)
        made = ctypes.c_void_p()
        if scales is None:
            status = self.library.zoo_matrix(w.data_ptr(), *shape, ctypes.byref(made))
        else:
            status = self.library.zoo_matrix_int8(w.data_ptr(), self.pointer(scales), *shape, ctypes.byref(made))
        assert status == Status.DONE
        return int(made.value or 0)

    def logits(self, a: int, matrix: int, width: int, **fields: Any) -> None:
        self.vocabulary = width
        self.add(Opcode.LOGITS, a=a, matrix=matrix, width=width, **fields)

    def show(self, buffer: int, width: int, at: int = 0) -> None:
        """Ends the step with logits that are this buffer's numbers, and a 0."""
        self.logits(buffer, self.matrix(torch.eye(width, width + 1)), width + 1, a_at=at)

    def open(self) -> int:
        lists = [v for part in (self.encode, self.step) for v in ((Record * len(part))(*part), len(part))]
        widths = [v for w in (self.widths, self.memory, self.cache) for v in ((ctypes.c_int32 * len(w))(*w), len(w))]
        opened = ctypes.c_void_p()
        status = self.library.zoo_open(*lists, *widths, ctypes.byref(opened))
        self.program = opened.value
        return int(status)

    def start(self, tokens: Tensor, lengths: Sequence[int]) -> int:
        if not self.program:
            self.open()
        of = torch.tensor(lengths, dtype=torch.int32)
        made = ctypes.c_void_p()
        given = (tokens.data_ptr(), of.data_ptr(), len(lengths))
        assert self.library.zoo_encode(self.program, *given, ctypes.byref(made)) == 0
        return int(made.value or 0)

    def next(
        self, state: int, tokens: Tensor, count: int = 1, all_of_them: bool = True, allowed: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        rows = len(tokens)
        values, ids = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
        ends, every = torch.empty(rows), torch.empty(rows, self.vocabulary)
        pointers = [t.data_ptr() for t in (values, ids, ends)] + [every.data_ptr() if all_of_them else None]
        bars = (None, 0) if allowed is None else (allowed.data_ptr(), allowed.stride(0))
        assert self.library.zoo_step(self.program, state, tokens.data_ptr(), count, *pointers, *bars) == 0
        return values, ids, ends, every

    def shown(self, state: int, tokens: Tensor) -> Tensor:
        every = self.next(state, tokens)[3]
        return every[:, :-1] - every[:, -1:]

    def once(self, rows: int) -> Tensor:
        """The numbers shown, where the i-th row's token is i."""
        tokens = torch.arange(rows)
        return self.shown(self.start(tokens, [1] * rows), tokens)

    def select(self, state: int, sentences: Sequence[int], parents: Tensor) -> None:
        kept = torch.tensor(sentences)
        assert self.library.zoo_select(state, kept.data_ptr(), *[len(kept), parents.data_ptr(), parents.shape[1]]) == 0


@pytest.fixture
def by_hand(library: Any) -> Callable[..., Machine]:
    """A program that is written by hand."""
    return partial(Machine, library)
