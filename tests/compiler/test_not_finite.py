"""NaN or infinity in an input of a kernel gives NaN at the end, as in torch, whatever the bits of the NaN are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from compiler.instruction import MatrixType, Opcode
from specs import EOS
from tests.compiler.conftest import ACTIVATIONS, attention, reference_product

pytestmark = pytest.mark.integration
NAN = [0x7FFFFFFF, 0x7FC00000, 0x7F800001, 0x7FC00001, 0x7FA00000, 0x7FC000FF, 0x7FD55555, 0x7FBFFF01]
BITS = [bits | sign for bits in (*NAN, 0x7F800000) for sign in (0, 1 << 31)]
"""Quiet and signalling NaNs of both signs, and both infinities."""
ROWS, WIDTH = len(BITS) + 4, 40
"""The last four rows stay finite."""


def with_bits(x: Tensor) -> Tensor:
    """Return x with one of BITS at a random place of each of the first rows."""
    x = x.clone()
    columns = torch.randint(x.shape[1], (len(BITS),))
    x.view(torch.int32)[torch.arange(len(BITS)), columns] = torch.tensor(BITS, dtype=torch.uint32).view(torch.int32)
    return x


def agree(actual: Tensor, expected: Tensor) -> None:
    """Compare row by row. `HandWrittenProgram.run` returns NaN in a whole row if any element is not finite."""
    bad = ~expected.isfinite().all(1)
    assert bad[: len(BITS)].any()
    assert not bad[len(BITS) :].any()
    assert actual.isnan().all(1).tolist() == bad.tolist()
    torch.testing.assert_close(actual[~bad], expected[~bad], rtol=1e-4, atol=1e-4)


def test_row_operations(new_program: Any) -> None:
    x, y = with_bits(torch.randn(ROWS, WIDTH)), torch.randn(ROWS, WIDTH)
    gain, bias = torch.randn(WIDTH), torch.randn(WIDTH)
    norm = {"opcode": Opcode.NORM, "gain": gain, "bias": bias, "epsilon": 1e-5}
    for expected, fields in (
        (2 * x, None),
        (2 * x + y, {"opcode": Opcode.ADD, "b": 1}),
        (2 * x + y[0], {"opcode": Opcode.POSITION, "rows": ROWS, "table": y}),
        (layer_norm(2 * x, (WIDTH,), gain, bias), norm),
        (layer_norm(2 * x + y, (WIDTH,), gain, bias), {**norm, "b": 1}),
    ):
        program = new_program()
        a, b, out = program.embed(x, scale=2.0), program.embed(y), program.buffer(WIDTH)
        assert b == 1
        if fields:
            program.add(a=a, out=out, width=WIDTH, **fields)
        program.output(out if fields else a, WIDTH)
        agree(program.run_once(ROWS), expected)


@pytest.mark.parametrize("type_", MatrixType)
def test_products(new_program: Any, type_: MatrixType) -> None:
    """ReLU turns minus infinity into 0, as in torch."""
    outer = 23
    for inner in (WIDTH, 5, 37):
        x = with_bits(torch.randn(ROWS, inner))
        w, scales = torch.randint(-127, 128, (inner, outer), dtype=torch.int8), torch.rand(outer) / 127
        w[w == 0] = 1
        expected = reference_product(x, w, scales, type_)
        for kind, activation in ACTIVATIONS.items():
            program = new_program()
            out, matrix = program.buffer(outer), program.weights(w, scales, type_)
            program.add(Opcode.LINEAR, a=program.embed(x), out=out, width=outer, activation=kind, matrix=matrix)
            program.output(out, outer)
            agree(program.run_once(ROWS), activation(expected))


@pytest.mark.parametrize("bad", ["query", "key", "value"])
@pytest.mark.parametrize("length", [1, 17])
def test_attention(new_program: Any, bad: str, length: int) -> None:
    """Over a source whose last token is bad, in the encoder and from the step, and over a past that ends with it."""
    heads, width = 2, 2 * 20
    tables = {name: torch.randn(ROWS, width) for name in ("query", "key", "value")}
    tables[bad] = with_bits(tables[bad])
    size = {"heads": heads, "key_width": 20, "value_width": 20, "scale": 0.3, "width": width}
    program = new_program(memory=[width, width, 1, width], cache=[width, width])
    a, b, c = (program.embed(table, program.encode) for table in tables.values())
    out, one = program.buffer(width), program.embed(torch.ones(ROWS, 1), program.encode)
    program.add(Opcode.ATTEND_SOURCE, program.encode, a=a, b=b, c=c, out=out, **size)
    slots = [(b, width, heads, 1), (c, width, heads, 0), (one, 1, 1, 1), (out, width, 1, 0)]
    for slot, (buffer, numbers, parts, keys) in enumerate(slots):
        program.add(Opcode.STORE_MEMORY, program.encode, out=slot, a=buffer, width=numbers, heads=parts, keys=keys)
    results = program.buffer(3 * width)
    query, key, value = (program.embed(table) for table in tables.values())
    # Equal scores for all positions give the mean of the encoder's attention.
    mean = {"heads": 1, "key_width": 1, "value_width": width, "scale": 1.0, "width": width}
    program.add(Opcode.ATTEND_MEMORY, a=program.embed(torch.ones(ROWS, 1)), b=2, c=3, out=results, **mean)
    program.add(Opcode.ATTEND_MEMORY, a=query, b=0, c=1, out=results, out_column=width, **size)
    program.add(Opcode.APPEND_CACHE, a=key, out=0, width=width)
    program.add(Opcode.APPEND_CACHE, a=value, out=1, width=width)
    program.add(Opcode.ATTEND_CACHE, a=query, b=0, c=1, out=results, out_column=2 * width, **size)
    program.output(results, 3 * width)

    clean = range(len(BITS), ROWS)
    sources = [[*(clean[i % len(clean)] for i in range(length - 1)), last] for last in range(ROWS)]
    state = program.start(torch.tensor(sources).flatten(), [length] * ROWS)
    for t in range(length):
        actual = program.run(state, torch.tensor([source[t] for source in sources]))
        expected = []
        for source in sources:
            q, k, v = (table[source] for table in tables.values())
            own, last = attention(q, k, v, heads, 0.3).mean(0, keepdim=True), slice(t, t + 1)
            past = attention(q[last], k[: t + 1], v[: t + 1], heads, 0.3)
            expected.append(torch.cat([own, attention(q[last], k, v, heads, 0.3), past], 1))
        agree(actual, torch.cat(expected))


@pytest.mark.parametrize("type_", MatrixType)
def test_log_probabilities_of_a_bad_row_are_nan_and_its_tokens_exist(new_program: Any, type_: MatrixType) -> None:
    for ids in (7, 300, 1000):
        x = with_bits(torch.randn(ROWS, WIDTH))
        w, scales = torch.randint(-127, 128, (WIDTH, ids), dtype=torch.int8), torch.rand(ids) / 127
        program = new_program()
        program.logits(program.embed(x), program.weights(w, scales, type_), ids)
        values, chosen, ends, everything = program.first_step(ROWS, 4)
        logits = reference_product(x, w, scales, type_)
        expected = logits.log_softmax(-1).isnan().any(1).tolist()
        for numbers in (values, ends[:, None], everything):
            assert numbers.isnan().all(1).tolist() == expected
            assert not numbers[len(BITS) :].isnan().any()
        assert ((chosen >= 0) & (chosen < ids)).all()


def test_one_logit_that_is_not_finite(new_program: Any) -> None:
    """All log-probabilities of the row become NaN, unless the logit is -inf: then only its token drops out."""
    x, clean = torch.rand(3, WIDTH), torch.randn(300, WIDTH)
    for number, bits in enumerate(BITS):
        table = clean.clone()
        table[number].view(torch.int32)[0] = torch.tensor(bits, dtype=torch.uint32).view(torch.int32)
        program = new_program()
        program.logits(program.embed(x), program.matrix(table.T), len(table))
        values, _, ends, everything = program.first_step(3, 4)
        expected = (x @ table.T).log_softmax(-1)
        assert expected.isnan().any() == (bits != 0xFF800000)
        torch.testing.assert_close(everything, expected, equal_nan=True)
        torch.testing.assert_close(ends, expected[:, EOS], equal_nan=True)
        torch.testing.assert_close(values[:, :1], expected.amax(1, keepdim=True), equal_nan=True)


def test_logits_of_minus_infinity_are_never_chosen(new_program: Any) -> None:
    """Whether they are the first block, the last one, or all."""
    for ids in (30, 1000):
        table = torch.randn(ids, 1)
        x, half = torch.tensor([[1.0], [-1.0], [1.0]]), ids // 2
        table[:half] = -torch.inf
        program = new_program()
        program.logits(program.embed(x), program.matrix(table.T), ids)
        values, chosen, _, everything = program.first_step(3, 3)
        expected = (x @ table.T).log_softmax(-1)
        torch.testing.assert_close(everything, expected, equal_nan=True)
        torch.testing.assert_close(values[0], expected[0].topk(3).values)
        assert (chosen[0] >= half).all()
        assert values[1].isnan().all()
