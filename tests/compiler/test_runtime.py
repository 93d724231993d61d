"""Functions of emitted code against the formulas of the paper: positions, losses, dropout, 8-bit products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from torch.nn import functional as F

from compiler.operations.probability import CrossEntropy
from compiler.runtime import layers, losses
from compiler.runtime.layers import MAX_INT8_PRODUCTS
from specs import PAD
from tests.compiler.conftest import run_python

LABELS = torch.tensor([[4, 5, 10, 1, PAD], [9, 3, PAD, PAD, PAD]])


@pytest.mark.parametrize("halves", [False, True])
def test_sinusoids_are_exact_at_late_positions(halves: bool) -> None:
    """Sines and cosines alternate or, as in the authors' code, all sines come first, with other wavelengths."""
    x = torch.zeros(1, 40, 10)
    encoding = layers.sinusoids(x, torch.arange(3000, 3040)[None], halves=halves)[0]
    for row, i in [(0, 0), (7, 2), (39, 4)]:
        angle = (3000 + row) / 10000 ** (i / 4 if halves else 2 * i / 10)
        found = encoding[row, [i, 5 + i] if halves else [2 * i, 2 * i + 1]]
        assert found.tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)
    counted = layers.sinusoids(x, halves=halves)
    assert torch.equal(counted, layers.sinusoids(x, torch.arange(40)[None], halves=halves)[0])


@pytest.mark.parametrize("inner", [MAX_INT8_PRODUCTS, MAX_INT8_PRODUCTS + 1, 3 * MAX_INT8_PRODUCTS - 5])
def test_sums_of_8_bit_products_are_exact_for_any_row_length(inner: int) -> None:
    matrix, x = torch.full((inner, 16), 127, dtype=torch.int8), torch.full((17, inner), 127.0)
    matrix[:, 1], matrix[::2, 2] = -127, 0
    x[1, ::3] = -127.0
    assert torch.equal(layers.quantised_linear(x, matrix, torch.ones(16)), (x.double() @ matrix.double()).float())


@pytest.mark.parametrize("sizes", [(1, 1, 2), (17, 1, 33), (4, 1, 5), (1, 5, 33), (1, 2, 1), (3, 4, 1)], ids=str)
def test_int8_products_of_single_rows_and_columns_are_exact_with_any_strides(sizes: tuple[int, int, int]) -> None:
    """torch._int_mm reads other memory, for example if d_model is 1, or if torch.compile chooses the strides (0, 1)."""
    rows, inner, columns = sizes
    x, matrix = torch.randint(-127, 128, (rows, inner)), torch.randint(-127, 128, (inner, columns))
    x[:, 0] = 127

    def strided(values: torch.Tensor) -> Iterator[torch.Tensor]:
        values = values.char()
        yield values
        yield values.T.contiguous().T
        if 1 in values.shape:
            yield values.as_strided(values.shape, (1, 1))
        if len(values) == 1:
            yield values.as_strided(values.shape, (0, 1))

    for each, other in product(strided(x), strided(matrix)):
        found = layers.quantised_linear(each.float(), other, torch.ones(columns))
        assert torch.equal(found, (x @ matrix).float()), (each.stride(), other.stride())
        exact = layers._exact_int8_product(each, other)
        assert torch.equal(exact.long(), x @ matrix), (each.stride(), other.stride())


@pytest.mark.integration
def test_sums_of_8_bit_products_are_exact_without_vnni() -> None:
    """oneDNN's kernels for AVX2 add pairs of products in 16 bits, which are too few for the largest numbers."""
    code = (
        "import torch; from compiler.runtime.layers import quantised_linear; "
        "x, matrix = torch.full((17, 64), 127.0), torch.full((64, 16), 127, dtype=torch.int8); "
        "assert (quantised_linear(x, matrix, torch.ones(16)) == 64 * 127**2).all()"
    )
    run_python(code, ONEDNN_MAX_CPU_ISA="AVX2")


def test_8_bit_rows_of_tiny_numbers_are_zero_and_rows_with_infinity_or_nan_are_nan() -> None:
    x = torch.tensor([[1e-39, -1e-40, 0.0], [1.0, torch.inf, 0.0], [1.0, torch.nan, 0.0]])
    actual = layers.quantised_linear(x, torch.ones(3, 2, dtype=torch.int8), torch.ones(2))
    assert actual[0].abs().max() < 1e-38
    assert actual[1:].isnan().all()


@pytest.mark.parametrize("wrong_classes", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [11, 16])
def test_the_chunked_loss_and_its_gradient_follow_the_formula(
    monkeypatch: pytest.MonkeyPatch, wrong_classes: bool, smoothing: float, rows: int, biased: bool
) -> None:
    classes, labels = 11, LABELS
    monkeypatch.setattr(losses, "CHUNK", 3 * rows)  # three positions at a time,
    monkeypatch.setattr(losses, "_BLOCK", 3 * rows // 2)  # of which two become gradients together
    table, x, bias = (torch.randn(shape, requires_grad=True) for shape in ((rows, 4), (2, 5, 4), (rows,)))
    ours = losses.chunked_loss(x, table, labels, smoothing, wrong_classes, classes, bias if biased else None)

    log_p = (x @ table[:classes].T + biased * bias[:classes]).log_softmax(-1)
    wrong = smoothing / (classes - 1) if wrong_classes else smoothing / classes
    right = 1 - smoothing if wrong_classes else 1 - smoothing + wrong
    wanted = F.one_hot(labels, classes) * (right - wrong) + wrong
    expected = -(wanted * log_p).sum(-1)[labels != PAD].sum()
    plain = -log_p.gather(-1, labels[..., None])[..., 0][labels != PAD].sum()
    torch.testing.assert_close(ours, torch.stack([expected, plain]))

    trained = [x, table, *([bias] if biased else [])]
    gradients = torch.autograd.grad(3 * ours[0], trained)
    for a, b in zip(gradients, torch.autograd.grad(3 * expected, trained), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("wrong_classes", [True, False])
def test_impossible_tokens_get_no_share_of_a_smoothed_loss(wrong_classes: bool) -> None:
    """The loss is that of a vocabulary without them, chunked or not, and their parameters get no gradient."""
    closed, labels = torch.tensor([0, 2, 7]), LABELS
    table, x = torch.randn(11, 4, requires_grad=True), torch.randn(2, 5, 4)
    bias = torch.randn(11).index_fill(0, closed, -1e9).requires_grad_()
    left = torch.tensor([token for token in range(11) if token not in closed])
    numbers = torch.zeros(11, dtype=torch.long).index_copy(0, left, torch.arange(len(left)))
    real = labels != PAD
    log_p, spread = (x @ table.T + bias)[..., left][real].log_softmax(-1), 0.1 / (7 if wrong_classes else 8)
    right = F.one_hot(numbers[labels[real]], 8) * (0.9 - spread * wrong_classes)
    expected = -((right + spread) * log_p).sum()
    interpreted = CrossEntropy(0.1, wrong_classes).interpret([x @ table.T + bias, labels], [])
    whole = losses.smoothed_loss(x @ table.T + bias, labels, 0.1, wrong_classes)
    chunked = losses.chunked_loss(x, table, labels, 0.1, wrong_classes, 11, bias)
    for actual in (whole, chunked, interpreted):
        torch.testing.assert_close(actual[0], expected)
        for gradient in torch.autograd.grad(actual[0], [table, bias], retain_graph=True):
            assert not gradient[closed].any()
            assert gradient[left].all()


@pytest.mark.parametrize("probability", [0.1, 0.3])
@pytest.mark.parametrize("shape", [(501, 7, 31), (40_003,)])
def test_dropout_drops_its_share_and_keeps_the_mean(probability: float, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    dropped = layers.dropout(x, probability, training=True)
    deviation = (probability * (1 - probability) / x.numel()) ** 0.5
    assert float((dropped == 0).float().mean()) == pytest.approx(probability, abs=5 * deviation)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - probability)])
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped.detach())
    assert not torch.equal(dropped, layers.dropout(x, probability, training=True))
    assert layers.dropout(x, probability, training=False) is x


def test_dropout_of_neighbouring_elements_is_independent() -> None:
    """Four elements share one random number of 64 bits, so they must not be correlated."""
    kept = (layers.dropout(torch.ones(400_000), 0.5, training=True) > 0).view(-1, 4).float()
    assert (torch.corrcoef(kept.T) - torch.eye(4)).abs().max() < 0.02
