"""A beam that gets one narrower with each hypothesis that ends, against a slow twin that keeps it in plain lists."""

import random

import pytest

from specs import BOS, EOS, PAD
from zoo.generation.hypotheses import Hypothesis, length_penalty


def twin(program, source, limit, beam, alpha, n_best, kind="power", prefix=()):
    """One sentence until nothing lives; what lives at the limit is cut off there."""
    total = sum(program.row(source, prefix[:i])[token] for i, token in enumerate(prefix))
    live, ended, room = [(total, prefix)], [], beam
    for length in range(len(prefix), limit + 1):
        reached = sorted(
            (-(total + value), parent, -value, token, before)
            for parent, (total, before) in enumerate(live)
            for token, value in enumerate(program.row(source, before))
            if token not in (PAD, BOS)
        )
        live = []
        for loss, _, _, token, before in reached[:room]:
            whole = before if token == EOS else (*before, token)
            if token == EOS or length == limit:
                ended.append(Hypothesis(whole, -loss, -loss / length_penalty(length + 1, alpha, kind)))
            else:
                live.append((-loss, whole))
        room = len(live)
    return sorted(ended, key=lambda hypothesis: -hypothesis.score)[:n_best]


@pytest.mark.parametrize("levels", [1, 3, 40, 5000])
@pytest.mark.parametrize(("alpha", "kind"), [(0.0, "power"), (0.6, "power"), (2.0, "power"), (0.6, "gnmt")])
def test_it_equals_the_twin_ties_included(toy, search, alpha, kind, levels):
    """Though it stops as soon as nothing that lives can come among the best, the twin only when nothing lives."""
    for seed in range(15):
        draw = random.Random(seed)
        vocabulary, beam = draw.choice([4, 5, 7, 30]), draw.choice([1, 2, 4, 6])
        program, n_best = toy(vocabulary, seed, levels), draw.randrange(1, beam + 1)
        sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))]
        limits = [draw.randrange(13) for _ in sources]
        prefixes = [(1,) * min(limit, draw.choice([0, 0, 1, 2])) for limit in limits]
        choice = {"beam": beam, "alpha": alpha, "n_best": n_best}
        how = {"prefixes": prefixes, "tokens": draw.choice([1, 40, 60, 4096]), "windows": 2}
        found = search(program, sources, limits, length_penalty=kind, stopping_rule="shrinking", **how, **choice)
        for source, limit, prefix, hypotheses in zip(sources, limits, prefixes, found, strict=True):
            assert hypotheses == twin(program, (*source, EOS), limit, kind=kind, prefix=prefix, **choice)


def test_of_as_many_as_the_beam_is_wide_all_are_found(toy, search):
    """Each place of the beam gives one hypothesis: so long is Marian's list of the best."""
    for seed in range(30):
        (found,) = search(toy(20, seed, 500), [(4, 5)], [9], beam=5, alpha=0.6, n_best=5, stopping_rule="shrinking")
        assert len(set(found)) == 5


def test_what_ended_has_no_successor(toy, search):
    row = [-9.0, -9.0, -9.0, -1.0, -1.5, -1.75, -2.0]
    # Of a beam of two, the end takes one place. The other goes to 4, and 5 is not looked at any more.
    program = toy(7, overriding={(): row, (4,): row, (5,): [-9.0, -9.0, -9.0, 0.0, -9.0, -9.0, -9.0]})
    (narrow,) = search(
        program, [(4,)], [5], beam=2, alpha=1.0, length_penalty="power", n_best=2, stopping_rule="shrinking"
    )
    assert [(each.tokens, each.log_probability, each.score) for each in narrow] == [
        ((), -1.0, -1.0),
        ((4,), -2.5, -1.25),
    ]
    (wide,) = search(program, [(4,)], [5], beam=2, alpha=1.0, length_penalty="power", n_best=2)
    assert [(each.tokens, each.score) for each in wide] == [((5,), -0.875), ((), -1.0)]


@pytest.mark.parametrize("beam", [1, 3])
def test_at_the_limit_the_likeliest_pieces_stand_as_they_are(toy, search, beam):
    program = toy(7, overriding={(4,) * i: [-9.0, -9.0, -9.0, -8.0, -0.25, -3.0, -4.0] for i in range(9)})
    (found,) = search(program, [(4,)], [3], beam=beam, alpha=0.0, stopping_rule="shrinking")
    assert found == [Hypothesis((4, 4, 4, 4), -1.0, -1.0)]
    (proven,) = search(program, [(4,)], [3], beam=1, alpha=0.0)
    assert proven == [Hypothesis((4, 4, 4), -8.75, -8.75)]


def test_what_is_found_depends_on_no_other_sentence(toy, search):
    draw = random.Random(4)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    limits = [3 * len(source) + 2 for source in sources]
    choice = {"beam": 4, "alpha": 0.6, "n_best": 4, "length_penalty": "power", "stopping_rule": "shrinking"}
    alone = [search(toy(9, 1, 12), [s], [limit], **choice)[0] for s, limit in zip(sources, limits, strict=True)]
    for how in ({}, {"tokens": 1}, {"tokens": 70}, {"tokens": 130, "windows": 3}, {"workers": 3}):
        assert search(toy(9, 1, 12), sources, limits, **how, **choice) == alone
