"""Tokens that no translation has: as if they were impossible, and all others as likely as before."""

import math
import random

import pytest
import torch

from specs import EOS, UNK, ZooError
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.sampling import Sampling

CHOOSERS = {
    "greedy": lambda bars: BeamSearch(1, 0.6, 1, bars),
    "beam": lambda bars: BeamSearch(4, 0.6, 4, bars),
    "shrinking": lambda bars: BeamSearch(4, 0.6, 4, bars, "power", "shrinking"),
    "full": lambda bars: BeamSearch(4, 0.6, 4, bars, "power", "full"),
    "sample": lambda bars: Sampling(3, 0.6, 1.3, 0, 1.0, 1, bars),
    "top": lambda bars: Sampling(3, 0.6, 1.3, 3, 0.9, 1, bars),
}


@pytest.fixture
def world():
    draw = random.Random(1)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(12)]
    return sources, [len(source) + 3 for source in sources]


@pytest.mark.parametrize("name", CHOOSERS)
@pytest.mark.parametrize("levels", [3, 400])
def test_they_are_as_if_they_were_impossible(toy, search, world, name, levels):
    suppressed = (UNK, 6)

    class Without(toy):
        def row(self, source, prefix):
            row = super().row(source, prefix)
            return [-math.inf if token in suppressed else value for token, value in enumerate(row)]

    found = search(toy(9, 1, levels), *world, CHOOSERS[name](SuppressedTokens(suppressed, 9)), tokens=60, windows=5)
    assert found == search(Without(9, 1, levels), *world, CHOOSERS[name](None))
    free = search(toy(9, 1, levels), *world, CHOOSERS[name](None))
    assert any(set(suppressed) & set(each.tokens) for several in free for each in several)


@pytest.mark.parametrize("name", CHOOSERS)
def test_what_another_constraint_bars_is_barred_too(toy, search, world, name):
    both = CHOOSERS[name](SuppressedTokens((UNK, 6), 9))
    one_after_another = CHOOSERS[name](SuppressedTokens((UNK,), 9, SuppressedTokens((6,), 9)))
    how = {"tokens": 60, "windows": 5}
    assert search(toy(9, 1, 50), *world, one_after_another, **how) == search(toy(9, 1, 50), *world, both, **how)


@pytest.mark.parametrize("name", CHOOSERS)
@pytest.mark.parametrize("levels", [3, 400])
def test_before_so_many_pieces_the_end_is_as_if_it_were_impossible(toy, search, world, name, levels):
    """Where the limit is nearer, up to that; sentences that join others on their way count from their own beginning."""
    sources, limits = world
    limits = [2, *limits[1:]]

    class Longer(toy):
        def row(self, source, prefix):
            row = super().row(source, prefix)
            least = min(3, limits[sources.index(source[:-1])])
            return [-math.inf if token == EOS and len(prefix) < least else value for token, value in enumerate(row)]

    how = {"tokens": 60, "windows": 5, "prefixes": [(4, 5) if index % 3 == 0 else () for index in range(len(sources))]}
    found = search(toy(9, 1, levels), sources, limits, CHOOSERS[name](SuppressedTokens((), 9, least=3)), **how)
    assert found == search(Longer(9, 1, levels), sources, limits, CHOOSERS[name](None), **how)
    free = search(toy(9, 1, levels), sources, limits, CHOOSERS[name](None), **how)
    assert min(len(each.tokens) for several in found for each in several) == 2
    assert found != free


@pytest.mark.parametrize("name", CHOOSERS)
def test_what_another_constraint_leaves_nothing_but_the_end_may_end(toy, search, name):
    """A tree that is whole, of too few tokens; one that can still be longer has to be."""
    trees = BracketConstraint((4,), (5,), (6,), 9)
    found = search(
        toy(9, 1, 50), [(4,)] * 2, [5, 3], CHOOSERS[name](SuppressedTokens((), 9, trees, least=4)), words=[1, 1]
    )
    assert all(each.tokens in [(6,), (4, 6, 5), (4, 4, 6, 5, 5)] for several in found for each in several)
    assert all(found)
    bounds = SuppressedTokens((), 9, trees, least=4).begun([Source(0, (4, 3), 5, words=1)], torch.device("cpu"))
    allowed = []
    for token in (4, 6, 5):
        allowed.append(bounds.allowed().nonzero()[:, 1].tolist())
        bounds = bounds.after(None, torch.tensor([token]))
    assert [*allowed, bounds.allowed().nonzero()[:, 1].tolist()] == [[4, 6], [4, 6], [5], [EOS]]


def test_one_mask_is_for_all_rows():
    bounds = SuppressedTokens((UNK,), 9).begun([Source(0, (4, 3), 5)], torch.device("cpu"))
    after = bounds.after(torch.tensor([0, 0]), torch.tensor([4, 5])).joined(bounds)
    assert after.allowed().tolist() == [[token != UNK for token in range(9)]]


def test_a_prefix_that_has_one_is_refused(toy, search):
    with pytest.raises(ZooError, match="is given a beginning that is not allowed"):
        search(toy(9), [(5,)], [4], CHOOSERS["beam"](SuppressedTokens((7,), 9)), prefixes=[(4, 7)])
