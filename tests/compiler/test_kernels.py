"""The kernels of the native backend against a few lines of torch, compiled for several processors."""

from __future__ import annotations

import ctypes
import errno
import mmap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from compiler.decoder import top_k
from compiler.instruction import MAX_INT8_ROWS, MatrixType, Opcode, Status
from compiler.kernels.program import KernelState, Memory
from compiler.runtime import layers
from compiler.runtime.layers import ssru
from tests.compiler.conftest import ACTIVATIONS, attending_program, attention, reference_product

pytestmark = pytest.mark.integration
SHAPES = [(1, 16, 32), (4, 64, 130), (131, 37, 45), (13, 5, 7), (131, 1100, 50)]
"""Rows, inputs, outputs."""


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def close(actual: Tensor, expected: Tensor) -> None:
    """Compare float32 results whose sums are in another order."""
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def integer_rows(rows: int, inner: int) -> Tensor:
    """Return rows of integers and halves whose largest magnitude is 127, so that quantisation does not scale them."""
    x = torch.randint(-20, 21, (rows, inner)) * 0.5
    x[:, 0] = 127.0 * (1 - 2 * (torch.arange(rows) % 2))
    return x


@pytest.mark.parametrize("type_", [MatrixType.FLOAT32, MatrixType.BFLOAT16])
def test_a_product_with_bias_and_activation_is_torchs(new_program: Any, type_: MatrixType) -> None:
    for (rows, inner, outer), kind in product(SHAPES, ACTIVATIONS):
        x, w, bias = torch.randn(rows, inner + 3), torch.randn(outer, inner).T / inner**0.5, torch.randn(outer)
        program = new_program()
        a, out = program.embed(x), program.buffer(outer + 9)
        p = program.matrix(w, type_=type_, bias=bias if kind else None)
        program.add(Opcode.LINEAR, a=a, a_column=3, out=out, out_column=5, width=outer, activation=kind, matrix=p)
        program.output(out, outer, column=5)
        expected = reference_product(x[:, 3:], w, torch.ones(1), type_) + bool(kind) * bias
        close(program.run_once(rows), ACTIVATIONS[kind](expected))


def test_numbers_are_rounded_to_bfloat16_as_torch_does(new_program: Any) -> None:
    """Halves are rounded to even."""
    step = 2.0**-7
    x = torch.tensor([1.0, 1 + step / 2, 1 + step * 3 / 2, 1 + step * 0.51, -1 - step / 2, 3e38])[:, None]
    program = new_program()
    one = program.matrix(torch.ones(1, 1), type_=MatrixType.BFLOAT16)
    assert torch.equal(program.apply(Opcode.LINEAR, x, 1, matrix=one), x.bfloat16().float())


def test_activations_are_torchs_far_from_zero(new_program: Any) -> None:
    x = torch.cat([torch.linspace(-12, 12, 2001), torch.tensor([-200.0, -90.0, -0.0, 90.0, 200.0])])[:, None]
    for kind, expected in ACTIVATIONS.items():
        found = new_program().apply(Opcode.ACTIVATE, x, 1, activation=kind)
        # The approximations of exp and of the error function have an error of up to 2e-7.
        torch.testing.assert_close(found, expected(x), rtol=1e-6, atol=2e-6)


def test_sums_of_8_bit_products_are_exact(new_program: Any) -> None:
    for rows, inner, outer in SHAPES:
        x, w = integer_rows(rows, inner), torch.randint(-127, 128, (inner, outer), dtype=torch.int8)
        w[: inner // 3, 0], w[: inner // 3, -1] = 127, -127  # sums need more than 16 bits, but fit float32's 24
        x[0] = 127.0
        program = new_program()
        found = program.apply(Opcode.LINEAR, x, outer, matrix=program.matrix(w, torch.ones(outer), MatrixType.INT8))
        assert torch.equal(found.round().double(), x.double().round() @ w.double())


POSITIONED = [(1, 5, False, 2), (131, 37, False, 0), (3, 64, True, 300), (3, 2, True, 0)]


@pytest.mark.parametrize(("rows", "width", "halves", "first"), POSITIONED)
def test_row_operations_are_torchs(new_program: Any, rows: int, width: int, halves: bool, first: int) -> None:
    """Learned and sinusoidal positions, layer norm, layer norm of a sum, and addition."""
    (x, y), (gain, bias), table = torch.randn(2, rows, width), torch.randn(2, width), torch.randn(9, width)
    program = new_program()
    a, b, out = program.embed(x, scale=3.0), program.embed(y), program.buffer(width)
    program.add(Opcode.POSITION, a=a, out=out, width=width, rows=len(table), table=table)
    program.add(Opcode.POSITION, a=out, out=out, width=width, halves=halves, first=first)
    program.add(Opcode.NORM, a=out, b=b, out=out, width=width, gain=gain, bias=bias, epsilon=1e-5)
    program.add(Opcode.ADD, a=out, b=b, out=out, width=width)
    program.add(Opcode.NORM, a=out, out=a, width=width, gain=gain, bias=bias, epsilon=1e-2)
    program.output(a, width)
    tokens = torch.arange(rows)
    state = program.start(tokens, [1] * rows)
    for t in range(5):
        position = torch.tensor([[first + t]])
        encoding = layers.sinusoids(torch.zeros(1, 1, width), position, halves=halves)[0, :, :width].float()
        expected = layer_norm(3 * x + table[t] + encoding + y, (width,), gain, bias) + y
        close(program.run(state, tokens), layer_norm(expected, (width,), gain, bias, 1e-2))


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(1, 64, 32), (3, 5, 7), (4, 16, 48)])
def test_attention_over_source_and_memory(new_program: Any, heads: int, key_width: int, value_width: int) -> None:
    ids, beams, widths = 40, 5, (key_width, key_width, value_width)
    query, keys, values = tables = [torch.randn(ids, heads * width) for width in widths]
    program = attending_program(new_program, tables, heads)
    sources = [torch.randperm(ids)[:length] for length in (1, 16, 17, 33, 40, 2)]
    state = program.start(torch.cat(sources), [len(s) for s in sources])
    program.select(state, torch.arange(len(sources)), torch.zeros(len(sources), beams, dtype=torch.long))
    tokens = torch.stack([s[torch.arange(beams) % len(s)] for s in sources])
    results = program.run(state, tokens.flatten()).unflatten(0, (-1, beams))
    for source, token, result in zip(sources, tokens, results, strict=True):
        expected = attention(query[token], keys[source], values[source], heads, 0.3)
        close(result[:, : 3 * expected.shape[1]], torch.cat([expected, expected, values[token]], 1))


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 16, 64), (3, 5, 7)])
def test_each_hypothesis_keeps_its_own_past(new_program: Any, heads: int, key_width: int, value_width: int) -> None:
    """Hypotheses read and are selected, sentences dropped and joined; each past is compared with a copy."""
    ids, beams, v, widths = 30, 4, heads * value_width, (key_width, key_width, value_width)
    q_table, k_table, v_table = tables = [torch.randn(ids, heads * width) for width in widths]
    program = attending_program(new_program, tables, heads)

    def step(state: KernelState, pasts: list[list[list[int]]], new: int) -> None:
        flat = [past for sentence in pasts for past in sentence]
        tokens = torch.randint(ids, (len(flat), new))
        results = program.run(state, tokens).unflatten(0, tokens.shape)
        for past, read, rows in zip(flat, tokens.tolist(), results, strict=True):
            for token, result in zip(read, rows, strict=True):
                past.append(token)
                attended = attention(q_table[past[-1:]], k_table[past], v_table[past], heads, 0.3)
                close(result[2 * v :], torch.cat([attended[0], ssru(q_table[past][None], k_table[past][None])[0, -1]]))

    def choose(state: KernelState, pasts: list[list[list[int]]], kept: Sequence[int]) -> list[list[list[int]]]:
        parents = torch.stack([torch.randint(len(pasts[i]), (beams,)) for i in kept])
        program.select(state, torch.tensor(kept), parents)
        return [[list(pasts[i][p]) for p in row] for i, row in zip(kept, parents.tolist(), strict=True)]

    state, pasts = program.start(torch.arange(3), [1] * 3), [[[]] for _ in range(3)]
    for turn in range(45):
        step(state, pasts, 1 + turn % 3)
        pasts = choose(state, pasts, [i for i in range(len(pasts)) if i == 0 or turn % 7 != 3])
        if turn % 7 == 5:
            other, new = program.start(torch.arange(2), [1] * 2), [[[]] for _ in range(2)]
            step(other, new, 2)
            pasts += choose(other, new, range(2))
            program.join(state, other)


def check_top(program: Any, state: KernelState, tokens: Tensor, count: int, *masks: Tensor) -> Tensor:
    """Run a step with each mask of allowed tokens, and without a mask. Return all log-probabilities.

    The kernels must choose the same tokens as `top_k` does among their own log-probabilities, also among equals.
    """
    everything: Tensor = program.next(state, tokens)[3]
    for allowed, with_all in product((None, *masks), (True, False)):
        values, ids, ends, _ = program.next(state, tokens, count, with_all, allowed)
        expected = top_k(everything, count, allowed)
        exists, available = expected.values > -torch.inf, expected.values.shape[1]
        assert torch.equal(values[:, :available], expected.values)
        assert torch.equal(ids[:, :available][exists], expected.tokens[exists])
        assert torch.equal(ends, expected.ends)
        assert (values[:, available:] == -torch.inf).all()
        assert (ids[values == -torch.inf] == 0).all()
    return everything


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("type_", MatrixType)
def test_top_k_tokens(new_program: Any, type_: MatrixType, tied: bool) -> None:
    """Choose among all tokens or the allowed ones. The sum of probabilities includes suppressed tokens."""
    for rows, ids, count in [(1, 6, 8), (5, 37, 3), (131, 1000, 8), (4, 5003, 12)]:
        x, tokens = integer_rows(rows, 20), torch.arange(rows)
        x[:, 0] = 127.0
        w = torch.randint(-9, 10, (ids + 3, 20), dtype=torch.int8).T  # the last 3 columns are no tokens
        scales = torch.full((ids + 3,), 0.125 if tied else 0.01)
        if tied:  # many tokens have equal logits
            x, w[0] = x.round(), 0
        program = new_program()
        program.logits(program.embed(x), program.matrix(w, scales, type_), ids)
        masks = [torch.rand(rows, ids) < share for share in (0.002, 0.3, 1.0)]
        masks += [mask[:1].expand(rows, -1) for mask in masks]  # one mask for all rows
        everything = check_top(program, program.start(tokens, [1] * rows), tokens, count, *masks)
        close(everything, reference_product(x, w, scales, type_)[:, :ids].log_softmax(-1))


@pytest.mark.parametrize("type_", MatrixType)
def test_a_shortlist_restricts_each_sentence_to_its_tokens(new_program: Any, type_: MatrixType) -> None:
    """Other tokens have no probability. A state may contain sentences with and without a shortlist."""
    inner, ids, rows, count = 21, 700, 7, 5
    x, bias, tokens = integer_rows(rows, inner), torch.randn(ids), torch.arange(rows)
    w, scales = torch.randint(-9, 10, (inner, ids), dtype=torch.int8), torch.rand(ids) / 50
    program = new_program()
    program.logits(program.embed(x), program.matrix(w, scales, type_, bias), ids)
    is_listed = torch.rand(5, ids) < torch.tensor([0.01, 0.1, 0.4, 0.9, 0.0])[:, None]
    is_listed[:4, [3, ids - 1]] = is_listed[4, ids - 2] = True  # the last list has no EOS
    lists = [row.nonzero()[:, 0] for row in is_listed]
    restricted, free = program.start(tokens[:5], [1] * 5), program.start(tokens[5:], [1] * 2)
    program.join(program.restrict(restricted, lists), free)
    everything = check_top(program, restricted, tokens, count, (torch.arange(ids) % 2 == 1).expand(rows, -1))
    logits = reference_product(x, w, scales, type_) + bias
    for row, listed in enumerate([*lists, *[torch.arange(ids)] * 2]):
        expected = torch.full((ids,), -torch.inf)
        expected[listed] = logits[row, listed].log_softmax(0)
        close(everything[row], expected)


@pytest.mark.parametrize("spread", [1e-4, 1e-2, 1.0])
def test_logits_that_round_to_equal_log_probabilities_are_ordered_by_id(new_program: Any, spread: float) -> None:
    """If one token is nearly certain, the log-probabilities of the others have few different values."""
    table, x, tokens = torch.rand(3000, 1) * spread, torch.tensor([[1.0], [0.5], [2.0]]), torch.arange(3)
    table[2000] = 10_000.0
    for count in (1, 4, 12):
        program = new_program()
        program.logits(program.embed(x), program.matrix(table.T), len(table))
        odd = (torch.arange(len(table)) % 2 == 1).expand(len(x), -1)
        check_top(program, program.start(tokens, [1] * len(x)), tokens, count, odd)


def test_threads_can_share_a_program(new_program: Any) -> None:
    x, w, counts = torch.randn(300, 48), torch.randn(48, 200), [1, 300, 7, 131] * 20
    program = new_program()
    program.apply(Opcode.LINEAR, x, 200, matrix=program.matrix(w))
    with ThreadPoolExecutor(4) as pool:
        for rows, found in zip(counts, pool.map(program.run_once, counts), strict=True):
            torch.testing.assert_close(found, x[:rows] @ w, rtol=0, atol=1e-4)


@pytest.mark.parametrize("type_", MatrixType)
@pytest.mark.parametrize("inner", [16, 200])
def test_a_row_does_not_depend_on_the_other_rows(new_program: Any, inner: int, type_: MatrixType) -> None:
    """Bitwise: otherwise nearly tied hypotheses would change their order in another batch."""
    x, w = torch.randn(300, inner), torch.randint(-9, 10, (inner, 4000), dtype=torch.int8)
    program = new_program()
    program.logits(program.embed(x), program.matrix(w, torch.rand(4000), type_), 4000)

    def values(tokens: Tensor) -> Tensor:
        return program.next(program.start(tokens, [1] * len(tokens)), tokens, count=4, with_all=False)[0]

    together = values(torch.arange(300))
    for first, last in [(first, first + rows) for rows in range(1, 36) for first in (0, 265)] + [(100, 228)]:
        assert torch.equal(values(torch.arange(first, last)), together[first:last])


def test_an_unknown_opcode_is_refused(new_program: Any) -> None:
    for opcode in (-1, len(Opcode), 2**30):
        program = new_program()
        program.output(program.embed(torch.randn(9, 16)), 16)
        program.step[0].opcode = opcode
        with pytest.raises(ValueError, match="do not implement one of the instructions"):
            program.open()


def test_a_matrix_that_is_too_large_is_refused(library: Any) -> None:
    size, too_large = ctypes.c_int64(), [(MAX_INT8_ROWS + 1, 1, MatrixType.INT8)]
    too_large += [(*shape, type_) for shape in ((2**40, 1), (1, 2**40), (-1, 1)) for type_ in MatrixType]
    for arguments in too_large:
        assert library.zoo_matrix_bytes(*arguments, ctypes.byref(size)) == Status.TOO_LARGE
    assert library.zoo_matrix_bytes(MAX_INT8_ROWS, 1, MatrixType.INT8, ctypes.byref(size)) == Status.DONE


def test_memory_needs_no_huge_pages_and_says_if_there_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutHugePages(mmap.mmap):
        madvise = Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))

    monkeypatch.setattr(mmap, "mmap", WithoutHugePages)
    memory = Memory(100)
    memory.content[:] = bytes(range(100))
    assert ctypes.string_at(memory.address, 100) == bytes(range(100))
    with pytest.raises(MemoryError, match="do not fit into memory"):
        Memory(2**60)


def test_what_does_not_exist_is_refused_and_changes_nothing(new_program: Any) -> None:
    program, width = new_program(), 16
    program.embed(torch.randn(9, width), program.encode)
    a, out = program.embed(torch.randn(9, width)), program.buffer(width)
    program.add(Opcode.POSITION, a=a, out=out, width=width, rows=2, table=torch.randn(2, width))
    program.output(out, width)
    tokens = torch.tensor([8])
    state = program.start(tokens, [1])
    for token in (-1, 9, 2**40):
        with pytest.raises(IndexError):
            program.next(state, torch.tensor([token]))
        with pytest.raises(IndexError):
            program.start(torch.tensor([token]), [1])
    for sentences, parents in (([1], [[0]]), ([0, 0], [[0], [0]]), ([0], [[1]]), ([0], [[-1]])):
        with pytest.raises(IndexError):
            program.select(state, torch.tensor(sentences), torch.tensor(parents))
    for listed in ([], [2, 2], [3, 2], [-1, 3], [3, program.vocabulary]):  # a shortlist must have ascending tokens
        with pytest.raises(IndexError):
            program.restrict(state, [torch.tensor(listed, dtype=torch.long)])
    program.restrict(state, [torch.tensor([3, program.vocabulary - 1])])
    for _ in range(2):  # learned positions
        program.run(state, tokens)
    with pytest.raises(IndexError):
        program.run(state, tokens)
