"""The kernels of the native backend against a few lines of torch, for every kind of processor that this one can be."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from compiler import runtime
from compiler.host import cpp_compiler
from compiler.instruction import MOST_INT8_ROWS, Code, Status
from compiler.kernels.abi import Record, declared
from compiler.kernels.library import FLAGS as USUAL
from compiler.kernels.library import compile_to
from compiler.likeliest import likeliest

FLAGS = {
    "native": ("-O3", "-march=native"),
    "x86-64-v3": ("-O1", "-march=x86-64-v3"),
    "x86-64": ("-O1", "-march=x86-64"),
}
SHAPES = [(1, 16, 32), (4, 64, 130), (131, 37, 45), (13, 5, 7), (131, 1100, 50)]
"""Rows, inputs, outputs."""


@pytest.fixture(scope="module", params=FLAGS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tmp_path_factory.mktemp("kernels") / "native.so"
    if cpp_compiler() is None:
        pytest.skip("there is no C++ compiler")
    if request.param != "native" and platform.machine() != "x86_64":
        pytest.skip("this processor is not an x86-64")
    if request.param == "x86-64-v3" and not {"avx2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("this processor has no AVX2")
    others = [flag for flag in USUAL if not flag.startswith(("-O", "-march"))]
    done = compile_to(made, [*others, *FLAGS[request.param], "-Wall", "-Werror"])
    assert done.returncode == 0, done.stderr
    return declared(ctypes.CDLL(str(made)))


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


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

    def add(self, code: Code, to: list[Any] | None = None, **fields: Any) -> int:
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
        return self.add(Code.EMBED, to, out=self.buffer(width), width=width, rows=len(table), table=table, **fields)

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
        self.add(Code.LOGITS, a=a, matrix=matrix, width=width, **fields)

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

    def next(self, state: int, tokens: Tensor, count: int = 1, all_of_them: bool = True) -> tuple[Tensor, ...]:
        rows = len(tokens)
        values, pieces = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
        ends, every = torch.empty(rows), torch.empty(rows, self.vocabulary)
        pointers = [t.data_ptr() for t in (values, pieces, ends)] + [every.data_ptr() if all_of_them else None]
        assert self.library.zoo_step(self.program, state, tokens.data_ptr(), count, *pointers) == 0
        return values, pieces, ends, every

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


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
@pytest.mark.parametrize("relu", [False, True])
def test_products(library: Any, rows: int, inner: int, outer: int, relu: bool) -> None:
    x, w, bias = torch.randn(rows, inner + 3), torch.randn(outer, inner).T / inner**0.5, torch.randn(outer)
    machine = Machine(library)
    a, out = machine.embed(x), machine.buffer(outer + 9)
    p = machine.matrix(w, bias if relu else None)
    machine.add(Code.LINEAR, a=a, a_at=3, out=out, out_at=5, width=outer, relu=relu, matrix=p)
    machine.show(out, outer, at=5)
    close(machine.once(rows), (x[:, 3:] @ w + bias).relu() if relu else x[:, 3:] @ w)


def whole(rows: int, inner: int) -> Tensor:
    """Rows with integers and halves whose largest is 127, so that they are rounded without being scaled."""
    x = torch.randint(-20, 21, (rows, inner)) * 0.5
    x[:, 0] = 127.0 * (1 - 2 * (torch.arange(rows) % 2))
    return x


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
def test_sums_of_8_bit_integers_are_exact(library: Any, rows: int, inner: int, outer: int) -> None:
    x, w = whole(rows, inner), torch.randint(-127, 128, (inner, outer), dtype=torch.int8)
    w[: inner // 3, 0], w[: inner // 3, -1] = 127, -127  # beyond 16 bits, yet within a float's 24
    x[0] = 127.0
    machine = Machine(library)
    out = machine.buffer(outer)
    p = machine.matrix(w, scales=torch.ones(outer))
    machine.add(Code.LINEAR, a=machine.embed(x), out=out, width=outer, matrix=p)
    machine.show(out, outer)
    assert torch.equal(machine.once(rows).round().double(), x.double().round() @ w.double())


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
def test_rows_are_scaled_each_by_itself(library: Any, rows: int, inner: int, outer: int) -> None:
    x, w = torch.randn(rows, inner) * torch.rand(rows, 1), torch.randint(-127, 128, (outer, inner), dtype=torch.int8).T
    scales, bias = torch.rand(outer) / 127 / inner**0.5, torch.randn(outer)
    x[rows // 2] = 0.0
    machine = Machine(library)
    out = machine.buffer(outer)
    machine.add(Code.LINEAR, a=machine.embed(x), out=out, width=outer, matrix=machine.matrix(w, bias, scales))
    machine.show(out, outer)
    close(machine.once(rows), runtime.quantised_linear(x, w, scales, bias))


@pytest.mark.parametrize(("rows", "width"), [(1, 5), (131, 37), (3, 64)])
def test_rows_by_themselves(library: Any, rows: int, width: int) -> None:
    x, y, gain, bias = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width), torch.randn(width)
    table = torch.randn(9, width)
    machine = Machine(library)
    a, b, out = machine.embed(x, scale=3.0), machine.embed(y), machine.buffer(width)
    machine.add(Code.POSITION, a=a, out=out, width=width, rows=len(table), table=table)
    machine.add(Code.POSITION, a=out, out=out, width=width)
    machine.add(Code.NORM, a=out, b=b, out=out, width=width, gain=gain, bias=bias, epsilon=1e-5)
    machine.add(Code.ADD, a=out, b=b, out=out, width=width)
    machine.add(Code.NORM, a=out, out=a, width=width, gain=gain, bias=bias, epsilon=1e-2)
    machine.show(a, width)
    tokens = torch.arange(rows)
    state = machine.start(tokens, [1] * rows)
    for t in range(5):
        encoding = runtime.sinusoids(torch.zeros(1, 1, width), torch.tensor([[t]]))[0, :, :width].float()
        expected = layer_norm(3 * x + table[t] + encoding + y, (width,), gain, bias) + y
        close(machine.shown(state, tokens), layer_norm(expected, (width,), gain, bias, 1e-2))


def attention(query: Tensor, keys: Tensor, values: Tensor, heads: int, scale: float) -> Tensor:
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, keys, values))
    return ((q @ k.mT * scale).softmax(-1) @ v).transpose(0, 1).flatten(1)


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(1, 64, 32), (3, 5, 7), (4, 16, 48)])
def test_attention_to_the_source_and_to_the_memory(library: Any, heads: int, key_width: int, value_width: int) -> None:
    """The encoder's attention is read piece by piece: the step looks for its own token, and finds no other."""
    pieces, k, v = 40, heads * key_width, heads * value_width
    q_table, k_table, v_table = (torch.randn(pieces, width) for width in (k, k, v))
    size = {"heads": heads, "key_width": key_width, "value_width": value_width, "scale": 0.3}
    machine = Machine(library, memory=[pieces, v, k, v])
    a, b, c = (machine.embed(table, machine.encode) for table in (q_table, k_table, v_table))
    out, own = machine.buffer(v), machine.embed(torch.eye(pieces), machine.encode)
    machine.add(Code.ATTEND_SOURCE, machine.encode, a=a, b=b, c=c, out=out, width=v, **size)
    for slot, (buffer, width, parts, keys) in enumerate(
        [(own, pieces, 1, 1), (out, v, 1, 0), (b, k, heads, 1), (c, v, heads, 0)]
    ):
        machine.add(Code.KEEP, machine.encode, out=slot, a=buffer, width=width, heads=parts, keys=keys)
    both, query = machine.buffer(2 * v), machine.embed(q_table)
    sole = {"heads": 1, "key_width": pieces, "value_width": v, "scale": 1.0}
    machine.add(Code.ATTEND_MEMORY, a=machine.embed(torch.eye(pieces) * 1000), b=0, c=1, out=both, width=v, **sole)
    machine.add(Code.ATTEND_MEMORY, a=query, b=2, c=3, out=both, out_at=v, width=v, **size)
    machine.show(both, 2 * v)
    sources = [torch.randperm(pieces)[:length] for length in (1, 16, 17, 33, 40, 2)]
    state = machine.start(torch.cat(sources), [len(s) for s in sources])
    beams = 5
    machine.select(state, range(len(sources)), torch.zeros(len(sources), beams, dtype=torch.long))
    tokens = torch.stack([s[torch.arange(beams) % len(s)] for s in sources])
    shown = machine.shown(state, tokens.flatten()).unflatten(0, (-1, beams))
    for source, token, found in zip(sources, tokens, shown, strict=True):
        keys, values = k_table[source], v_table[source]
        close(found[:, :v], attention(q_table[token], keys, values, heads, 0.3))
        close(found[:, v:], attention(q_table[token], keys, values, heads, 0.3))


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 16, 64), (3, 5, 7)])
def test_a_hypothesis_remembers_its_own_past(library: Any, heads: int, key_width: int, value_width: int) -> None:
    """Hypotheses are chosen, sentences dropped and joined at random, beside a copy that keeps every past apart."""
    pieces, k, v, beams = 30, heads * key_width, heads * value_width, 4
    q_table, k_table, v_table = (torch.randn(pieces, width) for width in (k, k, v))
    machine = Machine(library, cache=[k, v])
    query, key, value = (machine.embed(table) for table in (q_table, k_table, v_table))
    machine.add(Code.APPEND, a=key, out=0, width=k)
    machine.add(Code.APPEND, a=value, out=1, width=v)
    out, size = machine.buffer(v), {"heads": heads, "key_width": key_width, "value_width": value_width}
    machine.add(Code.ATTEND_CACHE, a=query, b=0, c=1, out=out, width=v, scale=0.5, **size)
    machine.show(out, v)
    machine.open()

    def step(state: int, pasts: list[list[list[int]]]) -> None:
        for past in (past for sentence in pasts for past in sentence):
            past.append(int(torch.randint(pieces, ())))
        every = [torch.tensor(past) for sentence in pasts for past in sentence]
        shown = machine.shown(state, torch.stack([past[-1] for past in every]))
        for found, past in zip(shown, every, strict=True):
            close(found[None], attention(q_table[past[-1:]], k_table[past], v_table[past], heads, 0.5))

    def choose(state: int, pasts: list[list[list[int]]], kept: Sequence[int]) -> list[list[list[int]]]:
        parents = torch.stack([torch.randint(len(pasts[i]), (beams,)) for i in kept])
        machine.select(state, kept, parents)
        return [[list(pasts[i][p]) for p in row] for i, row in zip(kept, parents.tolist(), strict=True)]

    state, pasts = machine.start(torch.arange(3), [1] * 3), [[[]] for _ in range(3)]
    for turn in range(45):
        step(state, pasts)
        pasts = choose(state, pasts, [i for i in range(len(pasts)) if i == 0 or turn % 7 != 3])
        if turn % 7 == 5:
            more, others = machine.start(torch.arange(2), [1] * 2), [[[]] for _ in range(2)]
            step(more, others)
            others = choose(more, others, range(2))
            assert library.zoo_join(state, more) == 0
            library.zoo_free_state(more)
            pasts += others
    library.zoo_free_state(state)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(("rows", "pieces", "count"), [(1, 6, 8), (5, 37, 3), (131, 1000, 8), (4, 5003, 12)])
@pytest.mark.parametrize("tied", [False, True])
def test_the_likeliest(library: Any, rows: int, pieces: int, count: int, quantised: bool, tied: bool) -> None:
    inner = 20
    x, w = whole(rows, inner), torch.randint(-9, 10, (pieces + 3, inner), dtype=torch.int8).T
    x[:, 0] = 127.0
    w[0] = 0 if tied else torch.randint(-9, 10, (pieces + 3,))  # without it, few numbers are reached by many
    x = x.round() if tied else x
    machine = Machine(library)
    scales = torch.full((pieces + 3,), 0.125 if tied else 0.01)
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w.float() * scales)
    machine.logits(machine.embed(x), matrix, pieces)
    machine.open()
    tokens = torch.arange(rows)
    values, chosen, ends, every = machine.next(machine.start(tokens, [1] * rows), tokens, count)
    logits = (x.round() if quantised else x) @ (w.float() * scales)[:, :pieces]
    close(every, logits.log_softmax(-1))
    expected = likeliest(every, count)
    real = expected.values > -torch.inf
    there = real.shape[1]
    assert torch.equal(values[:, :there], expected.values)
    assert torch.equal(chosen[:, :there][real], expected.pieces[real])
    assert torch.equal(ends, expected.ends)
    assert (values[:, there:] == -torch.inf).all()
    assert (chosen[values == -torch.inf] == 0).all()
    again = machine.next(machine.start(tokens, [1] * rows), tokens, count, all_of_them=False)
    assert torch.equal(values, again[0])
    assert torch.equal(chosen, again[1])


@pytest.mark.parametrize("quantised", [False, True])
def test_what_is_not_a_number_stays_so_in_its_row(library: Any, quantised: bool) -> None:
    x, w = whole(3, 40), torch.randint(-9, 10, (40, 50), dtype=torch.int8)
    x[1, 7] = torch.nan
    machine = Machine(library)
    scales = torch.full((50,), 0.1)
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w.float() * scales)
    machine.logits(machine.embed(x), matrix, 50)
    values, pieces, ends, every = machine.next(machine.start(torch.arange(3), [1] * 3), torch.arange(3), 4)
    for numbers in (values, ends[:, None], every):
        assert numbers.isnan().all(1).tolist() == [False, True, False]
    assert ((pieces >= 0) & (pieces < 50)).all()


def test_threads_share_a_program(library: Any) -> None:
    x, w = torch.randn(300, 48), torch.randn(48, 200)
    machine = Machine(library)
    machine.logits(machine.embed(x), machine.matrix(w), 200)
    machine.open()

    def run(rows: int) -> bool:
        tokens = torch.arange(rows)
        state = machine.start(tokens, [1] * rows)
        every = machine.next(state, tokens)[3]
        library.zoo_free_state(state)
        return torch.allclose(every, (x[:rows] @ w).log_softmax(-1), atol=1e-4)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [1, 300, 7, 131] * 20))


@pytest.mark.parametrize("code", [-1, len(Code), 2**30])
def test_an_instruction_that_is_none_is_refused(library: Any, code: int) -> None:
    machine = Machine(library)
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    machine.step[0].code = code
    assert machine.open() == Status.UNKNOWN


def test_a_matrix_that_is_too_wide_is_said_to_be_that(library: Any) -> None:
    made, w = ctypes.c_void_p(), torch.zeros(MOST_INT8_ROWS + 1, 1, dtype=torch.int8)
    shape = (*w.shape, *w.stride(), None)
    of = library.zoo_matrix_int8
    assert of(w.data_ptr(), torch.ones(1).data_ptr(), *shape, ctypes.byref(made)) == Status.TOO_WIDE
    assert library.zoo_matrix(w.data_ptr(), 2**40, 1, 1, 1, None, ctypes.byref(made)) == Status.TOO_WIDE
    assert made.value is None


@pytest.mark.parametrize("piece", [-1, 9, 2**40])
def test_a_piece_that_is_none_is_refused(library: Any, piece: int) -> None:
    machine = Machine(library)
    machine.embed(torch.randn(9, 16), machine.encode)
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    state, tokens = machine.start(torch.tensor([8]), [1]), torch.tensor([piece])
    outputs = [torch.empty(1, dtype=torch.long) for _ in range(3)]
    given = (tokens.data_ptr(), 1, *(each.data_ptr() for each in outputs), None)
    assert library.zoo_step(machine.program, state, *given) == Status.IMPOSSIBLE
    made = ctypes.c_void_p()
    lengths = torch.tensor([1], dtype=torch.int32)
    assert (
        library.zoo_encode(machine.program, tokens.data_ptr(), lengths.data_ptr(), 1, ctypes.byref(made))
        == Status.IMPOSSIBLE
    )


def test_a_position_after_the_last_learned_one_is_refused(library: Any) -> None:
    machine, width = Machine(library), 16
    a, out = machine.embed(torch.randn(9, width)), machine.buffer(width)
    machine.add(Code.POSITION, a=a, out=out, width=width, rows=2, table=torch.randn(2, width))
    machine.show(out, width)
    tokens = torch.tensor([8])
    state = machine.start(tokens, [1])
    for expected in (Status.DONE, Status.DONE, Status.IMPOSSIBLE):
        outputs = [torch.empty(1, dtype=torch.long) for _ in range(3)]
        given = (tokens.data_ptr(), 1, *(each.data_ptr() for each in outputs), None)
        assert library.zoo_step(machine.program, state, *given) == expected


@pytest.mark.parametrize(("sentences", "parents"), [([1], [[0]]), ([0, 0], [[0], [0]]), ([0], [[1]]), ([0], [[-1]])])
def test_a_row_that_is_none_is_refused(library: Any, sentences: list[int], parents: list[list[int]]) -> None:
    machine = Machine(library)
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    tokens = torch.tensor([8])
    state = machine.start(tokens, [1])
    kept, rows = torch.tensor(sentences), torch.tensor(parents)
    given = (kept.data_ptr(), len(kept), rows.data_ptr(), rows.shape[1])
    assert library.zoo_select(state, *given) == Status.IMPOSSIBLE
    machine.shown(state, tokens)


def test_a_rows_sum_does_not_depend_on_the_rows_beside_it(library: Any) -> None:
    """Bit for bit: near ties between hypotheses would fall otherwise in another batch."""
    x, w = torch.randn(300, 16), 4 * torch.randn(16, 8000)
    machine = Machine(library)
    machine.logits(machine.embed(x), machine.matrix(w), 8000)
    machine.open()

    def values(tokens: Tensor) -> Tensor:
        state = machine.start(tokens, [1] * len(tokens))
        return machine.next(state, tokens, count=4, all_of_them=False)[0]

    together = values(torch.arange(300))
    for some in (torch.arange(1), torch.arange(30, 34), torch.arange(290, 300), torch.arange(100, 228)):
        assert torch.equal(values(some), together[some])
