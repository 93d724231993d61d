"""The choice of the best next pieces against a plain sort of everything."""

import pytest
import torch

from specs import BOS, EOS, PAD
from zoo.decoding.continuations import best, continuations, likeliest


def plainly(row, count):
    allowed = [(-value, piece) for piece, value in enumerate(row) if piece not in (PAD, BOS)]
    return [piece for _, piece in sorted(allowed)[:count]]


@pytest.mark.parametrize("levels", [1, 2, 5, 50, 10**6])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("vocabulary", [12, 300])
def test_the_likeliest_are_those_of_a_sort_of_all(vocabulary, count, levels):
    generator = torch.Generator().manual_seed(levels + count)
    rows = -torch.randint(levels, (40, vocabulary), generator=generator).float()
    values, pieces = likeliest(rows, count)
    assert pieces.tolist() == [plainly(row, count) for row in rows.tolist()]
    assert torch.equal(values, rows.gather(1, pieces))


def test_the_program_s_log_probabilities_are_left_as_they_were():
    rows = torch.zeros(2, 9)
    likeliest(rows, 4)
    assert torch.equal(rows, torch.zeros(2, 9))


def test_a_small_vocabulary_gives_what_it_has():
    values, pieces = likeliest(torch.tensor([[0.0, -2.0, 0.0, -1.0]]), 8)
    assert pieces[0, :2].tolist() == [EOS, 1]
    assert values[0].tolist() == [-1.0, -2.0, -torch.inf, -torch.inf]


def test_at_its_limit_a_sentence_may_only_end():
    log_probabilities = torch.tensor([[0.0, -1.0, 0.0, -9.0, -2.0], [0.0, -1.0, 0.0, -9.0, -2.0]])
    totals, parents, pieces = continuations(
        log_probabilities, torch.tensor([[-1.0], [-3.0]]), torch.tensor([True, False]), 2
    )
    assert (totals[0].tolist(), parents[0, 0].item(), pieces[0, 0].item()) == ([-10.0, -torch.inf], 0, EOS)
    assert (totals[1].tolist(), parents[1].tolist(), pieces[1].tolist()) == ([-4.0, -5.0], [0, 0], [1, 4])


def test_among_equals_the_lower_place_comes_first():
    values, order = best(torch.tensor([[1.0, 2.0, 2.0, 1.0]]), 3)
    assert values.tolist() == [[2.0, 2.0, 1.0]]
    assert order.tolist() == [[1, 2, 0]]
