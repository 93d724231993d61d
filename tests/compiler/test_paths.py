"""Table 1 from the graph: steps and paths equal the paper's formulae exactly, for every n, k and r that is tried."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from compiler import Purpose, complexity, lower
from compiler.complexity import END, START, complexity, sublayer_stack
from compiler.graph import Graph
from specs import (
    Convolution,
    FeedForward,
    Lstm,
    RestrictedAttention,
    SelfAttention,
    SeparableConvolution,
    Spec,
    Ssru,
)

LENGTHS = (2, 3, 8, 9, 10, 27, 28, 64, 81, 82, 200)


def log(k: int, n: int) -> int:
    """The least e with k^e >= n, in whole numbers."""
    return next(e for e in count() if k**e >= n)


def over(n: int, each: int) -> int:
    return -(-n // each)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
class TestFormulae:
    def test_self_attention_is_one_step_between_any_two(self, n: int, causal: bool) -> None:
        found = complexity(SelfAttention(kind="self_attention"), n, 8, causal=causal)
        assert (found.steps, found.path) == (1, 1)
        assert found.over_positions(batch=1, source=n) == 4 * n**2 * 8
        assert found.operations(batch=1, source=n) == 4 * n**2 * 8 + 8 * n * 8**2

    @pytest.mark.parametrize("of", [Ssru(kind="ssru"), Lstm(kind="lstm")])
    def test_a_recurrence_takes_a_step_a_position(self, n: int, causal: bool, of: Ssru | Lstm) -> None:
        found = complexity(of, n, 8, causal=causal)
        assert (found.steps, found.path) == (n, n)
        gates = {"ssru": 2 * 2 * 8 * 8, "lstm": 2 * 4 * (8 * 8 + 8 * (8 if causal else 4))}[of.kind]
        assert found.operations(batch=1, source=n) == gates * n

    @pytest.mark.parametrize("r", [1, 4, 20])
    def test_restricted_attention_goes_on_from_neighbour_to_neighbour(self, n: int, causal: bool, r: int) -> None:
        found = complexity(RestrictedAttention(kind="restricted_attention", radius=r), n, 8, causal=causal)
        assert (found.steps, found.path) == (1, over(n - 1, r))
        window, blocks = max(r, 16) + (1 if causal else 2) * r, over(n, max(r, 16)) * max(r, 16)
        assert found.over_positions(batch=1, source=n) == 4 * blocks * window * 8

    @pytest.mark.parametrize("k", [3, 5, 7])
    def test_contiguous_convolutions_take_n_over_k_layers(self, n: int, causal: bool, k: int) -> None:
        side = k - 1 if causal else (k - 1) // 2
        found = complexity(Convolution(kind="convolution", kernel=k, dilated=False), n, 8, causal=causal)
        assert (found.steps, found.path) == (1, over(n - 1, side))
        assert found.operations(batch=1, source=n) == 2 * k * n * 8**2
        separable = complexity(SeparableConvolution(kind="separable_convolution", kernel=k), n, 8, causal=causal)
        assert (separable.steps, separable.path) == (found.steps, found.path)
        assert separable.operations(batch=1, source=n) == 2 * k * n * 8 + 2 * n * 8**2

    @pytest.mark.parametrize("k", [3, 5])
    def test_dilated_ones_take_the_logarithm(self, n: int, causal: bool, k: int) -> None:
        found = complexity(Convolution(kind="convolution", kernel=k, dilated=True), n, 8, causal=causal)
        # Those in the middle of what they read reach half as far to each side.
        assert (found.steps, found.path) == (1, log(k, n if causal else 2 * n - 1))


def test_what_reads_no_other_position_connects_none() -> None:
    with pytest.raises(ValueError, match="layers of `feed_forward` alone connect no positions"):
        complexity(FeedForward(kind="feed_forward"), 3, 8)


def brute(graph: Graph, n: int) -> dict[int, int]:
    """By distance of two positions, the operations over positions on the shortest path, one position at a time."""
    known = {(START, 0): 0}
    for node in graph.nodes:
        reach = node.operation.receptive_field()
        for place, value in enumerate(node.inputs):
            for (of, far), length in list(known.items()):
                if of != value:
                    continue
                if reach is None or place not in reach.across:
                    steps = {0: 0}
                elif reach.in_turn:
                    steps = {m: m + 1 for m in range(n)} if reach.back is None else {0: 1}
                else:
                    back = n - 1 if reach.back is None else reach.back
                    ahead = n - 1 if reach.ahead is None else reach.ahead
                    steps = dict.fromkeys(range(-(ahead // reach.apart) * reach.apart, back + 1, reach.apart), 1)
                for m, more in steps.items():
                    key = node.name, far + m
                    known[key] = min(known.get(key, n * n), length + more)
    return {far: length for (of, far), length in known.items() if of == graph.outputs[END] and 0 <= far < n}


@pytest.mark.parametrize(
    "of",
    [
        SelfAttention(kind="self_attention"),
        RestrictedAttention(kind="restricted_attention", radius=3),
        Ssru(kind="ssru"),
        Convolution(kind="convolution", kernel=3, dilated=False),
        Convolution(kind="convolution", kernel=3, dilated=True),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_connected_is_what_single_positions_show(of: SelfAttention, causal: bool, layers: int) -> None:
    graph = sublayer_stack(of, 8, layers, causal=causal)
    for n in (2, 5, 9, 14, 27, 40):
        found, single = complexity.path_length(graph, START, graph.outputs[END], n), brute(graph, n)
        assert (found is not None) == (len(single) == n)
        assert found is None or found >= single[n - 1]
        reach = complexity.connected_distance(graph, START, graph.outputs[END], n)
        assert set(range(reach + 1)) <= set(single)


def test_of_several_kinds_the_shortest_path_counts(small: Callable[..., Spec]) -> None:
    """A convolution, then a recurrence: from the furthest on, all but two of the positions one after another."""
    kinds = [{"kind": "convolution", "kernel": 5, "dilated": False}, {"kind": "ssru"}, {"kind": "feed_forward"}]
    graph = lower(small(N=1, encoder=kinds), Purpose.ENCODE)
    assert complexity.path_length(graph, "placed", graph.outputs["memory"], 20) == 1 + 18
    assert complexity.sequential_operations(graph, 20) == complexity.sequential_operations(graph, 20, "encoder.0") == 21


def test_a_decoder_looks_at_its_memory_and_not_ahead(small: Callable[..., Spec]) -> None:
    """Attention reads other positions of the memory, and of its own side the query's alone."""
    graph = lower(small(N=2, decoder=[{"kind": "ssru"}, {"kind": "cross_attention"}]), Purpose.SCORE)
    start = next(n.name for n in graph.nodes if n.name.startswith("placed") and "target" in str(n.type))
    (logits,) = (node.inputs[0] for node in graph.nodes if node.name == "logits")
    assert complexity.path_length(graph, start, logits, 12) == 12
