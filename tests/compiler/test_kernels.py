"""The kernels of the native backend against a few lines of torch, for every kind of processor that this one can be."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import layer_norm

from compiler import runtime
from compiler.instruction import MAX_INT8_ROWS, ActivationKind, Opcode, Status
from compiler.program import top_k
from compiler.recurrences import ssru

SHAPES = [(1, 16, 32), (4, 64, 130), (131, 37, 45), (13, 5, 7), (131, 1100, 50)]
"""Rows, inputs, outputs."""
CURVES: Mapping[ActivationKind, Callable[[Tensor], Tensor]] = {
    ActivationKind.NONE: torch.clone,
    ActivationKind.RELU: torch.relu,
    ActivationKind.SILU: functional.silu,
    ActivationKind.GELU: functional.gelu,
}


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
@pytest.mark.parametrize("curve", CURVES)
def test_products(by_hand: Any, rows: int, inner: int, outer: int, curve: ActivationKind) -> None:
    x, w, bias = torch.randn(rows, inner + 3), torch.randn(outer, inner).T / inner**0.5, torch.randn(outer)
    machine = by_hand()
    a, out = machine.embed(x), machine.buffer(outer + 9)
    p = machine.matrix(w, bias if curve else None)
    machine.add(Opcode.LINEAR, a=a, a_at=3, out=out, out_at=5, width=outer, curve=curve, matrix=p)
    machine.show(out, outer, at=5)
    close(machine.once(rows), CURVES[curve](x[:, 3:] @ w + bool(curve) * bias))


@pytest.mark.parametrize("curve", CURVES)
def test_curves_are_torchs_far_from_zero_too(by_hand: Any, curve: ActivationKind) -> None:
    x = torch.cat([torch.linspace(-12, 12, 2001), torch.tensor([-200.0, -90.0, -0.0, 90.0, 200.0])])[:, None]
    machine = by_hand()
    machine.show(machine.add(Opcode.ACTIVATE, a=machine.embed(x), out=machine.buffer(1), width=1, curve=curve), 1)
    torch.testing.assert_close(machine.once(len(x)), CURVES[curve](x), rtol=1e-6, atol=2e-6)


def whole(rows: int, inner: int) -> Tensor:
    """Rows with integers and halves whose largest is 127, so that they are rounded without being scaled."""
    x = torch.randint(-20, 21, (rows, inner)) * 0.5
    x[:, 0] = 127.0 * (1 - 2 * (torch.arange(rows) % 2))
    return x


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
def test_sums_of_8_bit_integers_are_exact(by_hand: Any, rows: int, inner: int, outer: int) -> None:
    x, w = whole(rows, inner), torch.randint(-127, 128, (inner, outer), dtype=torch.int8)
    w[: inner // 3, 0], w[: inner // 3, -1] = 127, -127  # beyond 16 bits, yet within a float's 24
    x[0] = 127.0
    machine = by_hand()
    out = machine.buffer(outer)
    p = machine.matrix(w, scales=torch.ones(outer))
    machine.add(Opcode.LINEAR, a=machine.embed(x), out=out, width=outer, matrix=p)
    machine.show(out, outer)
    assert torch.equal(machine.once(rows).round().double(), x.double().round() @ w.double())


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
def test_rows_are_scaled_each_by_itself(by_hand: Any, rows: int, inner: int, outer: int) -> None:
    x, w = torch.randn(rows, inner) * torch.rand(rows, 1), torch.randint(-127, 128, (outer, inner), dtype=torch.int8).T
    scales, bias = torch.rand(outer) / 127 / inner**0.5, torch.randn(outer)
    x[rows // 2] = 0.0
    machine = by_hand()
    out = machine.buffer(outer)
    machine.add(Opcode.LINEAR, a=machine.embed(x), out=out, width=outer, matrix=machine.matrix(w, bias, scales))
    machine.show(out, outer)
    close(machine.once(rows), runtime.quantised_linear(x, w, scales, bias))


@pytest.mark.parametrize(
    ("rows", "width", "halves", "first"), [(1, 5, False, 2), (131, 37, False, 0), (3, 64, True, 300), (3, 2, True, 0)]
)
def test_rows_by_themselves(by_hand: Any, rows: int, width: int, halves: bool, first: int) -> None:
    x, y, gain, bias = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width), torch.randn(width)
    table = torch.randn(9, width)
    machine = by_hand()
    a, b, out = machine.embed(x, scale=3.0), machine.embed(y), machine.buffer(width)
    machine.add(Opcode.POSITION, a=a, out=out, width=width, rows=len(table), table=table)
    machine.add(Opcode.POSITION, a=out, out=out, width=width, halves=halves, first=first)
    machine.add(Opcode.NORM, a=out, b=b, out=out, width=width, gain=gain, bias=bias, epsilon=1e-5)
    machine.add(Opcode.ADD, a=out, b=b, out=out, width=width)
    machine.add(Opcode.NORM, a=out, out=a, width=width, gain=gain, bias=bias, epsilon=1e-2)
    machine.show(a, width)
    tokens = torch.arange(rows)
    state = machine.start(tokens, [1] * rows)
    for t in range(5):
        place = torch.tensor([[first + t]])
        encoding = runtime.sinusoids(torch.zeros(1, 1, width), place, halves=halves)[0, :, :width].float()
        expected = layer_norm(3 * x + table[t] + encoding + y, (width,), gain, bias) + y
        close(machine.shown(state, tokens), layer_norm(expected, (width,), gain, bias, 1e-2))


def attention(query: Tensor, keys: Tensor, values: Tensor, heads: int, scale: float) -> Tensor:
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, keys, values))
    return ((q @ k.mT * scale).softmax(-1) @ v).transpose(0, 1).flatten(1)


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(1, 64, 32), (3, 5, 7), (4, 16, 48)])
def test_attention_to_the_source_and_to_the_memory(by_hand: Any, heads: int, key_width: int, value_width: int) -> None:
    """The encoder's attention is read token by token: the step looks for its own token, and finds no other."""
    ids, k, v = 40, heads * key_width, heads * value_width
    q_table, k_table, v_table = (torch.randn(ids, width) for width in (k, k, v))
    size = {"heads": heads, "key_width": key_width, "value_width": value_width, "scale": 0.3}
    machine = by_hand(memory=[ids, v, k, v])
    a, b, c = (machine.embed(table, machine.encode) for table in (q_table, k_table, v_table))
    out, own = machine.buffer(v), machine.embed(torch.eye(ids), machine.encode)
    machine.add(Opcode.ATTEND_SOURCE, machine.encode, a=a, b=b, c=c, out=out, width=v, **size)
    for slot, (buffer, width, parts, keys) in enumerate(
        [(own, ids, 1, 1), (out, v, 1, 0), (b, k, heads, 1), (c, v, heads, 0)]
    ):
        machine.add(Opcode.KEEP, machine.encode, out=slot, a=buffer, width=width, heads=parts, keys=keys)
    both, query = machine.buffer(2 * v), machine.embed(q_table)
    sole = {"heads": 1, "key_width": ids, "value_width": v, "scale": 1.0}
    machine.add(Opcode.ATTEND_MEMORY, a=machine.embed(torch.eye(ids) * 1000), b=0, c=1, out=both, width=v, **sole)
    machine.add(Opcode.ATTEND_MEMORY, a=query, b=2, c=3, out=both, out_at=v, width=v, **size)
    machine.show(both, 2 * v)
    sources = [torch.randperm(ids)[:length] for length in (1, 16, 17, 33, 40, 2)]
    state = machine.start(torch.cat(sources), [len(s) for s in sources])
    beams = 5
    machine.select(state, range(len(sources)), torch.zeros(len(sources), beams, dtype=torch.long))
    tokens = torch.stack([s[torch.arange(beams) % len(s)] for s in sources])
    shown = machine.shown(state, tokens.flatten()).unflatten(0, (-1, beams))
    for source, token, found in zip(sources, tokens, shown, strict=True):
        keys, values = k_table[source], v_table[source]
        close(found[:, :v], attention(q_table[token], keys, values, heads, 0.3))
        close(found[:, v:], attention(q_table[token], keys, values, heads, 0.3))


@pytest.mark.parametrize("width", [16, 37])
def test_averages_of_a_source_go_either_way(by_hand: Any, width: int) -> None:
    """Both side by side, read token by token: the step looks for its own token."""
    ids = 40
    gates, values = torch.randn(ids, width), torch.randn(ids, width)
    machine = by_hand(memory=[ids, 2 * width])
    gate, value, own = (machine.embed(table, machine.encode) for table in (gates, values, torch.eye(ids)))
    both = machine.buffer(2 * width)
    for at, backwards in ((0, False), (width, True)):
        out = machine.buffer(width)
        given = {"a": gate, "b": value, "out": out, "width": width, "backwards": backwards}
        machine.add(Opcode.SSRU_SOURCE, machine.encode, **given)
        machine.add(Opcode.COPY, machine.encode, a=out, out=both, out_at=at, width=width)
    machine.add(Opcode.KEEP, machine.encode, out=0, a=own, width=ids, heads=1, keys=True)
    machine.add(Opcode.KEEP, machine.encode, out=1, a=both, width=2 * width, heads=1)
    sole = {"heads": 1, "key_width": ids, "value_width": 2 * width, "scale": 1.0, "width": 2 * width}
    found = machine.buffer(2 * width)
    machine.add(Opcode.ATTEND_MEMORY, a=machine.embed(torch.eye(ids) * 1000), b=0, c=1, out=found, **sole)
    machine.show(found, 2 * width)
    sources = [torch.randperm(ids)[:length] for length in (1, 17, 40)]
    state = machine.start(torch.cat(sources), [len(source) for source in sources])
    for place in (0, -1):
        shown = machine.shown(state, torch.stack([source[place] for source in sources]))
        for each, source in zip(shown, sources, strict=True):
            forwards, backwards = (
                ssru(gates[turned][None], values[turned][None])[0] for turned in (source, source.flip(0))
            )
            close(each, torch.cat([forwards[place], backwards.flip(0)[place]]))


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 16, 64), (3, 5, 7)])
def test_a_hypothesis_remembers_its_own_past(by_hand: Any, heads: int, key_width: int, value_width: int) -> None:
    """Hypotheses are chosen, sentences dropped and joined at random, beside a copy that keeps every past apart."""
    ids, k, v, beams = 30, heads * key_width, heads * value_width, 4
    q_table, k_table, v_table = (torch.randn(ids, width) for width in (k, k, v))
    machine = by_hand(cache=[k, k, v])
    query, key, value = (machine.embed(table) for table in (q_table, k_table, v_table))
    machine.add(Opcode.APPEND, a=key, out=0, width=k)
    machine.add(Opcode.APPEND, a=value, out=2, width=v)
    out, size = machine.buffer(v + k), {"heads": heads, "key_width": key_width, "value_width": value_width}
    machine.add(Opcode.ATTEND_CACHE, a=query, b=0, c=2, out=out, width=v, scale=0.5, **size)
    machine.add(Opcode.SSRU_STEP, a=query, b=key, c=1, out=out, out_at=v, width=k)
    machine.show(out, v + k)
    machine.open()

    def step(state: int, pasts: list[list[list[int]]]) -> None:
        for past in (past for sentence in pasts for past in sentence):
            past.append(int(torch.randint(ids, ())))
        every = [torch.tensor(past) for sentence in pasts for past in sentence]
        shown = machine.shown(state, torch.stack([past[-1] for past in every]))
        for found, past in zip(shown, every, strict=True):
            close(found[None, :v], attention(q_table[past[-1:]], k_table[past], v_table[past], heads, 0.5))
            close(found[v:], ssru(q_table[past][None], k_table[past][None])[0, -1])

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
            assert machine.library.zoo_join(state, more) == 0
            machine.library.zoo_free_state(more)
            pasts += others
    machine.library.zoo_free_state(state)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(("rows", "ids", "count"), [(1, 6, 8), (5, 37, 3), (131, 1000, 8), (4, 5003, 12)])
@pytest.mark.parametrize("tied", [False, True])
def test_the_likeliest(by_hand: Any, rows: int, ids: int, count: int, quantised: bool, tied: bool) -> None:
    inner = 20
    x, w = whole(rows, inner), torch.randint(-9, 10, (ids + 3, inner), dtype=torch.int8).T
    x[:, 0] = 127.0
    w[0] = 0 if tied else torch.randint(-9, 10, (ids + 3,))  # without it, few numbers are reached by many
    x = x.round() if tied else x
    machine = by_hand()
    scales = torch.full((ids + 3,), 0.125 if tied else 0.01)
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w.float() * scales)
    machine.logits(machine.embed(x), matrix, ids)
    machine.open()
    tokens = torch.arange(rows)
    values, chosen, ends, every = machine.next(machine.start(tokens, [1] * rows), tokens, count)
    logits = (x.round() if quantised else x) @ (w.float() * scales)[:, :ids]
    close(every, logits.log_softmax(-1))
    expected = top_k(every, count)
    real = expected.values > -torch.inf
    there = real.shape[1]
    assert torch.equal(values[:, :there], expected.values)
    assert torch.equal(chosen[:, :there][real], expected.tokens[real])
    assert torch.equal(ends, expected.ends)
    assert (values[:, there:] == -torch.inf).all()
    assert (chosen[values == -torch.inf] == 0).all()
    again = machine.next(machine.start(tokens, [1] * rows), tokens, count, all_of_them=False)
    assert torch.equal(values, again[0])
    assert torch.equal(chosen, again[1])


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(("ids", "count"), [(6, 8), (37, 3), (1000, 8), (5003, 12)])
@pytest.mark.parametrize("share", [0.002, 0.3, 1.0])
@pytest.mark.parametrize("tied", [False, True])
def test_the_likeliest_of_those_that_are_allowed(
    by_hand: Any, ids: int, count: int, quantised: bool, share: float, tied: bool
) -> None:
    """By a mask a row, or one for all; the sum is that of all ids, suppressed or not."""
    inner, rows = 20, 5
    x, w = whole(rows, inner), torch.randint(-9, 10, (ids, inner), dtype=torch.int8).T
    x[:, 0] = 127.0
    w[0] = 0 if tied else torch.randint(-9, 10, (ids,))
    x, scales = x.round() if tied else x, torch.full((ids,), 0.125 if tied else 0.01)
    machine = by_hand()
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w.float() * scales)
    machine.logits(machine.embed(x), matrix, ids)
    machine.open()
    tokens = torch.arange(rows)
    every = machine.next(machine.start(tokens, [1] * rows), tokens)[3]
    mask = torch.rand(rows, ids) < share
    for allowed in (mask, mask[:1].expand(rows, -1)):
        state = machine.start(tokens, [1] * rows)
        values, chosen, ends, _ = machine.next(state, tokens, count, all_of_them=False, allowed=allowed)
        expected = top_k(every, count, allowed)
        real, there = expected.values > -torch.inf, expected.values.shape[1]
        assert torch.equal(values[:, :there], expected.values)
        assert torch.equal(chosen[:, :there][real], expected.tokens[real])
        assert torch.equal(ends, expected.ends)
        assert (values[:, there:] == -torch.inf).all()


@pytest.mark.parametrize("quantised", [False, True])
def test_what_is_not_a_number_stays_so_in_its_row(by_hand: Any, quantised: bool) -> None:
    x, w = whole(3, 40), torch.randint(-9, 10, (40, 50), dtype=torch.int8)
    x[1, 7] = torch.nan
    machine = by_hand()
    scales = torch.full((50,), 0.1)
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w.float() * scales)
    machine.logits(machine.embed(x), matrix, 50)
    values, ids, ends, every = machine.next(machine.start(torch.arange(3), [1] * 3), torch.arange(3), 4)
    for numbers in (values, ends[:, None], every):
        assert numbers.isnan().all(1).tolist() == [False, True, False]
    assert ((ids >= 0) & (ids < 50)).all()


@pytest.mark.parametrize("spread", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("count", [1, 4, 12])
def test_what_rounding_makes_equal_is_in_the_order_of_pieces(by_hand: Any, spread: float, count: int) -> None:
    """However many logits it is: beside one token that is nearly certain, few numbers are left to the others."""
    table, rows = torch.rand(3000, 1) * spread, torch.tensor([[1.0], [0.5], [2.0]])
    table[2000] = 10_000.0
    machine = by_hand()
    machine.logits(machine.embed(rows), machine.matrix(table.T), len(table))
    tokens = torch.arange(len(rows))
    values, ids, _, every = machine.next(machine.start(tokens, [1] * len(rows)), tokens, count)
    expected = top_k(every, count)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.tokens)
    odd = (torch.arange(len(table)) % 2 == 1).expand(len(rows), -1)
    values, ids, *_ = machine.next(machine.start(tokens, [1] * len(rows)), tokens, count, allowed=odd)
    expected = top_k(every, count, odd)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.tokens)


def test_threads_share_a_program(by_hand: Any) -> None:
    x, w = torch.randn(300, 48), torch.randn(48, 200)
    machine = by_hand()
    machine.logits(machine.embed(x), machine.matrix(w), 200)
    machine.open()

    def run(rows: int) -> bool:
        tokens = torch.arange(rows)
        state = machine.start(tokens, [1] * rows)
        every = machine.next(state, tokens)[3]
        machine.library.zoo_free_state(state)
        return torch.allclose(every, (x[:rows] @ w).log_softmax(-1), atol=1e-4)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [1, 300, 7, 131] * 20))


@pytest.mark.parametrize("code", [-1, len(Opcode), 2**30])
def test_an_instruction_that_is_none_is_refused(by_hand: Any, code: int) -> None:
    machine = by_hand()
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    machine.step[0].code = code
    assert machine.open() == Status.UNKNOWN


def test_a_matrix_that_is_too_wide_is_said_to_be_that(library: Any) -> None:
    made, w = ctypes.c_void_p(), torch.zeros(MAX_INT8_ROWS + 1, 1, dtype=torch.int8)
    shape = (*w.shape, *w.stride(), None)
    of = library.zoo_matrix_int8
    assert of(w.data_ptr(), torch.ones(1).data_ptr(), *shape, ctypes.byref(made)) == Status.TOO_WIDE
    assert library.zoo_matrix(w.data_ptr(), 2**40, 1, 1, 1, None, ctypes.byref(made)) == Status.TOO_WIDE
    assert made.value is None


@pytest.mark.parametrize("token", [-1, 9, 2**40])
def test_a_piece_that_is_none_is_refused(by_hand: Any, token: int) -> None:
    machine = by_hand()
    machine.embed(torch.randn(9, 16), machine.encode)
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    state, tokens = machine.start(torch.tensor([8]), [1]), torch.tensor([token])
    outputs = [torch.empty(1, dtype=torch.long) for _ in range(3)]
    given = (tokens.data_ptr(), 1, *(each.data_ptr() for each in outputs), None, None, 0)
    assert machine.library.zoo_step(machine.program, state, *given) == Status.IMPOSSIBLE
    made = ctypes.c_void_p()
    lengths = torch.tensor([1], dtype=torch.int32)
    assert (
        machine.library.zoo_encode(machine.program, tokens.data_ptr(), lengths.data_ptr(), 1, ctypes.byref(made))
        == Status.IMPOSSIBLE
    )


def test_a_position_after_the_last_learned_one_is_refused(by_hand: Any) -> None:
    machine, width = by_hand(), 16
    a, out = machine.embed(torch.randn(9, width)), machine.buffer(width)
    machine.add(Opcode.POSITION, a=a, out=out, width=width, rows=2, table=torch.randn(2, width))
    machine.show(out, width)
    tokens = torch.tensor([8])
    state = machine.start(tokens, [1])
    for expected in (Status.DONE, Status.DONE, Status.IMPOSSIBLE):
        outputs = [torch.empty(1, dtype=torch.long) for _ in range(3)]
        given = (tokens.data_ptr(), 1, *(each.data_ptr() for each in outputs), None, None, 0)
        assert machine.library.zoo_step(machine.program, state, *given) == expected


@pytest.mark.parametrize(("sentences", "parents"), [([1], [[0]]), ([0, 0], [[0], [0]]), ([0], [[1]]), ([0], [[-1]])])
def test_a_row_that_is_none_is_refused(by_hand: Any, sentences: list[int], parents: list[list[int]]) -> None:
    machine = by_hand()
    machine.show(machine.embed(torch.randn(9, 16)), 16)
    tokens = torch.tensor([8])
    state = machine.start(tokens, [1])
    kept, rows = torch.tensor(sentences), torch.tensor(parents)
    given = (kept.data_ptr(), len(kept), rows.data_ptr(), rows.shape[1])
    assert machine.library.zoo_select(state, *given) == Status.IMPOSSIBLE
    machine.shown(state, tokens)


def test_a_rows_sum_does_not_depend_on_the_rows_beside_it(by_hand: Any) -> None:
    """Bit for bit: near ties between hypotheses would fall otherwise in another batch."""
    x, w = torch.randn(300, 16), 4 * torch.randn(16, 8000)
    machine = by_hand()
    machine.logits(machine.embed(x), machine.matrix(w), 8000)
    machine.open()

    def values(tokens: Tensor) -> Tensor:
        state = machine.start(tokens, [1] * len(tokens))
        return machine.next(state, tokens, count=4, all_of_them=False)[0]

    together = values(torch.arange(300))
    for some in (torch.arange(1), torch.arange(30, 34), torch.arange(290, 300), torch.arange(100, 228)):
        assert torch.equal(values(some), together[some])
