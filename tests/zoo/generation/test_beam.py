"""A step's choice among the continuations of every sentence."""

import pytest
import torch

from compiler.program import TopK, top_k
from specs import EOS
from zoo.generation.beam_search import BeamSearch


def chosen(log_probabilities, totals, must_end, size):
    beam = BeamSearch(size, 0.6)
    return beam.choose(top_k(torch.tensor(log_probabilities), beam.candidates), torch.tensor(totals), must_end)


def test_at_its_limit_a_sentence_may_only_end():
    row = [0.0, -1.0, 0.0, -9.0, -2.0]
    found = chosen([row, row], [[-1.0], [-3.0]], [True, False], 1)
    assert (found.totals.tolist(), found.tokens.tolist()) == ([[-10.0], [-4.0]], [[EOS], [1]])
    assert found.live_totals.tolist() == [[-torch.inf], [-4.0]]
    found = chosen([row, row], [[-1.0], [-3.0]], [True, False], 2)
    assert found.totals[0, :2].tolist() == [-10.0, -torch.inf]
    assert found.tokens[1, :3].tolist() == [1, 4, EOS]
    assert found.live_totals.tolist() == [[-torch.inf] * 2, [-4.0, -5.0]]


def test_among_equals_the_lower_parent_and_then_the_lower_piece_comes_first():
    rows = [[-9.0, -1.0, -9.0, -1.0, -1.0, -1.0]] * 2
    found = chosen(rows, [[-1.0, -1.0]], [False], 2)
    assert found.parents.tolist() == [[0, 0, 0, 0]]
    assert found.tokens.tolist() == [[1, EOS, 4, 5]]
    assert found.live.tolist() == [[0, 2]]


def test_what_ends_is_no_row_of_the_next_step():
    rows = [[-9.0, -5.0, -9.0, -0.5, -4.0], [-9.0, -1.0, -9.0, -0.25, -2.0]]
    found = chosen(rows, [[-1.0, -1.0]], [False], 2)
    assert found.totals.tolist() == [[-1.25, -1.5, -2.0, -3.0]]
    assert found.tokens.tolist() == [[EOS, EOS, 1, 4]]
    assert found.parents.tolist() == [[1, 0, 1, 1]]
    assert found.live.tolist() == [[2, 3]]
    assert found.live_totals.tolist() == [[-2.0, -3.0]]


@pytest.mark.parametrize("rows", [1, 4])
def test_places_without_a_hypothesis_go_on_from_rows_that_are_there(rows):
    """A vocabulary of EOS and one token has fewer continuations than a beam of four takes."""
    found = TopK(torch.full((rows, 2), -1.0), torch.tensor([[1, EOS]] * rows), torch.full((rows,), -1.0))
    totals = torch.tensor([[-1.0, *[-torch.inf] * (rows - 1)]])
    step = BeamSearch(4, 0.6).choose(found, totals, [False])
    assert step.totals.shape == (1, 8)
    assert step.live_totals.tolist() == [[-2.0, *[-torch.inf] * 3]]
    assert int(step.parents.max()) < rows
