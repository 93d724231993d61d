"""The choice of the top_k tokens against a plain sort of everything."""

from __future__ import annotations

import pytest
import torch

from compiler.program import top_k
from specs import BOS, EOS, PAD


def plainly(row: list[float], count: int, suppressed_tokens: frozenset[int] = frozenset()) -> list[int]:
    allowed = [(-value, token) for token, value in enumerate(row) if token not in {PAD, BOS, *suppressed}]
    return [token for _, token in sorted(allowed)[:count]]


@pytest.mark.parametrize("levels", [1, 2, 5, 50, 10**6])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("vocabulary", [12, 300])
def test_the_likeliest_are_those_of_a_sort_of_all(vocabulary: int, count: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(levels + count)
    rows = -torch.randint(levels, (40, vocabulary), generator=generator).float()
    found = top_k(rows, count)
    assert found.tokens.tolist() == [plainly(row, count) for row in rows.tolist()]
    assert torch.equal(found.values, rows.gather(1, found.tokens))
    assert torch.equal(found.ends, rows[:, EOS])


def test_log_probabilities_are_left_as_they_were() -> None:
    rows = torch.zeros(2, 9)
    top_k(rows, 4)
    assert torch.equal(rows, torch.zeros(2, 9))


def test_a_small_vocabulary_gives_what_it_has() -> None:
    values, tokens, _ = top_k(torch.tensor([[0.0, -2.0, 0.0, -1.0]]), 8)
    assert tokens[0, :2].tolist() == [EOS, 1]
    assert values[0].tolist() == [-1.0, -2.0, -torch.inf, -torch.inf]


@pytest.mark.parametrize("levels", [1, 5, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_barred_is_left_out_before_the_choice(
    monkeypatch: pytest.MonkeyPatch, share: float, levels: int, asynchronous: bool
) -> None:
    """What is left has the values that it had; where too little is, -inf fills up."""
    monkeypatch.setattr("compiler.program._is_asynchronous", lambda tensor: asynchronous)
    generator = torch.Generator().manual_seed(levels)
    rows = -torch.randint(levels, (40, 60), generator=generator).float()
    allowed = torch.rand(40, 60, generator=generator) < share
    values, tokens, ends = top_k(rows, 8, allowed)
    for row, may, found, named, end in zip(rows.tolist(), allowed.tolist(), values, tokens, ends, strict=True):
        expected = plainly(row, 8, frozenset(token for token, each in enumerate(may) if not each))
        assert found.tolist() == [row[token] for token in expected] + [-torch.inf] * (8 - len(expected))
        assert named[: len(expected)].tolist() == expected
        assert end == (row[EOS] if may[EOS] else -torch.inf)
    alike = top_k(rows, 8, allowed[:1])
    for one, other in zip(alike, top_k(rows, 8, allowed[:1].expand(40, -1)), strict=True):
        assert torch.equal(one, other)


def test_nothing_barred_is_no_bar() -> None:
    rows = torch.randn(9, 50, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    for one, other in zip(top_k(rows, 6), top_k(rows, 6, torch.ones(9, 50, dtype=torch.bool)), strict=True):
        assert torch.equal(one, other)
