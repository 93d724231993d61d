"""What is no number, or infinite, is no number at the end of every kernel, whatever its bits are, as it is in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import layer_norm

from compiler import TRANSLATE, graphs, runtime
from compiler.backends import BACKENDS, BuildRequest
from compiler.host import cpp_compiler
from compiler.initialization import initial_weights
from compiler.instruction import ActivationKind, Opcode
from specs import EOS, Spec, ZooError
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import search

NAN = [0x7FFFFFFF, 0x7FC00000, 0x7F800001, 0x7FC00001, 0x7FA00000, 0x7FC000FF, 0x7FD55555, 0x7FBFFF01]
BITS = [each | sign for each in (*NAN, 0x7F800000) for sign in (0, 1 << 31)]
"""NaNs of both signs, quiet and signalling, and the infinities."""
ROWS, WIDTH = len(BITS) + 4, 40
"""The last rows are clean."""
CURVES: Mapping[ActivationKind, Callable[[Tensor], Tensor]] = {
    ActivationKind.NONE: torch.clone,
    ActivationKind.RELU: torch.relu,
    ActivationKind.SILU: functional.silu,
    ActivationKind.GELU: functional.gelu,
}


def planted(x: Tensor) -> Tensor:
    """With one of these numbers somewhere in each of the first rows."""
    x = x.clone()
    places = torch.randint(x.shape[1], (len(BITS),))
    x.view(torch.int32)[torch.arange(len(BITS)), places] = torch.tensor(BITS, dtype=torch.uint32).view(torch.int32)
    return x


def agree(found: Tensor, expected: Tensor) -> None:
    """Row by row; what is shown of a row that is not finite is NaN from end to end."""
    bad = ~expected.isfinite().all(1)
    assert bad[: len(BITS)].any()
    assert not bad[len(BITS) :].any()
    assert found.isnan().all(1).tolist() == bad.tolist()
    torch.testing.assert_close(found[~bad], expected[~bad], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", ["embed", "add", "position", "norm", "norm of a sum"])
def test_rows_by_themselves(by_hand: Any, kernel: str) -> None:
    x, y = planted(torch.randn(ROWS, WIDTH)), torch.randn(ROWS, WIDTH)
    gain, bias = torch.randn(WIDTH), torch.randn(WIDTH)
    machine = by_hand()
    a, b, out = machine.embed(x, scale=2.0), machine.embed(y), machine.buffer(WIDTH)
    norm = {"opcode": Opcode.NORM, "gain": gain, "bias": bias, "epsilon": 1e-5}
    expected, fields = {
        "embed": (2 * x, None),
        "add": (2 * x + y, {"opcode": Opcode.ADD, "b": b}),
        "position": (2 * x + y[0], {"opcode": Opcode.POSITION, "rows": ROWS, "table": y}),
        "norm": (layer_norm(2 * x, (WIDTH,), gain, bias), norm),
        "norm of a sum": (layer_norm(2 * x + y, (WIDTH,), gain, bias), {**norm, "b": b}),
    }[kernel]
    if fields:
        machine.add(a=a, out=out, width=WIDTH, **fields)
    machine.show(out if fields else a, WIDTH)
    agree(machine.once(ROWS), expected)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("inner", [WIDTH, 5, 37])
@pytest.mark.parametrize("quantised", [False, True])
def test_products(by_hand: Any, curve: ActivationKind, inner: int, quantised: bool) -> None:
    """The ReLU makes 0 of minus infinity, and so it may."""
    x, outer = planted(torch.randn(ROWS, inner)), 23
    w, scales = torch.randint(-127, 128, (inner, outer), dtype=torch.int8), torch.rand(outer) / 127
    w[w == 0] = 1
    machine = by_hand()
    out = machine.buffer(outer)
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w * scales)
    machine.add(Opcode.LINEAR, a=machine.embed(x), out=out, width=outer, activation=curve, matrix=matrix)
    machine.show(out, outer)
    expected = runtime.quantised_linear(x, w, scales) if quantised else x @ (w * scales)
    agree(machine.once(ROWS), CURVES[curve](expected))


def attention(query: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, keys, values))
    return ((q @ k.mT * 0.3).softmax(-1) @ v).transpose(0, 1).flatten(1)


@pytest.mark.parametrize("where", ["query", "key", "value"])
@pytest.mark.parametrize("length", [1, 5, 17])
def test_attention(by_hand: Any, where: str, length: int) -> None:
    """To a source whose last token is a planted one, in the encoder and from the step, and to a past that ends so."""
    heads, width = 2, 2 * 20
    tables = {name: torch.randn(ROWS, width) for name in ("query", "key", "value")}
    tables[where] = planted(tables[where])
    size = {"heads": heads, "key_width": 20, "value_width": 20, "scale": 0.3, "width": width}
    machine = by_hand(memory=[width, width, 1, width], cache=[width, width])
    a, b, c = (machine.embed(table, machine.encode) for table in tables.values())
    out, one = machine.buffer(width), machine.embed(torch.ones(ROWS, 1), machine.encode)
    machine.add(Opcode.ATTEND_SOURCE, machine.encode, a=a, b=b, c=c, out=out, **size)
    kept = [(b, width, heads, 1), (c, width, heads, 0), (one, 1, 1, 1), (out, width, 1, 0)]
    for slot, (buffer, numbers, parts, keys) in enumerate(kept):
        machine.add(Opcode.STORE_MEMORY, machine.encode, out=slot, a=buffer, width=numbers, heads=parts, keys=keys)
    every = machine.buffer(3 * width)
    query, key, value = (machine.embed(table) for table in tables.values())
    # The mean of all that the encoder's attention gave: the same score for each of its positions.
    mean = {"heads": 1, "key_width": 1, "value_width": width, "scale": 1.0, "width": width}
    machine.add(Opcode.ATTEND_MEMORY, a=machine.embed(torch.ones(ROWS, 1)), b=2, c=3, out=every, **mean)
    machine.add(Opcode.ATTEND_MEMORY, a=query, b=0, c=1, out=every, out_column=width, **size)
    machine.add(Opcode.APPEND_CACHE, a=key, out=0, width=width)
    machine.add(Opcode.APPEND_CACHE, a=value, out=1, width=width)
    machine.add(Opcode.ATTEND_CACHE, a=query, b=0, c=1, out=every, out_column=2 * width, **size)
    machine.show(every, 3 * width)

    clean = range(len(BITS), ROWS)
    sources = [[*(clean[i % len(clean)] for i in range(length - 1)), last] for last in range(ROWS)]
    state = machine.start(torch.tensor(sources).flatten(), [length] * ROWS)
    for t in range(length):
        shown = machine.shown(state, torch.tensor([source[t] for source in sources]))
        expected = []
        for source in sources:
            q, k, v = (table[source] for table in tables.values())
            own, last = attention(q, k, v, heads).mean(0, keepdim=True), slice(t, t + 1)
            past = attention(q[last], k[: t + 1], v[: t + 1], heads)
            expected.append(torch.cat([own, attention(q[last], k, v, heads), past], 1))
        agree(shown, torch.cat(expected))


@pytest.mark.parametrize("ids", [7, 300, 1000])
@pytest.mark.parametrize("quantised", [False, True])
def test_the_likeliest(by_hand: Any, ids: int, quantised: bool) -> None:
    x = planted(torch.randn(ROWS, WIDTH))
    w, scales = torch.randint(-127, 128, (WIDTH, ids), dtype=torch.int8), torch.rand(ids) / 127
    machine = by_hand()
    matrix = machine.matrix(w, scales=scales) if quantised else machine.matrix(w * scales)
    machine.logits(machine.embed(x), matrix, ids)
    tokens = torch.arange(ROWS)
    values, chosen, ends, every = machine.next(machine.start(tokens, [1] * ROWS), tokens, count=4)
    logits = runtime.quantised_linear(x, w, scales) if quantised else x @ (w * scales)
    for numbers in (values, ends[:, None], every):
        assert numbers.isnan().all(1).tolist() == logits.log_softmax(-1).isnan().any(1).tolist()
        assert not numbers[len(BITS) :].isnan().any()
    assert ((chosen >= 0) & (chosen < ids)).all()


def test_the_likeliest_where_one_logit_is_not_finite(by_hand: Any) -> None:
    """The others are numbers, and have no log-probability either: but for one token that is impossible."""
    x, clean = torch.rand(3, WIDTH), torch.randn(300, WIDTH)
    for number, bits in enumerate(BITS):
        table = clean.clone()
        table[number].view(torch.int32)[0] = torch.tensor(bits, dtype=torch.uint32).view(torch.int32)
        machine = by_hand()
        machine.logits(machine.embed(x), machine.matrix(table.T), len(table))
        tokens = torch.arange(3)
        values, _, ends, every = machine.next(machine.start(tokens, [1] * 3), tokens, count=4)
        expected = (x @ table.T).log_softmax(-1)
        assert expected.isnan().any() == (bits != 0xFF800000)
        torch.testing.assert_close(every, expected, equal_nan=True)
        torch.testing.assert_close(ends, expected[:, EOS], equal_nan=True)
        torch.testing.assert_close(values[:, :1], expected.amax(1, keepdim=True), equal_nan=True)


@pytest.mark.parametrize("wide", [False, True])
def test_logits_that_are_minus_infinity_are_pieces_that_cannot_be(by_hand: Any, wide: bool) -> None:
    """Be they the first block of them, the last or all; a table of one number a token makes them."""
    table = torch.randn(1000 if wide else 30, 1)
    row, half = torch.tensor([[1.0], [-1.0], [1.0]]), len(table) // 2
    table[:half] = -torch.inf
    machine = by_hand()
    machine.logits(machine.embed(row), machine.matrix(table.T), len(table))
    tokens = torch.arange(3)
    values, ids, _, every = machine.next(machine.start(tokens, [1] * 3), tokens, count=3)
    expected = (row @ table.T).log_softmax(-1)
    torch.testing.assert_close(every, expected, equal_nan=True)
    torch.testing.assert_close(values[0], expected[0].topk(3).values)
    assert (ids[0] >= half).all()
    assert values[1].isnan().all()


@pytest.mark.skipif(cpp_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_model_with_such_a_number_translates_nothing(small: Callable[..., Spec], precision: str) -> None:
    """In whichever tensor it is (here every third): what eager refuses, native does, in the same words."""
    spec = small(N=1)
    lowered = graphs(spec, TRANSLATE, precision=precision)
    clean, source = initial_weights(spec, lowered), Source(0, (7, 8, 9, 3), 6)
    for number, (name, tensor) in enumerate(list(clean.items())[::3]):
        broken, bits = tensor.clone(), BITS[number % len(BITS)]
        # A token that the source does not have, and that has a logit.
        place = 50 * spec.architecture.d_model if name == "embedding" else 0
        broken.view(-1).view(torch.int32)[place] = bits - (bits >> 31 << 32)
        order = BuildRequest(spec, lowered, {**clean, name: broken}, precision=precision)
        for backend in ("eager", "native"):
            program: Any = BACKENDS[backend].build(order)
            with pytest.raises(ZooError, match="not usable numbers"):
                next(search(program, [[source]], BeamSearch(2, 0.6), 64))
