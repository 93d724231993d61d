"""Norms, positions, gates and grouped heads against their papers' formulas and other implementations."""

from __future__ import annotations

import math

import pytest
import torch

from compiler import Purpose, lower
from compiler.lowering.positions import GridEncoding, Rotate, alibi_slope, relative_bucket
from compiler.operations.attention import Attention
from compiler.runtime import attention, layers
from compiler.runtime.attention import fused_attention
from specs import load
from tests.examples import small


def test_rotary_positions_multiply_complex_numbers() -> None:
    """Features i and i + d/2 are the real and imaginary part of a number, which turns by theta^(-2i/d) a position."""
    x, position = torch.randn(2, 3, 5, 8), torch.tensor([[7, 1, 0, 300, 2], [0, 1, 2, 3, 4]])
    numbers = torch.complex(x[..., :4].double(), x[..., 4:].double())
    angles = position[:, None, :, None] * 100.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    turned = numbers * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned.real, turned.imag], -1).float()
    torch.testing.assert_close(attention.rotate(x, position, theta=100.0), expected)
    torch.testing.assert_close(Rotate(100.0).interpret([x, position], []), expected)


def test_two_dimensional_sinusoids_encode_the_column_and_the_row_of_each_patch() -> None:
    x, rows, encoded = torch.randn(2, 12, 8), 3, torch.zeros(4, 3, 8)  # 4 columns
    angles = torch.arange(4.0)[:, None] / 10_000 ** (torch.arange(2) / 2)
    for start, place in ((0, angles[:, None]), (4, angles[None, :rows])):
        encoded[..., start : start + 4 : 2], encoded[..., start + 1 : start + 4 : 2] = place.sin(), place.cos()
    torch.testing.assert_close(GridEncoding(rows).interpret([x], []), x + encoded.flatten(0, 1))
    torch.testing.assert_close(x + layers.sinusoids_2d(x, rows=rows), x + encoded.flatten(0, 1))


def test_alibi_slopes_are_those_of_its_paper() -> None:
    slopes = {8: [2.0**-n for n in range(1, 9)], 16: [2.0 ** (-n / 2) for n in range(1, 17)]}
    slopes[12] = [*slopes[8], *(2.0 ** -(n + 0.5) for n in range(4))]
    for heads, expected in slopes.items():
        assert [alibi_slope(head, heads) for head in range(heads)] == pytest.approx(expected)
    for heads in range(1, 34):
        bias = attention.alibi_bias(torch.tensor([[[[-3, 0, 2]]]]), heads)[0, :, 0]
        each = torch.tensor([[alibi_slope(head, heads)] for head in range(heads)])
        torch.testing.assert_close(bias, each * torch.tensor([[-3.0, 0.0, -2.0]]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 1000)])
def test_relative_buckets_are_t5s(causal: bool, buckets: int, max_distance: int) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distance = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    expected = t5._relative_position_bucket(distance, not causal, buckets, max_distance)
    assert [relative_bucket(int(d), buckets, max_distance, causal) for d in distance] == expected.tolist()


@pytest.mark.parametrize("biased", [False, True])
def test_grouped_attention_repeats_keys_and_values(biased: bool) -> None:
    query, key, value = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 3)
    hidden, bias = torch.rand(2, 1, 5, 7) < 0.3, torch.randn(1, 6, 5, 7) * biased
    hidden[..., 0] = False
    added = [hidden, bias] if biased else [hidden]
    actual = Attention(0.5, groups=3, biased=biased).interpret([query, key, value, *added], [])
    for head in range(6):
        scores = 0.5 * query[:, head] @ key[:, head // 3].mT + bias[:, head]
        weights = scores.masked_fill(hidden[:, 0], -math.inf).softmax(-1)
        torch.testing.assert_close(actual[:, head], weights @ value[:, head // 3])
    fused = fused_attention(query, key, value, hidden, 0.5, bias=bias if biased else None, grouped=True)
    torch.testing.assert_close(fused, actual)


def test_options_of_a_sublayer_are_only_its_own() -> None:
    """The second sub-layer of a kind has a name of its own, and options do not reach other sub-layers."""
    blocks = [{"kind": "feed_forward"}, {"kind": "self_attention", "h": 1}, {"kind": "feed_forward", "d_ff": 5}]
    graph = lower(small(N=1, encoder=blocks), Purpose.ENCODE)
    shapes, sizes = {name: p.origin.shape for name, p in graph.parameters.items()}, small().architecture
    assert shapes["encoder.0.feed_forward.w1"] == (sizes.d_model, sizes.d_ff)
    assert shapes["encoder.0.feed_forward_2.w1"] == (sizes.d_model, 5)
    assert shapes["encoder.0.self_attention.query"] == (sizes.d_model, sizes.d_k)


def test_a_spec_that_sets_no_option_has_the_graphs_of_one_that_sets_the_defaults() -> None:
    written = [{"kind": "self_attention", "h": 4, "kv_heads": 4, "d_k": 32}, {"kind": "feed_forward", "gated": False}]
    for purpose in Purpose:
        assert lower(load("tiny"), purpose) == lower(load("tiny", {"architecture.encoder": written}), purpose)
