"""Sampling: the distribution of samples, and their independence of everything but their own random numbers."""

import math
import random
from collections import Counter

import pytest
import torch

from specs import BOS, EOS, PAD
from zoo.generation.hypotheses import length_penalty
from zoo.generation.sampling import Sampling

ROW = [-0.5, -1.25, -0.5, -2.0, -0.75, -3.0, -1.5]


def sampling(count=1, temperature=1.0, top_k=0, top_p=1.0, seed=1, **options):
    return Sampling(count, 0.6, temperature, top_k, top_p, seed, **options)


def distribution(row, temperature, top_k, top_p):
    """Return the probability of each token by the formulas."""
    ranked = sorted((-value, token) for token, value in enumerate(row) if token not in (PAD, BOS))
    weights = {token: math.exp(-loss / temperature) for loss, token in ranked[: top_k or None]}
    total, before, kept = sum(weights.values()), 0.0, {}
    for token, weight in weights.items():
        if before < top_p:
            kept[token] = weight / total
        before += weight / total
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


def test_tokens_have_the_right_frequencies(toy, search):
    """The chi-square of 4,000 draws with five degrees of freedom exceeds 20.5 once in a thousand seeds."""
    for case in ((1.0, 0, 1.0), (2.0, 4, 0.8), (1.0, 0, 0.01)):
        (samples,) = search(toy(7, overriding={(): ROW}), [(4,)], [1], sampling(4000, *case))
        counts = Counter(each.tokens[0] if each.tokens else EOS for each in samples)
        expected = distribution(ROW, *case)
        assert counts.keys() <= expected.keys()
        assert sum((counts[token] - 4000 * p) ** 2 / (4000 * p) for token, p in expected.items()) < 20.5, case


@pytest.mark.parametrize("top", [(0, 1.0), (5, 1.0), (0, 0.999)])
def test_the_extreme_random_numbers_draw_valid_tokens(top):
    row = torch.tensor([[0.0, -2.0, 0.0, -1.0, -30.0, -torch.inf]])
    for uniform in (0.0, 1 - 2**-53):
        assert int(sampling(1, 1.0, *top).draw(row, torch.tensor([uniform], dtype=torch.float64))) in (1, EOS, 4)


def test_the_lowest_temperatures_choose_the_most_probable_token():
    row = torch.tensor([ROW]) - 20
    best = max((token for token in range(len(ROW)) if token not in (PAD, BOS)), key=ROW.__getitem__)
    for temperature in (1e-3, 1e-30, 2.3e-308):
        drawn = sampling(temperature=temperature).draw(row.clone(), torch.tensor([0.999], dtype=torch.float64))
        assert drawn.tolist() == [best]


def test_the_length_penalty_only_affects_scores(toy, search):
    strategies = (sampling(20, length_penalty=kind) for kind in ("gnmt", "power"))
    gnmt, power = (search(toy(9, 1, 100), [(4,)], [6], strategy)[0] for strategy in strategies)
    assert [each.tokens for each in gnmt] == [each.tokens for each in power]
    assert len({len(each.tokens) for each in power}) > 2
    for each in power:
        assert each.score == each.log_probability / length_penalty(len(each.tokens) + 1, 0.6, "power")


def test_a_sample_is_independent_of_all_others(toy, search):
    """It depends neither on other sentences and their order, nor on batches, nor on the number of samples."""
    draw = random.Random(2)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(15)]
    prefixes = [tuple(draw.choices([1, 4, 5], k=draw.choice([0, 0, 1, 2]))) for _ in sources]
    lengths = [len(source) + 4 for source in sources]

    def samples(strategy, **batches):
        return search(toy(9, 1, 100), sources, lengths, strategy, prefixes=prefixes, **batches)

    three = samples(sampling(3))
    for batches in ({"max_batch_tokens": 1}, {"max_batch_tokens": 70, "chunk_size": 4}, {"workers": 3}):
        assert samples(sampling(3), **batches) == three
    assert [each[0] for each in samples(sampling(1))] == [each[0] for each in three]
    assert samples(sampling(3, seed=2)) != three
    assert all(each.tokens[: len(p)] == p for p, group in zip(prefixes, three, strict=True) for each in group)
