"""NaN or infinity in an input of a kernel gives NaN at the end, as in torch, whatever the bits of the NaN are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from compiler.instruction import MatrixType, Opcode
from compiler.runtime.layers import ssru
from specs import EOS
from tests.compiler.conftest import ACTIVATIONS, attending_program, attention, reference_product

pytestmark = pytest.mark.integration
NAN = [0x7FFFFFFF, 0x7FC00000, 0x7F800001, 0x7FC00001, 0x7FA00000, 0x7FC000FF, 0x7FD55555, 0x7FBFFF01]
BITS = [bits | sign for bits in (*NAN, 0x7F800000) for sign in (0, 1 << 31)]
"""Quiet and signalling NaNs of both signs, and both infinities."""
ROWS, WIDTH = len(BITS) + 4, 40
"""The last four rows stay finite."""


def with_bits(x: Tensor) -> Tensor:
    """Return x with one of BITS at a random place of each of the first rows."""
    x, columns = x.clone(), torch.randint(x.shape[1], (len(BITS),))
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
    gain, bias = torch.randn(2, WIDTH)
    norm = {"gain": gain, "bias": bias, "epsilon": 1e-5}
    for opcode, expected, fields in (
        (Opcode.EMBED, 2 * x, {"rows": ROWS, "table": x, "scale": 2.0}),
        (Opcode.ADD, x + y, {"b": 0}),
        (Opcode.POSITION, x + y[0], {"rows": ROWS, "table": y}),
        (Opcode.NORM, layer_norm(x, (WIDTH,), gain, bias), norm),
        (Opcode.NORM, layer_norm(x + y, (WIDTH,), gain, bias), {**norm, "b": 0}),
    ):
        program = new_program()
        assert program.embed(y) == 0
        agree(program.apply(opcode, x, WIDTH, **fields), expected)


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
            matrix = program.matrix(w, scales, type_)
            agree(program.apply(Opcode.LINEAR, x, outer, activation=kind, matrix=matrix), activation(expected))


@pytest.mark.parametrize("bad", ["query", "key", "value"])
@pytest.mark.parametrize("length", [1, 17])
def test_attention(new_program: Any, bad: str, length: int) -> None:
    """Over a source whose last token is bad, in the encoder and from the step, and over a past that ends with it."""
    tables = {name: torch.randn(ROWS, WIDTH) for name in ("query", "key", "value")}
    tables[bad] = with_bits(tables[bad])
    program, clean = attending_program(new_program, list(tables.values()), heads=2), range(len(BITS), ROWS)
    sources = [[*(clean[i % len(clean)] for i in range(length - 1)), last] for last in range(ROWS)]
    state = program.start(torch.tensor(sources).flatten(), [length] * ROWS)
    for t in range(length):
        actual, expected = program.run(state, torch.tensor([source[t] for source in sources])), []
        for source in sources:
            q, k, v = (table[source] for table in tables.values())
            own, query = 0 * attention(q, k, v, 2, 0.3).sum(), q[t : t + 1]  # the lookup multiplies all by 0 or 1
            past, recurrent = attention(query, k[: t + 1], v[: t + 1], 2, 0.3), ssru(q[None], k[None])[0, t : t + 1]
            expected.append(torch.cat([own + attention(query, k, v, 2, 0.3)] * 2 + [past, recurrent], 1))
        agree(actual, torch.cat(expected))


@pytest.mark.parametrize("type_", MatrixType)
def test_log_probabilities_of_a_bad_row_are_nan_and_its_tokens_exist(new_program: Any, type_: MatrixType) -> None:
    for ids in (7, 300, 1000):
        x = with_bits(torch.randn(ROWS, WIDTH))
        w, scales = torch.randint(-127, 128, (WIDTH, ids), dtype=torch.int8), torch.rand(ids) / 127
        program = new_program()
        values, chosen, ends, everything = program.top(x, program.matrix(w, scales, type_), ids, 4)
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
        values, _, ends, everything = program.top(x, program.matrix(table.T), len(table), 4)
        expected = (x @ table.T).log_softmax(-1)
        assert expected.isnan().any() == (bits != 0xFF800000)
        torch.testing.assert_close(everything, expected, equal_nan=True)
        torch.testing.assert_close(ends, expected[:, EOS], equal_nan=True)
        torch.testing.assert_close(values[:, :1], expected.amax(1, keepdim=True), equal_nan=True)


def test_logits_of_minus_infinity_are_never_chosen(new_program: Any) -> None:
    """Whether they are the first block, the last one, or all."""
    for ids in (30, 1000):
        table, x, half = torch.randn(ids, 1), torch.tensor([[1.0], [-1.0], [1.0]]), ids // 2
        table[:half] = -torch.inf
        program = new_program()
        values, chosen, _, everything = program.top(x, program.matrix(table.T), ids, 3)
        expected = (x @ table.T).log_softmax(-1)
        torch.testing.assert_close(everything, expected, equal_nan=True)
        torch.testing.assert_close(values[0], expected[0].topk(3).values)
        assert (chosen[0] >= half).all()
        assert values[1].isnan().all()
