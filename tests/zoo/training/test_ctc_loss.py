"""`training.ctc_weight`: the loss, its gradients, and the encoder that learns from it."""

from __future__ import annotations

from itertools import groupby, product

import pytest
import torch
from torch import Tensor

import specs
from compiler import build_module
from compiler.operations.probability import CtcLoss
from compiler.padded_batch import PaddedBatch
from compiler.runtime import losses
from specs import BOS, EOS, PAD, Spec
from tests.examples import changed, small
from tests.refusals import refused

LABELS = torch.tensor([[4, 4, EOS], [5, 4, EOS], [5, EOS, PAD], [EOS, PAD, PAD]])
LENGTHS = torch.tensor([4, 3, 2, 3])
WEIGHT = 0.5


def path_log_probability(log_probabilities: Tensor, labels: list[int]) -> Tensor:
    """Return the log-probability of all paths that spell the labels: the sum over every possible path."""
    positions, symbols = log_probabilities.shape
    total = log_probabilities.new_full((), -torch.inf)
    for path in product(range(symbols), repeat=positions):
        if [symbol for symbol, _ in groupby(path) if symbol != PAD] == labels:
            total = total.logaddexp(log_probabilities[range(positions), path].sum())
    return total


def expected_nats(logits: Tensor) -> Tensor:
    rows = zip(logits.log_softmax(-1), LENGTHS.tolist(), LABELS.tolist(), strict=True)
    spelled = ((row[:end], [label for label in labels if label > EOS]) for row, end, labels in rows)
    return -torch.stack([path_log_probability(row, labels) for row, labels in spelled]).sum()


def test_the_loss_is_the_probability_of_every_path_that_spells_the_labels() -> None:
    torch.manual_seed(1)
    loss, logits = torch.tensor([3.0, 2.0]), torch.randn(4, 4, 6, requires_grad=True)
    given = (loss, logits, (torch.arange(4) >= LENGTHS[:, None])[:, None, None], LABELS)
    expected = loss + torch.tensor([WEIGHT, 0.0]) * expected_nats(logits)
    torch.testing.assert_close(CtcLoss(WEIGHT).interpret([*given], []), expected)
    computed = losses.ctc_loss(*given, WEIGHT)
    torch.testing.assert_close(computed, expected)
    gradients = [torch.autograd.grad(each[0], logits, retain_graph=True)[0] for each in (computed, expected)]
    torch.testing.assert_close(*gradients)
    assert not gradients[0][2, 2:].any(), "padding has a gradient"


@pytest.mark.parametrize("labels", [[4, 4, 4], [4, 5, 6]])
def test_labels_that_do_not_fit_into_the_positions_add_nothing(labels: list[int]) -> None:
    loss, logits = torch.tensor([3.0, 2.0]), torch.zeros(1, 2, 7, requires_grad=True)
    given = (loss, logits, torch.zeros(1, 1, 1, 2, dtype=torch.bool), torch.tensor([[*labels, EOS]]))
    computed = losses.ctc_loss(*given, WEIGHT)
    assert torch.equal(computed, loss)
    assert torch.equal(CtcLoss(WEIGHT).interpret([*given], []), loss)
    assert not torch.autograd.grad(computed[0], logits)[0].any()


def recognizer(weight: float | None) -> Spec:
    spec = small(N=1, dropout=0.0, source={"kind": "features", "width": 5}, tied_embeddings="target")
    return changed(spec, "training", ctc_weight=weight)


def test_training_teaches_the_encoder_to_spell() -> None:
    torch.manual_seed(1)
    program, without = build_module(recognizer(1.0)), build_module(recognizer(None))
    source, target = PaddedBatch(torch.randn(4, 4, 5), LENGTHS), torch.cat([torch.full((4, 1), BOS), LABELS], 1)

    def nats() -> float:
        without.load_state_dict(program.state_dict())
        return float(program(source, target).smoothed.detach() - without(source, target).smoothed.detach())

    before, optimiser = nats(), torch.optim.Adam(program.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        program(source, target).smoothed.backward()
        optimiser.step()
    assert 0 < nats() < before / 4


def test_models_that_translate_speech_are_refused() -> None:
    refused("and does not translate", specs.load, "speech/everyday-ende", {"training": {"ctc_weight": 0.3}})
