"""Attention against the paper's formulas (3.2.1), with each score that a query and a key can have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from compiler import Purpose, build, lower, trainable
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout
from compiler.runtime import additive_scores
from specs import Spec


def test_an_additive_score_is_a_feed_forward_network_of_query_and_key() -> None:
    """v tanh(W query + U key), a head at a time; W and U are the head's own projections."""
    query, key, vector = torch.randn(3, 2, 5, 6), torch.randn(3, 2, 4, 6), torch.randn(2, 6)
    found = additive_scores(query, key, vector)
    for head in range(2):
        network = nn.Sequential(nn.Tanh(), nn.Linear(6, 1, bias=False))
        network[1].weight.data[:] = vector[head]
        for i in range(5):
            for j in range(4):
                expected = network(query[:, head, i] + key[:, head, j])[:, 0]
                torch.testing.assert_close(found[:, head, i, j], expected)


@pytest.mark.parametrize(
    ("score", "scale", "vectors"), [("scaled_dot_product", 6**-0.5, 0), ("dot_product", 1.0, 0), ("additive", 1.0, 1)]
)
def test_every_attention_has_the_score_of_the_spec(
    small: Callable[..., Spec], score: str, scale: float, vectors: int
) -> None:
    graph = lower(small(attention_score=score), Purpose.TRAIN)
    found = [node for node in graph.nodes if isinstance(node.operation, Attention)]
    assert len(found) == 6
    assert {(node.operation.scale, len(node.parameters)) for node in found} == {(scale, vectors)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("score", ["dot_product", "additive"])
def test_it_is_trained_and_its_padding_hidden_with_every_score(small: Callable[..., Spec], score: str) -> None:
    program = trainable(small(attention_score=score, dropout=0.0))
    source, target = torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[2, 8, 9, 3], [2, 10, 3, 0]])
    both = program(source, target).smoothed
    alone = sum(program(source[[i]][:, : 3 - i], target[[i]][:, : 4 - i]).smoothed for i in range(2))
    torch.testing.assert_close(both, alone)
    both.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in program.parameters())


def test_the_inner_layer_of_the_feed_forward_network_drops_out(small: Callable[..., Spec]) -> None:
    spec = small(activation_dropout=0.25, dropout=0.0)
    graph = lower(spec, Purpose.TRAIN)
    inner = [node for node in graph.nodes if node.operation == Dropout(0.25)]
    assert [node.type.shape[-1].constant for node in inner] == [spec.architecture.d_ff] * 4
    program, batch = trainable(spec), (torch.tensor([[5, 6, 3]]), torch.tensor([[2, 8, 3]]))
    assert program(*batch).plain != program(*batch).plain
    assert "dropout" not in build(spec, [Purpose.SCORE]).code  # type: ignore[union-attr]


@pytest.mark.parametrize("scaled", [True, False])
def test_large_products_leave_the_softmax_no_gradient(scaled: bool) -> None:
    """3.2.1: with d_k the variance of a product grows, and the softmax of large numbers is nearly flat."""
    torch.manual_seed(0)

    def slope(d_k: int) -> float:
        """How far the weights move with the scores: the mean of their Jacobian's largest entries."""
        query, key = torch.randn(256, 1, d_k), torch.randn(256, 32, d_k)
        weights = (query @ key.mT * (d_k**-0.5 if scaled else 1.0)).softmax(-1)
        return float((weights * (1 - weights)).sum(-1).mean())

    narrow, wide = slope(2), slope(2048)
    assert wide > 0.9 * narrow if scaled else wide < 0.1 * narrow
