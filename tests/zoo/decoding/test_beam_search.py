"""The batched search against brute force over all sequences and a slow twin that never stops early."""

import itertools
import math
import random

import numpy as np
import pytest
import torch

from specs import BOS, EOS, PAD, ZooError
from zoo.decoding.beam_search import search
from zoo.decoding.hypothesis import Hypothesis, length_penalty


def source_of(*rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, EOS, *[PAD] * (width - len(row))] for row in rows])


def penalised(total, length, alpha):
    return float(np.float32(total) / np.float32(length_penalty(length, alpha)))


def every_sequence(program, source, limit, alpha):
    """All hypotheses there are, best first; which of equals comes first is not said."""
    letters = [piece for piece in range(program.vocabulary) if piece not in (PAD, BOS, EOS)]
    found = []
    for length in range(limit + 1):
        for pieces in itertools.product(letters, repeat=length):
            whole = (*pieces, EOS)
            total = sum(program.row(source, whole[:i])[piece] for i, piece in enumerate(whole))
            found.append(Hypothesis(pieces, total, penalised(total, length + 1, alpha)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def slow_twin(program, source, limit, beam, alpha, n_best):
    """The search for one sentence in plain Python, always up to its limit."""
    live, finished = [(0.0, ())], []
    for length in range(limit + 1):
        reached = []
        for parent, (total, prefix) in enumerate(live):
            row = program.row(source, prefix)
            allowed = [piece for piece in range(program.vocabulary) if piece not in (PAD, BOS)]
            for piece in [EOS] if length == limit else allowed:
                reached.append((-(total + row[piece]), parent, -row[piece], piece, prefix))
        reached = sorted(reached)[: 2 * beam if beam > 1 else 1]
        finished += [
            Hypothesis(prefix, -loss, penalised(-loss, length + 1, alpha))
            for loss, _, _, piece, prefix in reached
            if piece == EOS
        ]
        live = [(-loss, (*prefix, piece)) for loss, _, _, piece, prefix in reached if piece != EOS][:beam]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[:n_best]


def worlds(number, **ranges):
    """Random small worlds: (toy's arguments, sources, limits, beam, alpha, n_best)."""
    for seed in range(number):
        draw = random.Random(seed)
        pick = {name: draw.choice(choices) for name, choices in ranges.items()}
        sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))]
        yield seed, pick, sources, [draw.randrange(pick["limit"] + 1) for _ in sources], draw


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
def test_a_beam_wide_enough_finds_the_n_best_of_all_sequences(toy, alpha):
    ranges = {"vocabulary": [4, 5, 6], "limit": [3], "levels": [20, 200, 5000]}
    for seed, pick, sources, limits, draw in worlds(25, **ranges):
        program = toy(pick["vocabulary"], seed, pick["levels"])
        beam = max(2, (pick["vocabulary"] - 3) ** 3)
        n_best = draw.randrange(1, beam + 1)
        found = search(program, source_of(*sources), limits, beam=beam, alpha=alpha, n_best=n_best)
        for source, limit, hypotheses in zip(sources, limits, found, strict=True):
            everything = every_sequence(program, (*source, EOS), limit, alpha)
            optimal = [hypothesis.score for hypothesis in everything[:n_best]]
            assert [hypothesis.score for hypothesis in hypotheses] == optimal
            assert len(set(hypotheses)) == len(hypotheses)
            assert set(hypotheses) <= set(everything)


@pytest.mark.parametrize("levels", [1, 3, 40, 5000])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_it_equals_the_twin_that_never_stops_early_ties_included(toy, alpha, levels):
    ranges = {"vocabulary": [4, 5, 7, 30], "limit": [0, 4, 12], "beam": [1, 2, 4]}
    for seed, pick, sources, limits, draw in worlds(25, **ranges):
        program = toy(pick["vocabulary"], seed, levels)
        n_best = draw.randrange(1, pick["beam"] + 1)
        choice = {"beam": pick["beam"], "alpha": alpha, "n_best": n_best}
        found = search(program, source_of(*sources), limits, **choice)
        for source, limit, hypotheses in zip(sources, limits, found, strict=True):
            assert hypotheses == slow_twin(program, (*source, EOS), limit, **choice)


def test_every_beam_finds_at_most_the_optimum_and_reports_true_sums(toy):
    for seed, pick, sources, _, _ in worlds(20, vocabulary=[5, 6], limit=[4], beam=[1, 2, 3, 4]):
        program = toy(pick["vocabulary"], seed, 300)
        found = search(program, source_of(*sources), [4] * len(sources), beam=pick["beam"], alpha=0.6)
        for source, (hypothesis,) in zip(sources, found, strict=True):
            everything = every_sequence(program, (*source, EOS), 4, 0.6)
            assert hypothesis in everything
            assert hypothesis.score <= everything[0].score


def test_what_is_found_depends_on_no_other_sentence(toy):
    program = toy(9, 1, 12)
    draw = random.Random(4)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    choice = {"beam": 3, "alpha": 0.6, "n_best": 3}
    together = search(program, source_of(*sources), [len(source) + 3 for source in sources], **choice)
    alone = [search(program, source_of(source), [len(source) + 3], **choice)[0] for source in sources]
    order = draw.sample(range(20), 20)
    shuffled = search(program, source_of(*[sources[i] for i in order]), [len(sources[i]) + 3 for i in order], **choice)
    assert together == alone
    assert [shuffled[order.index(i)] for i in range(20)] == alone


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_greedy_is_the_loop_over_the_likeliest_piece(toy, alpha):
    for seed in range(40):
        program = toy(6, seed, 5000)
        pieces, total, piece = (), 0.0, None
        while piece != EOS:
            row = program.row((4, EOS), pieces)
            row[PAD] = row[BOS] = -math.inf
            piece = EOS if len(pieces) == 10 else row.index(max(row))
            total += row[piece]
            pieces += (piece,) * (piece != EOS)
        (hypothesis,) = search(program, source_of((4,)), [10], beam=1, alpha=alpha)[0]
        assert (hypothesis.pieces, hypothesis.log_probability) == (pieces, total)
        assert len(program.read) == len(pieces) + 1


def test_bos_and_padding_are_never_produced_however_likely(toy):
    class Tempting(toy):
        def row(self, source, prefix):
            row = super().row(source, prefix)
            row[PAD] = row[BOS] = 0.0
            return row

    for vocabulary in (4, 6, 40):
        found = search(Tempting(vocabulary, 3), source_of((4,), (5, 6)), [6, 7], beam=4, alpha=0.6, n_best=4)
        for hypothesis in itertools.chain(*found):
            assert not {PAD, BOS, EOS} & set(hypothesis.pieces)


def test_a_limit_of_nothing_leaves_only_the_end(toy):
    program = toy(6, 2)
    found = search(program, source_of((4,), (5,)), [0, 0], beam=4, alpha=0.6, n_best=3)
    totals = [program.row((4, EOS), ())[EOS], program.row((5, EOS), ())[EOS]]
    assert found == [[Hypothesis((), total, total)] for total in totals]  # penalty((5 + 1) / 6) is 1
    assert program.read == [2]


def test_among_equals_the_lower_comes_first(toy):
    program = toy(7, 0, levels=1)
    # Of the eight continuations of one piece, all equal, five are those of (1,), three those of (4,).
    (found,) = search(program, source_of((4,)), [3], beam=4, alpha=0.0, n_best=4)
    assert [hypothesis.pieces for hypothesis in found] == [(), (1,), (4,), (1, 1)]


def test_it_stops_when_no_live_hypothesis_can_win_and_not_before(toy):
    start = [-20.0, -20.0, -20.0, -0.5, -0.75, -20.0]
    # Ending at once scores -0.5. Going on stands at -0.75, and stays there for 30 free pieces: divided by
    # the penalty of 31, 6 ** 0.6, that wins, so that an early end would be wrong; with alpha 0 it cannot.
    free = {(4,) * i: [-20.0, -20.0, -20.0, -20.0, 0.0, -20.0] for i in range(1, 30)}
    last = {(4,) * 30: [-20.0, -20.0, -20.0, 0.0, -20.0, -20.0]}
    patient = toy(6, overriding={(): start, **free, **last})
    assert search(patient, source_of((4,)), [30], beam=2, alpha=0.6)[0][0].pieces == (4,) * 30
    hasty = toy(6, overriding={(): start, **free, **last})
    assert search(hasty, source_of((4,)), [30], beam=2, alpha=0.0)[0][0].pieces == ()
    assert len(hasty.read) == 1


def test_finished_sentences_leave_the_batch(toy):
    ready = [-9.0, -9.0, -9.0, -0.01, -9.0, -9.0, -9.0]

    class Uneven(toy):
        def row(self, source, prefix):
            return ready if len(prefix) >= source[0] - 4 else super().row(source, prefix)

    program = Uneven(7, 5, 40)
    search(program, source_of((4,), (6,), (8,)), [20, 20, 20], beam=2, alpha=0.0)
    assert program.read[0] == 3
    assert program.read[1] == 4  # the first sentence ended at once, the other two have two hypotheses each
    assert program.read[-1] == 2


def test_the_cache_is_only_moved_when_hypotheses_change_places(toy):
    greedy = toy(9, 3, 5000)
    search(greedy, source_of((4,)), [8], beam=1, alpha=0.6)
    assert len(greedy.read) > 3
    assert greedy.selected == []  # nothing ever moves
    wide = toy(9, 3, 5000)
    search(wide, source_of((4,)), [8], beam=4, alpha=10.0)
    assert wide.selected[0] is False  # one hypothesis becomes four
    assert set(wide.selected[1:]) == {True}


def test_no_source_is_no_work(toy):
    assert search(toy(), torch.empty(0, 1, dtype=torch.long), [], beam=4, alpha=0.6) == []


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"beam": 0}, "`beam` is 0"),
        ({"beam": 2.0}, "`beam` is 2.0"),
        ({"beam": True}, "`beam` is True"),
        ({"n_best": 0}, "`n_best` is 0"),
        ({"beam": 2, "n_best": 3}, "`n_best` is 3, but a beam of 2 finds only 2"),
        ({"alpha": -0.1}, "`alpha` is -0.1"),
        ({"alpha": float("nan")}, "`alpha` is nan"),
        ({"alpha": 1e6}, "`alpha` is 1000000.0"),
    ],
)
def test_values_out_of_range_are_named(toy, choice, named):
    with pytest.raises(ZooError, match=named):
        search(toy(), source_of((4,)), [3], **{"beam": 4, "alpha": 0.6, **choice})


def test_limits_belong_to_sources(toy):
    for limits in ([3], [3, -1]):
        with pytest.raises(ValueError, match="limits for 2 sources"):
            search(toy(), source_of((4,), (5,)), limits, beam=1, alpha=0.0)


@pytest.mark.parametrize("broken", [float("nan"), float("-inf")])
def test_a_program_without_usable_probabilities_is_refused(toy, broken):
    class Broken(toy):
        def row(self, source, prefix):
            return [broken] * self.vocabulary

    with pytest.raises(ZooError, match="not usable numbers"):
        search(Broken(), source_of((4,)), [5], beam=2, alpha=0.6)


def test_length_penalty_is_that_of_wu_et_al():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(30, 0.0) == 1.0
