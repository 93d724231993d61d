"""Table 1 from graphs: sequential operations and path lengths equal the paper's formulas for every n, k and r tried."""

from __future__ import annotations

from itertools import count
from math import ceil

import pytest

from compiler import Purpose, lower
from compiler.costs import Connections, complexity, connections, sequential_operations
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from tests.examples import small

LENGTHS = (2, 3, 8, 9, 10, 27, 28, 64, 81, 82, 200)


def log(k: int, n: int) -> int:
    """Return the smallest e with k^e >= n."""
    return next(e for e in count() if k**e >= n)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
class TestFormulas:
    def test_self_attention(self, n: int, causal: bool) -> None:
        found = complexity(SelfAttention(kind="self_attention"), n, 8, causal=causal)
        assert (found.sequential_operations, found.max_path_length) == (1, 1)
        assert found.mixing_flops(batch=1, source=n) == 4 * n**2 * 8
        assert found.flops(batch=1, source=n) == 4 * n**2 * 8 + 8 * n * 8**2

    def test_recurrences(self, n: int, causal: bool) -> None:
        gates = {Ssru(kind="ssru"): 2 * 2 * 8 * 8, Lstm(kind="lstm"): 2 * 4 * (8 * 8 + 8 * (8 if causal else 4))}
        for sublayer, flops in gates.items():
            found = complexity(sublayer, n, 8, causal=causal)
            assert (found.sequential_operations, found.max_path_length) == (n, n)
            assert found.flops(batch=1, source=n) == flops * n

    def test_restricted_attention(self, n: int, causal: bool) -> None:
        for r in (1, 4, 20):
            found = complexity(RestrictedAttention(kind="restricted_attention", radius=r), n, 8, causal=causal)
            assert (found.sequential_operations, found.max_path_length) == (1, ceil((n - 1) / r))
            window, blocks = max(r, 16) + (1 if causal else 2) * r, ceil(n / max(r, 16)) * max(r, 16)
            assert found.mixing_flops(batch=1, source=n) == 4 * blocks * window * 8

    def test_contiguous_and_separable_convolutions(self, n: int, causal: bool) -> None:
        for k in (3, 5, 7):
            side = k - 1 if causal else (k - 1) // 2
            found = complexity(Convolution(kind="convolution", kernel=k, dilated=False), n, 8, causal=causal)
            assert (found.sequential_operations, found.max_path_length) == (1, ceil((n - 1) / side))
            assert found.flops(batch=1, source=n) == 2 * k * n * 8**2
            separable = complexity(SeparableConvolution(kind="separable_convolution", kernel=k), n, 8, causal=causal)
            assert (separable.sequential_operations, separable.max_path_length) == (1, found.max_path_length)
            assert separable.flops(batch=1, source=n) == 2 * k * n * 8 + 2 * n * 8**2

    def test_dilated_convolutions(self, n: int, causal: bool) -> None:
        for k in (3, 5):
            found = complexity(Convolution(kind="convolution", kernel=k, dilated=True), n, 8, causal=causal)
            # A centred kernel reaches half as far to each side.
            expected = log(k, n if causal else 2 * n - 1)
            assert (found.sequential_operations, found.max_path_length) == (1, expected)


def test_the_shortest_path_may_use_several_kinds() -> None:
    """A convolution over two positions each side, then a recurrence over the remaining ones."""
    kinds = [{"kind": "convolution", "kernel": 5, "dilated": False}, {"kind": "ssru"}, {"kind": "feed_forward"}]
    graph = lower(small(N=1, encoder=kinds), Purpose.ENCODE)
    assert connections(graph, "positioned", graph.outputs["memory"], 20) == Connections(19, 1 + 18)
    assert sequential_operations(graph, 20) == sequential_operations(graph, 20, "encoder.0") == 21


def test_cross_attention_reads_only_its_own_position_of_the_target() -> None:
    graph = lower(small(N=2, decoder=[{"kind": "ssru"}, {"kind": "cross_attention"}]), Purpose.SCORE)
    start = next(n.name for n in graph.nodes if n.name.startswith("positioned") and "target" in str(n.type))
    (logits,) = (node.inputs[0] for node in graph.nodes if node.name == "logits")
    assert connections(graph, start, logits, 12) == Connections(11, 12)
