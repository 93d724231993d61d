"""Samples: their distribution, and that each depends on nothing but its own stream of random numbers."""

import math
import random
from collections import Counter

import pytest
import torch

from specs import BOS, EOS, PAD
from zoo.generation.hypotheses import length_penalty
from zoo.generation.sampling import Sampling

ROW = [-0.5, -1.25, -0.5, -2.0, -0.75, -3.0, -1.5]


def sample(count=1, temperature=1.0, top_k=0, top_p=1.0, seed=1):
    return Sampling(count, 0.6, temperature, top_k, top_p, seed)


def distribution(row, temperature, top_k, top_p):
    """Probability of each token, by the formulas."""
    allowed = sorted((-value, token) for token, value in enumerate(row) if token not in (PAD, BOS))
    weights = {token: math.exp(-loss / temperature) for loss, token in allowed[: top_k or None]}
    total, before, kept = sum(weights.values()), 0.0, {}
    for token, weight in weights.items():
        if before < top_p:
            kept[token] = weight / total
        before += weight / total
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (1.0, 0, 1.0),
        (0.5, 0, 1.0),
        (3.0, 0, 1.0),
        (1.0, 3, 1.0),
        (1.0, 0, 0.7),
        (2.0, 4, 0.8),
        (1.0, 1, 1.0),
        (1.0, 0, 0.01),
    ],
)
def test_pieces_come_as_often_as_they_are_probable(toy, search, temperature, top_k, top_p):
    """Chi-square of 4,000 draws: with five degrees of freedom it is above 20.5 once in a thousand times."""
    program = toy(7, overriding={(): ROW})
    (found,) = search(program, [(4,)], [1], sample(4000, temperature, top_k, top_p))
    drawn = Counter(each.tokens[0] if each.tokens else EOS for each in found)
    wanted = distribution(ROW, temperature, top_k, top_p)
    assert drawn.keys() <= wanted.keys()
    assert sum((drawn[token] - 4000 * p) ** 2 / (4000 * p) for token, p in wanted.items()) < 20.5


@pytest.mark.parametrize("choice", [(1.0, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.6), (1.0, 4, 0.9)])
def test_a_number_draws_the_piece_whose_share_of_the_line_it_lies_in(choice):
    draw = random.Random(0)
    rows = [[-draw.random() * 6 for _ in range(12)] for _ in range(30)]
    by_piece = choice[1:] == (0, 1.0)
    for step in range(20):
        u = step / 20 + 0.013
        found = sample(1, *choice).drawn(torch.tensor(rows), torch.full((30,), u, dtype=torch.float64)).tolist()
        for row, token in zip(torch.tensor(rows).tolist(), found, strict=True):
            shares, reached = distribution(row, *choice), 0.0
            for each in sorted(shares) if by_piece else shares:
                reached += shares[each]
                if u < reached:
                    break
            assert token == each


@pytest.mark.parametrize("top", [(0, 1.0), (5, 1.0), (0, 0.999)])
def test_the_ends_of_the_line_are_pieces_too(top):
    row = torch.tensor([[0.0, -2.0, 0.0, -1.0, -30.0, -torch.inf]])
    for u in (0.0, 1 - 2**-53):
        token = int(sample(1, 1.0, *top).drawn(row, torch.tensor([u], dtype=torch.float64)))
        assert token in (1, EOS, 4)


def test_log_probabilities_are_those_of_the_model_whatever_the_temperature(toy, search):
    program = toy(8, 3, 100)
    for found in search(program, [(4,), (5, 6)], [6, 7], sample(5, 2.5, 4, 0.9)):
        assert len(found) == 5
        for each in found:
            assert not {PAD, BOS, EOS} & set(each.tokens)
    (found,) = search(program, [(4,)], [6], sample(5, 2.5))
    for each in found:
        whole = (*each.tokens, EOS)
        assert each.log_probability == sum(program.row((4, EOS), whole[:i])[token] for i, token in enumerate(whole))
        assert each.score == pytest.approx(each.log_probability / ((5 + len(whole)) / 6) ** 0.6)


def test_the_length_penalty_only_scores(toy, search):
    """And what comes to the limit ends there."""
    one, other = (
        search(toy(9, 1, 100), [(4,)], [6], Sampling(20, 0.6, 1.0, 0, 1.0, 1, None, kind))[0]
        for kind in ("gnmt", "power")
    )
    assert [each.tokens for each in one] == [each.tokens for each in other]
    assert len({len(each.tokens) for each in other}) > 2
    for each in other:
        assert each.score == each.log_probability / length_penalty(len(each.tokens) + 1, 0.6, "power")


def test_a_sample_depends_on_no_other_one(toy, search):
    """Neither on its neighbours nor on their order, nor on the batch, nor on how many are drawn of its sentence."""
    draw = random.Random(2)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(15)]
    prefixes = [tuple(draw.choices([1, 4, 5], k=draw.choice([0, 0, 1, 2]))) for _ in sources]
    limits = [len(source) + 4 for source in sources]
    found = search(toy(9, 1, 100), sources, limits, sample(3), prefixes=prefixes)
    for how in ({"tokens": 1}, {"tokens": 70, "windows": 4}, {"workers": 3}):
        assert search(toy(9, 1, 100), sources, limits, sample(3), prefixes=prefixes, **how) == found
    first = search(toy(9, 1, 100), sources, limits, sample(1), prefixes=prefixes)
    assert [each[0] for each in first] == [each[0] for each in found]
    other = search(toy(9, 1, 100), sources, limits, sample(3, seed=2), prefixes=prefixes)
    assert other != found
    assert all(each.tokens[: len(p)] == p for p, several in zip(prefixes, found, strict=True) for each in several)


def test_equal_sentences_are_drawn_apart(toy, search):
    found = search(toy(9, 1, 100), [(4, 5)] * 8, [6] * 8, sample(2))
    assert len({each.tokens for several in found for each in several}) > 8


def test_a_low_temperature_is_greedy(toy, search):
    sources, limits = [(4,), (5, 6)], [8, 8]
    greedy = search(toy(9, 1, 5000), sources, limits, beam=1, alpha=0.6)
    assert search(toy(9, 1, 5000), sources, limits, sample(2, 1e-3)) == [each * 2 for each in greedy]
    assert search(toy(9, 1, 5000), sources, limits, sample(1, 1.0, 1)) == greedy
    assert search(toy(9, 1, 5000), sources, limits, sample(1, 1.0, 0, 1e-9)) == greedy


def test_rows_of_samples_never_move(toy, search):
    program = toy(9, 1, 100)
    search(program, [(4,)], [8], sample(3))
    assert program.selected[0] == [0]
    assert len(program.selected) == 1


def test_no_temperature_is_too_low():
    """The top_k token alone is left, and nothing overflows."""
    row = torch.tensor([ROW]) - 20
    for temperature in (1e-3, 1e-30, 2.3e-308):
        drawn = sample(temperature=temperature).drawn(row.clone(), torch.tensor([0.999], dtype=torch.float64))
        assert drawn.tolist() == [max((p for p in range(len(ROW)) if p not in (PAD, BOS)), key=ROW.__getitem__)]
