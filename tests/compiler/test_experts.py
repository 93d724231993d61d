"""Mixtures of experts against the formulas of their paper, written in plain torch (Shazeer et al. 2017)."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from compiler import Purpose, lower
from compiler.assemble import initial_weights
from compiler.runtime.layers import mix_experts, noisy_top_k_gates, top_k_gates
from tests.examples import small

MIXTURE: dict[str, object] = {"kind": "mixture_of_experts", "experts": 4, "top_k": 2}


def test_gates_are_the_softmax_of_the_largest_scores() -> None:
    x, gate = torch.randn(2, 5, 8), torch.randn(8, 6)
    for scores, found in zip((x @ gate).flatten(0, 1), top_k_gates(x, gate, 3).flatten(0, 1), strict=True):
        exponents = scores.exp() * (scores >= scores.sort().values[-3])
        torch.testing.assert_close(found, exponents / exponents.sum())


def test_a_mixture_is_the_weighted_sum_of_the_selected_experts() -> None:
    x, gates = torch.randn(2, 5, 8), top_k_gates(torch.randn(2, 5, 8), torch.randn(8, 4), 2)
    w1, b1, w2, b2 = torch.randn(4, 8, 9), torch.randn(4, 9), torch.randn(4, 9, 8), torch.randn(4, 8)
    mixed = mix_experts(x, gates, w1, b1, w2, b2)
    for inputs, weights, found in zip(x.flatten(0, 1), gates.flatten(0, 1), mixed.flatten(0, 1), strict=True):
        selected = weights.nonzero().flatten().tolist()
        expected = sum(weights[e] * ((inputs @ w1[e] + b1[e]).relu() @ w2[e] + b2[e]) for e in selected)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_noise_has_the_learned_deviation_and_is_active_in_training_only() -> None:
    x, gate, noise = torch.ones(1, 4000, 1), torch.tensor([[0.3, 0.0]]), torch.tensor([[-1.0, 1.0]])
    gates = noisy_top_k_gates(x, gate, noise, 2, 0.0, training=True)
    # The softmax of two scores keeps their difference.
    scores, deviation = gates.log().diff(dim=-1), functional.softplus(noise).square().sum().sqrt()
    assert scores.mean().item() == pytest.approx(-0.3, abs=0.15)
    assert scores.std().item() == pytest.approx(deviation.item(), rel=0.1)
    assert torch.equal(noisy_top_k_gates(x, gate, noise, 2, 0.0, training=False), top_k_gates(x, gate, 2))


def test_the_gradient_of_the_balance_loss() -> None:
    """Equation 7: the squared coefficient of variation of the importance."""
    x, gate, noise = torch.randn(2, 5, 3), torch.randn(3, 4, requires_grad=True), torch.full((3, 4), -1e4)
    x = x.abs()  # so that softplus(x W_noise) is 0
    noisy_top_k_gates(x, gate, noise, 2, 0.3, training=True).backward(torch.zeros(2, 5, 4))
    importance = top_k_gates(x, gate, 2).sum((0, 1))
    loss = 0.3 * importance.var(correction=0) / importance.mean().square()
    (expected,) = torch.autograd.grad(loss, gate)
    torch.testing.assert_close(gate.grad, expected)


def test_experts_start_from_weights_of_the_size_of_a_feed_forward_network() -> None:
    spec = small(encoder=[MIXTURE, {"kind": "feed_forward"}], d_model=64, d_ff=64)
    weights = initial_weights(spec, {Purpose.SCORE: lower(spec, Purpose.SCORE)})
    for name in ("w1", "w2"):
        alone = weights[f"encoder.0.feed_forward.{name}"]
        for expert in weights[f"encoder.0.mixture_of_experts.{name}"]:
            assert expert.std().item() == pytest.approx(alone.std().item(), rel=0.1)
