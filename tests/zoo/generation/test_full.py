"""A beam that stays full until as many have ended as it is wide, against a slow twin that keeps it in plain lists."""

import math
import random

import pytest

from specs import BOS, EOS, PAD
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.hypotheses import Hypothesis, length_penalty


def twin(program, source, limit, beam, alpha, n_best, kind="power", prefix=(), least=0):
    """One sentence until `beam` have ended, or to the limit, where only EOS may come."""
    total = sum(program.row(source, prefix[:i])[token] for i, token in enumerate(prefix))
    live, ended = [(total, prefix)], []
    for length in range(len(prefix), limit + 1):
        reached = sorted(
            (-(total + value), parent, -value, token, before)
            for parent, (total, before) in enumerate(live)
            for token, value in enumerate(program.row(source, before))
            if token not in (PAD, BOS)
            and (length < limit or token == EOS)
            and (token != EOS or length >= min(least, limit))
        )
        for loss, _, _, token, before in reached[:beam]:
            if token == EOS:
                ended.append(Hypothesis(before, -loss, -loss / length_penalty(length + 1, alpha, kind)))
        if len(ended) >= beam:
            break
        going_on = [(-loss, (*before, token)) for loss, _, _, token, before in reached if token != EOS]
        live = going_on[:beam]
    return sorted(ended, key=lambda hypothesis: -hypothesis.score)[:n_best]


@pytest.mark.parametrize("levels", [1, 3, 40, 5000])
@pytest.mark.parametrize(("alpha", "kind"), [(0.0, "power"), (0.6, "power"), (2.0, "power"), (0.6, "gnmt")])
def test_it_equals_the_twin_ties_included(toy, search, alpha, kind, levels):
    """Though it stops sooner, as soon as nothing that lives can come among the best."""
    for seed in range(15):
        draw = random.Random(seed)
        vocabulary, beam, least = draw.choice([5, 7, 30]), draw.choice([1, 2, 4, 6]), draw.choice([0, 1, 3])
        program, n_best = toy(vocabulary, seed, levels), draw.randrange(1, beam + 1)
        sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))]
        limits = [draw.randrange(13) for _ in sources]
        prefixes = [(1,) * min(limit, draw.choice([0, 0, 1, 2])) for limit in limits]
        chooser = BeamSearch(beam, alpha, n_best, SuppressedTokens((), vocabulary, least=least), kind, "full")
        how = {"prefixes": prefixes, "tokens": draw.choice([1, 40, 60, 4096]), "windows": 2}
        found = search(program, sources, limits, chooser, **how)
        for source, limit, prefix, hypotheses in zip(sources, limits, prefixes, found, strict=True):
            assert hypotheses == twin(program, (*source, EOS), limit, beam, alpha, n_best, kind, prefix, least)


def test_it_is_over_though_a_better_one_could_come(toy, search):
    ends_late = [-9.0, -9.0, -9.0, -2.0, -0.25, -2.5, -9.0]
    program = toy(7, overriding={(4,) * length: ends_late for length in range(8)})
    (full,) = search(program, [(4,)], [7], beam=2, alpha=1.0, length_penalty="power", n_best=2, stopping_rule="full")
    assert [(each.tokens, each.score) for each in full] == [((4,), -1.125), ((), -2.0)]
    (proven,) = search(program, [(4,)], [7], beam=2, alpha=1.0, length_penalty="power")
    assert (len(proven[0].tokens), proven[0].score) == (7, (-7 * 0.25 - 2.0) / 8)


def test_only_those_among_as_many_as_the_beam_is_wide_end(toy, search):
    """The end that comes third of two is none, and takes no place of the beam either."""
    row = [-9.0, -9.0, -9.0, -2.0, -1.0, -1.5, -9.0]
    ends = [-9.0, -9.0, -9.0, -0.5, -9.0, -9.0, -9.0]
    program = toy(7, overriding={(): row, (4,): ends, (5,): ends})
    (full,) = search(program, [(4,)], [5], beam=2, alpha=0.0, n_best=2, stopping_rule="full")
    assert full == [Hypothesis((4,), -1.5, -1.5), Hypothesis((5,), -2.0, -2.0)]


def test_as_many_are_found_as_the_beam_is_wide(toy, search):
    for seed in range(30):
        (found,) = search(toy(20, seed, 500), [(4, 5)], [9], beam=5, alpha=0.6, n_best=5, stopping_rule="full")
        assert len(set(found)) == 5
        assert all(math.isfinite(each.score) for each in found)


def test_what_is_found_depends_on_no_other_sentence(toy, search):
    draw = random.Random(4)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    limits = [3 * len(source) + 2 for source in sources]
    chooser = BeamSearch(4, 0.6, 4, SuppressedTokens((), 9, least=2), "power", "full")
    alone = [search(toy(9, 1, 12), [s], [limit], chooser)[0] for s, limit in zip(sources, limits, strict=True)]
    for how in ({}, {"tokens": 1}, {"tokens": 70}, {"tokens": 130, "windows": 3}, {"workers": 3}):
        assert search(toy(9, 1, 12), sources, limits, chooser, **how) == alone
