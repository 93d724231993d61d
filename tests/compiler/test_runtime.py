"""Positions and the loss, against the paper's formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from compiler import runtime
from compiler.operations.probability import CrossEntropy
from specs import PAD


def test_sinusoids_are_interleaved_and_exact_far_out() -> None:
    encoding = runtime.sinusoids(torch.zeros(1, 40, 10), torch.arange(3000, 3040)[None])[0]
    for row, i in [(0, 0), (7, 2), (39, 4)]:
        angle = (3000 + row) / 10000 ** (2 * i / 10)
        assert float(encoding[row, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
        assert float(encoding[row, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_in_halves_are_the_authors_codes() -> None:
    """Sines, then cosines, of waves from 2 pi to 10000 times that."""
    given = torch.arange(3000, 3040)[None]
    encoding = runtime.sinusoids(torch.zeros(1, 40, 10), given, halves=True)[0]
    for row, i in [(0, 0), (7, 2), (39, 4)]:
        angle = (3000 + row) / 10000 ** (i / 4)
        assert float(encoding[row, i]) == pytest.approx(math.sin(angle), abs=1e-6)
        assert float(encoding[row, 5 + i]) == pytest.approx(math.cos(angle), abs=1e-6)
    counted = runtime.sinusoids(torch.zeros(1, 40, 10), halves=True)
    assert torch.equal(counted, runtime.sinusoids(torch.zeros(1, 40, 10), torch.arange(40)[None], halves=True)[0])
    assert not torch.equal(counted, runtime.sinusoids(torch.zeros(1, 40, 10)))


@pytest.mark.parametrize(
    "inner", [runtime.MAX_INT8_PRODUCTS, runtime.MAX_INT8_PRODUCTS + 1, 3 * runtime.MAX_INT8_PRODUCTS - 5]
)
def test_sums_in_int8_are_exact_however_many_products_they_have(inner: int) -> None:
    matrix = torch.full((inner, 16), 127, dtype=torch.int8)
    matrix[:, 1], matrix[::2, 2] = -127, 0
    x = torch.full((17, inner), 127.0)
    x[1, ::3] = -127.0
    expected = (x.double() @ matrix.double()).float()
    assert torch.equal(runtime.quantised_linear(x, matrix, torch.ones(16)), expected)


def test_rows_in_int8_that_are_tiny_are_nothing_and_those_that_are_infinite_are_no_numbers() -> None:
    x = torch.tensor([[1e-39, -1e-40, 0.0], [1.0, torch.inf, 0.0], [1.0, torch.nan, 0.0]])
    found = runtime.quantised_linear(x, torch.ones(3, 2, dtype=torch.int8), torch.ones(2))
    assert found[0].abs().max() < 1e-38
    assert found[1:].isnan().all()


@pytest.mark.parametrize("wrong_classes", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [11, 16])
def test_the_chunked_loss_and_its_gradient_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, wrong_classes: bool, smoothing: float, rows: int, biased: bool
) -> None:
    classes = 11
    monkeypatch.setattr(runtime, "CHUNK", 3 * rows)  # three positions at a time
    table, x = torch.randn(rows, 4, requires_grad=True), torch.randn(2, 5, 4, requires_grad=True)
    bias = torch.randn(rows, requires_grad=True)
    labels = torch.tensor([[4, 5, 10, 1, PAD], [9, 3, PAD, PAD, PAD]])
    ours = runtime.chunked_loss(x, table, labels, smoothing, wrong_classes, classes, bias if biased else None)

    log_p = (x @ table[:classes].T + biased * bias[:classes]).log_softmax(-1)
    right = 1 - smoothing if wrong_classes else 1 - smoothing + smoothing / classes
    wrong = smoothing / (classes - 1) if wrong_classes else smoothing / classes
    wanted = F.one_hot(labels, classes) * (right - wrong) + wrong
    expected = -(wanted * log_p).sum(-1)[labels != PAD].sum()
    plain = -log_p.gather(-1, labels[..., None])[..., 0][labels != PAD].sum()
    torch.testing.assert_close(ours, torch.stack([expected, plain]))

    trained = [x, table, *([bias] if biased else [])]
    gradients = torch.autograd.grad(3 * ours[0], trained)
    for a, b in zip(gradients, torch.autograd.grad(3 * expected, trained), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("wrong_classes", [True, False])
def test_pieces_that_cannot_come_have_no_part_in_a_smoothed_loss(wrong_classes: bool) -> None:
    """The loss is that of the vocabulary without them, whole or in chunks, and nothing of theirs is trained."""
    closed, labels = torch.tensor([0, 2, 7]), torch.tensor([[4, 5, 10, 1, PAD], [9, 3, PAD, PAD, PAD]])
    table, x = torch.randn(11, 4, requires_grad=True), torch.randn(2, 5, 4)
    bias = torch.randn(11).index_fill(0, closed, -1e9).requires_grad_()
    left = torch.tensor([token for token in range(11) if token not in closed])
    numbers = torch.zeros(11, dtype=torch.long).index_copy(0, left, torch.arange(len(left)))
    logits, real = (x @ table.T + bias)[..., left], labels != PAD
    log_p = logits[real].log_softmax(-1)
    spread = 0.1 / (7 if wrong_classes else 8)
    right = F.one_hot(numbers[labels[real]], 8) * (0.9 - spread * wrong_classes)
    expected = -((right + spread) * log_p).sum()
    loss = CrossEntropy(0.1, wrong_classes)
    whole = runtime.smoothed_loss(x @ table.T + bias, labels, 0.1, wrong_classes)
    chunked = runtime.chunked_loss(x, table, labels, 0.1, wrong_classes, 11, bias)
    for found in (whole, chunked, loss.interpret([x @ table.T + bias, labels], [])):
        torch.testing.assert_close(found[0], expected)
        for gradient in torch.autograd.grad(found[0], [table, bias], retain_graph=True):
            assert not gradient[closed].any()
            assert gradient[left].all()


def test_spread_over_all_classes_is_torchs_label_smoothing() -> None:
    logits, labels = torch.randn(2, 3, 11), torch.tensor([[4, 5, 6], [7, PAD, PAD]])
    ours = runtime.smoothed_loss(logits, labels, 0.1, wrong_classes=False)[0]
    theirs = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("probability", [0.1, 0.3])
@pytest.mark.parametrize("shape", [(501, 7, 31), (40_003,)])
def test_dropout_zeroes_its_share_and_keeps_the_mean(probability: float, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    dropped = runtime.dropout(x, probability, training=True)
    share = float((dropped == 0).float().mean())
    deviation = (probability * (1 - probability) / x.numel()) ** 0.5
    assert share == pytest.approx(probability, abs=5 * deviation)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - probability)])
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped.detach())
    assert not torch.equal(dropped, runtime.dropout(x, probability, training=True))
    assert runtime.dropout(x, probability, training=False) is x


def test_dropout_decides_on_neighbours_independently() -> None:
    """Four of them share a draw of 64 bits, so each of the four places must be free of the others."""
    kept = (runtime.dropout(torch.ones(400_000), 0.5, training=True) > 0).view(-1, 4).float()
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlation.abs().max() < 0.02
