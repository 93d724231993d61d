"""The choice of the likeliest pieces against a plain sort of everything."""

from __future__ import annotations

import pytest
import torch

from compiler.likeliest import likeliest
from specs import BOS, EOS, PAD


def plainly(row: list[float], count: int) -> list[int]:
    allowed = [(-value, piece) for piece, value in enumerate(row) if piece not in (PAD, BOS)]
    return [piece for _, piece in sorted(allowed)[:count]]


@pytest.mark.parametrize("levels", [1, 2, 5, 50, 10**6])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("vocabulary", [12, 300])
def test_the_likeliest_are_those_of_a_sort_of_all(vocabulary: int, count: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(levels + count)
    rows = -torch.randint(levels, (40, vocabulary), generator=generator).float()
    found = likeliest(rows, count)
    assert found.pieces.tolist() == [plainly(row, count) for row in rows.tolist()]
    assert torch.equal(found.values, rows.gather(1, found.pieces))
    assert torch.equal(found.ends, rows[:, EOS])


def test_log_probabilities_are_left_as_they_were() -> None:
    rows = torch.zeros(2, 9)
    likeliest(rows, 4)
    assert torch.equal(rows, torch.zeros(2, 9))


def test_a_small_vocabulary_gives_what_it_has() -> None:
    values, pieces, _ = likeliest(torch.tensor([[0.0, -2.0, 0.0, -1.0]]), 8)
    assert pieces[0, :2].tolist() == [EOS, 1]
    assert values[0].tolist() == [-1.0, -2.0, -torch.inf, -torch.inf]
