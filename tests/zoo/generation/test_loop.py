"""The batched search against brute force over all sequences and a slow twin that never stops early."""

import itertools
import math
import random

import pytest
import torch

import specs
from compiler import build
from specs import BOS, EOS, PAD, ZooError
from zoo.generation.batching import Source
from zoo.generation.hypotheses import Hypothesis, length_penalty
from zoo.generation.sampling import Sampling


def penalised(total, length, alpha, kind="gnmt"):
    return total / length_penalty(length, alpha, kind)


def every_sequence(program, source, limit, alpha, kind="gnmt"):
    """All hypotheses there are, best first; which of equals comes first is not said."""
    letters = [token for token in range(program.vocabulary) if token not in (PAD, BOS, EOS)]
    found = []
    for length in range(limit + 1):
        for tokens in itertools.product(letters, repeat=length):
            whole = (*tokens, EOS)
            total = sum(program.row(source, whole[:i])[token] for i, token in enumerate(whole))
            found.append(Hypothesis(tokens, total, penalised(total, length + 1, alpha, kind)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def slow_twin(program, source, limit, beam, alpha, n_best, prefix=(), rule=None):
    """The search for one sentence in plain Python, always up to its limit; a rule says what may follow."""
    start = sum(program.row(source, prefix[:i])[token] for i, token in enumerate(prefix))
    live, finished = [(start, prefix)], []
    for length in range(len(prefix), limit + 1):
        reached = []
        for parent, (total, before) in enumerate(live):
            row = program.row(source, before)
            allowed = [token for token in range(program.vocabulary) if token not in (PAD, BOS)]
            allowed = [token for token in allowed if rule is None or token in rule(source, before)]
            for token in [EOS] if length == limit else allowed:
                reached.append((-(total + row[token]), parent, -row[token], token, before))
        reached = sorted(reached)[: 2 * beam if beam > 1 else 1]
        finished += [
            Hypothesis(before, -loss, penalised(-loss, length + 1, alpha))
            for loss, _, _, token, before in reached
            if token == EOS
        ]
        live = [(-loss, (*before, token)) for loss, _, _, token, before in reached if token != EOS][:beam]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[:n_best]


def worlds(number, **ranges):
    """Random small worlds: (toy's arguments, sources, limits, beam, alpha, n_best)."""
    for seed in range(number):
        draw = random.Random(seed)
        pick = {name: draw.choice(choices) for name, choices in ranges.items()}
        sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))]
        yield seed, pick, sources, [draw.randrange(pick["limit"] + 1) for _ in sources], draw


@pytest.mark.parametrize(
    ("alpha", "kind"), [(0.0, "gnmt"), (0.6, "gnmt"), (2.5, "gnmt"), (0.6, "power"), (1.0, "power")]
)
def test_a_beam_wide_enough_finds_the_n_best_of_all_sequences(toy, search, alpha, kind):
    ranges = {"vocabulary": [4, 5, 6], "limit": [3], "levels": [20, 200, 5000]}
    for seed, pick, sources, limits, draw in worlds(25, **ranges):
        program = toy(pick["vocabulary"], seed, pick["levels"])
        beam = max(2, (pick["vocabulary"] - 3) ** 3)
        n_best = draw.randrange(1, beam + 1)
        found = search(program, sources, limits, beam=beam, alpha=alpha, n_best=n_best, length_penalty=kind)
        for source, limit, hypotheses in zip(sources, limits, found, strict=True):
            everything = every_sequence(program, (*source, EOS), limit, alpha, kind)
            optimal = [hypothesis.score for hypothesis in everything[:n_best]]
            assert [hypothesis.score for hypothesis in hypotheses] == optimal
            assert len(set(hypotheses)) == len(hypotheses)
            assert set(hypotheses) <= set(everything)


@pytest.mark.parametrize("levels", [1, 3, 40, 5000])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_it_equals_the_twin_that_never_stops_early_ties_included(toy, search, alpha, levels):
    ranges = {"vocabulary": [4, 5, 7, 30], "limit": [0, 4, 12], "beam": [1, 2, 4], "tokens": [1, 40, 60, 4096]}
    for seed, pick, sources, limits, draw in worlds(30, **ranges):
        program = toy(pick["vocabulary"], seed, levels)
        choice = {"beam": pick["beam"], "alpha": alpha, "n_best": draw.randrange(1, pick["beam"] + 1)}
        prefixes = [tuple(draw.choices([1, 3 + (pick["vocabulary"] > 4)], k=draw.randrange(3))) for _ in sources]
        prefixes = [
            tuple(p for p in prefix if p != EOS)[:limit] for prefix, limit in zip(prefixes, limits, strict=True)
        ]
        found = search(program, sources, limits, prefixes=prefixes, tokens=pick["tokens"], windows=2, **choice)
        for source, limit, prefix, hypotheses in zip(sources, limits, prefixes, found, strict=True):
            assert hypotheses == slow_twin(program, (*source, EOS), limit, prefix=prefix, **choice)


class Ruled:
    """Whatever a rule of plain Python leaves: `share` of the tokens, by chance, after each beginning; and one."""

    def __init__(self, vocabulary, share):
        self.vocabulary, self.share = vocabulary, share

    def rule(self, source, before):
        draw = random.Random(repr((source, before)))
        left = {token for token in range(self.vocabulary) if draw.random() < self.share}
        return left | {draw.choice([token for token in range(self.vocabulary) if token not in (PAD, BOS)])}

    def begun(self, sources, device):
        return RuledBounds(self, [(source, ()) for source in sources])


class RuledBounds:
    def __init__(self, constraint, rows):
        self.constraint, self.rows = constraint, rows

    def allowed(self):
        mask = torch.zeros(len(self.rows), self.constraint.vocabulary, dtype=torch.bool)
        for row, (source, before) in zip(mask, self.rows, strict=True):
            row[list(self.constraint.rule(source.tokens, before))] = True
            row[EOS] |= len(before) >= source.limit
        return mask

    def after(self, rows, tokens):
        rows = range(len(self.rows)) if rows is None else rows.tolist()
        chosen = [self.rows[row] for row in rows]
        grown = [(source, (*before, token)) for (source, before), token in zip(chosen, tokens.tolist(), strict=True)]
        return RuledBounds(self.constraint, grown)

    def joined(self, other):
        return RuledBounds(self.constraint, self.rows + other.rows)


@pytest.mark.parametrize("levels", [1, 3, 5000])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_what_is_barred_is_no_candidate_and_the_rest_is_as_it_was(toy, search, alpha, levels):
    """As in the twin that never meets it: with beams wider than what is left, prefixes, and sentences that join."""
    ranges = {"vocabulary": [5, 9, 30], "limit": [0, 4, 9], "beam": [1, 2, 4, 21], "tokens": [1, 40, 4096]}
    for seed, pick, sources, limits, draw in worlds(30, **ranges):
        program, ruled = toy(pick["vocabulary"], seed, levels), Ruled(pick["vocabulary"], draw.choice([0, 0.2, 0.7, 1]))
        choice = {"beam": pick["beam"], "alpha": alpha, "n_best": draw.randrange(1, pick["beam"] + 1)}
        prefixes = [()] * len(sources)
        for i, source in enumerate(sources):
            for _ in range(draw.randrange(min(3, limits[i] + 1))):
                may = ruled.rule((*source, EOS), prefixes[i]) - {PAD, BOS, EOS}
                prefixes[i] += (min(may),) if may else ()
        how = {"prefixes": prefixes, "tokens": pick["tokens"], "windows": 2, "workers": draw.choice([1, 2])}
        found = search(program, sources, limits, constraint=ruled, **how, **choice)
        for source, limit, prefix, hypotheses in zip(sources, limits, prefixes, found, strict=True):
            assert hypotheses == slow_twin(program, (*source, EOS), limit, prefix=prefix, rule=ruled.rule, **choice)
        if ruled.share == 1:
            assert found == search(program, sources, limits, **how, **choice)


@pytest.mark.parametrize("top", [(0, 1.0), (3, 1.0), (0, 0.8)])
def test_of_what_is_barred_no_sample_is_drawn(toy, search, top):
    sources, limits = [(4,), (5, 6), (7,)], [9, 5, 0]
    ruled = Ruled(9, 0.3)
    chooser = Sampling(4, 0.6, 1.3, *top, 1, ruled)
    found = search(toy(9, 1, 100), sources, limits, chooser)
    for source, limit, hypotheses in zip(sources, limits, found, strict=True):
        assert len(hypotheses) == 4
        for each in hypotheses:
            whole = (*each.tokens, EOS)
            rows = [toy(9, 1, 100).row((*source, EOS), whole[:i])[token] for i, token in enumerate(whole)]
            assert each.log_probability == sum(rows)
            for i, token in enumerate(whole):
                assert token in ruled.rule((*source, EOS), whole[:i]) | ({EOS} if i == limit else set())
    assert search(toy(9, 1, 100), sources[:1], limits[:1], chooser) == found[:1]
    everything = Sampling(4, 0.6, 1.3, *top, 1, Ruled(9, 1))
    unbounded = Sampling(4, 0.6, 1.3, *top, 1)
    assert search(toy(9, 1, 100), sources, limits, everything) == search(toy(9, 1, 100), sources, limits, unbounded)


def test_a_prefix_that_is_not_allowed_is_refused(toy, search):
    ruled = Ruled(9, 0)
    (token,) = ruled.rule((5, EOS), ())
    other = next(each for each in range(4, 9) if each != token)
    with pytest.raises(ZooError, match="sentence 2, '', is given a beginning that is not allowed"):
        search(toy(9), [(5,), (5,)], [4, 4], prefixes=[(token,), (other,)], beam=2, alpha=0.6, constraint=ruled)


def test_every_beam_finds_at_most_the_optimum_and_reports_true_sums(toy, search):
    for seed, pick, sources, _, _ in worlds(20, vocabulary=[5, 6], limit=[4], beam=[1, 2, 3, 4]):
        program = toy(pick["vocabulary"], seed, 300)
        found = search(program, sources, [4] * len(sources), beam=pick["beam"], alpha=0.6)
        for source, (hypothesis,) in zip(sources, found, strict=True):
            everything = every_sequence(program, (*source, EOS), 4, 0.6)
            assert hypothesis in everything
            assert hypothesis.score <= everything[0].score


def test_what_is_found_depends_on_no_other_sentence(toy, search):
    """Neither on the order, nor on the batch, nor on who joins it when, nor on how many workers there are."""
    draw = random.Random(4)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    limits = [len(source) + 3 for source in sources]
    prefixes = [tuple(draw.choices([1, 4, 5], k=draw.choice([0, 0, 0, 1, 2]))) for _ in sources]
    choice = {"beam": 3, "alpha": 0.6, "n_best": 3}
    each = zip(sources, limits, prefixes, strict=True)
    alone = [search(toy(9, 1, 12), [s], [limit], prefixes=[p], **choice)[0] for s, limit, p in each]
    for how in ({}, {"tokens": 1}, {"tokens": 70}, {"tokens": 130, "windows": 3}, {"workers": 3}):
        assert search(toy(9, 1, 12), sources, limits, prefixes=prefixes, **how, **choice) == alone
    order = draw.sample(range(20), 20)
    mixed = [[several[i] for i in order] for several in (sources, limits, prefixes)]
    shuffled = search(toy(9, 1, 12), mixed[0], mixed[1], prefixes=mixed[2], tokens=90, **choice)
    assert [shuffled[order.index(i)] for i in range(20)] == alone


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_greedy_is_the_loop_over_the_likeliest_piece(toy, search, alpha):
    for seed in range(40):
        program = toy(6, seed, 5000)
        tokens, total, token = (), 0.0, None
        while token != EOS:
            row = program.row((4, EOS), tokens)
            row[PAD] = row[BOS] = -math.inf
            token = EOS if len(tokens) == 10 else row.index(max(row))
            total += row[token]
            tokens += (token,) * (token != EOS)
        (hypothesis,) = search(program, [(4,)], [10], beam=1, alpha=alpha)[0]
        assert (hypothesis.tokens, hypothesis.log_probability) == (tokens, total)
        assert len(program.read) == len(tokens) + 1


def test_bos_and_padding_are_never_produced_however_likely(toy, search):
    class Tempting(toy):
        def row(self, source, prefix):
            row = super().row(source, prefix)
            row[PAD] = row[BOS] = 0.0
            return row

    for vocabulary in (4, 6, 40):
        found = search(Tempting(vocabulary, 3), [(4,), (5, 6)], [6, 7], beam=4, alpha=0.6, n_best=4)
        for hypothesis in itertools.chain(*found):
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)


def test_a_limit_of_nothing_leaves_only_the_end(toy, search):
    program = toy(6, 2)
    found = search(program, [(4,), (5,)], [0, 0], beam=4, alpha=0.6, n_best=3)
    totals = [program.row((4, EOS), ())[EOS], program.row((5, EOS), ())[EOS]]
    assert found == [[Hypothesis((), total, total)] for total in totals]  # penalty((5 + 1) / 6) is 1
    assert program.read == [2]


def test_among_equals_the_lower_comes_first(toy, search):
    program = toy(7, 0, levels=1)
    # Of the eight continuations of one token, all equal, five are those of (1,), three those of (4,).
    (found,) = search(program, [(4,)], [3], beam=4, alpha=0.0, n_best=4)
    assert [hypothesis.tokens for hypothesis in found] == [(), (1,), (4,), (1, 1)]


def test_it_stops_when_no_live_hypothesis_can_win_and_not_before(toy, search):
    start = [-20.0, -20.0, -20.0, -0.5, -0.75, -20.0]
    # StoppingRule at once scores -0.5. Going on stands at -0.75, and stays there for 30 free tokens: divided by
    # the penalty of 31, 6 ** 0.6, that wins, so that an early end would be wrong; with alpha 0 it cannot.
    free = {(4,) * i: [-20.0, -20.0, -20.0, -20.0, 0.0, -20.0] for i in range(1, 30)}
    last = {(4,) * 30: [-20.0, -20.0, -20.0, 0.0, -20.0, -20.0]}
    patient = toy(6, overriding={(): start, **free, **last})
    assert search(patient, [(4,)], [30], beam=2, alpha=0.6)[0][0].tokens == (4,) * 30
    hasty = toy(6, overriding={(): start, **free, **last})
    assert search(hasty, [(4,)], [30], beam=2, alpha=0.0)[0][0].tokens == ()
    assert len(hasty.read) == 1


READY = [-9.0, -9.0, -9.0, -0.01, -9.0, -9.0, -9.0]


@pytest.fixture
def uneven(toy):
    class Uneven(toy):
        """A translation is as long as the source's first token says."""

        def row(self, source, prefix):
            return READY if len(prefix) >= source[0] - 4 else [-1.0, -2.0, -1.0, -30.0, -0.5, -3.0, -3.0]

    return Uneven(7, 5, 40)


def test_finished_sentences_leave_the_batch(uneven, search):
    search(uneven, [(4,), (6,), (8,)], [20, 20, 20], beam=2, alpha=0.0)
    assert uneven.read[0] == 3
    assert uneven.read[1] == 4  # the first sentence ended at once, the other two have two hypotheses each
    assert uneven.read[-1] == 2


def test_waiting_sentences_take_the_place_of_finished_ones(uneven, search):
    sources = [(4 + length,) for length in (30, 30, 30, 30, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)]
    search(uneven, sources, [40] * 14, beam=2, alpha=0.0, tokens=8 * 16)
    # Eight fit, four of them soon end. So four join, and again the last two: the long ones are never alone for long.
    assert [shape[0] for shape in uneven.encoded] == [8, 4, 2]
    assert uneven.joined == [(4, 4), (4, 2)]
    assert max(uneven.read) == 16
    assert len(uneven.read) < 31 + 4  # as many steps as the longest has, and the first ones of those that joined


def test_a_batch_keeps_to_its_room_whoever_joins(toy, search):
    class Watching(toy):
        def select(self, state, sentences, parents):
            chosen = super().select(state, sentences, parents)
            shapes.append((len(chosen.sources), max(map(len, chosen.sources))))
            return chosen

        def join(self, first, second):
            both = super().join(first, second)
            shapes.append((len(both.sources), max(map(len, both.sources))))
            return both

    draw = random.Random(1)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 60))) for _ in range(40)]
    for tokens in (20, 90, 300):
        shapes = []
        program = Watching(9, 3, 30)
        search(program, sources, [5] * 40, beam=2, alpha=0.6, tokens=tokens, windows=16)
        assert len(program.joined) > 3 or tokens == 20
        assert all(rows == 1 or rows * longest <= tokens for rows, longest in shapes)


def test_the_cache_is_only_moved_when_hypotheses_change_places(toy, search):
    greedy = toy(9, 3, 5000)
    search(greedy, [(4,)], [8], beam=1, alpha=0.6)
    assert len(greedy.read) > 3
    assert greedy.selected == []  # nothing ever moves
    straight = {(4,) * i: [-9, -9, -9, -8, -0.1, -9, -9, -9] for i in range(9)}
    straight |= {(5, *(4,) * i): [-9, -9, -9, -8, -0.1, -9, -9, -9] for i in range(9)}
    wide = toy(8, overriding={**straight, (): [-9, -9, -9, -8, -0.1, -0.2, -9, -9]})
    search(wide, [(4,)], [8], beam=2, alpha=10.0)
    assert len(wide.read) == 9
    assert wide.selected == [[0]]  # one hypothesis becomes two


def test_no_source_is_no_work(toy, search):
    assert search(toy(), [], [], beam=4, alpha=0.6) == []
    assert search(toy(), [], [], beam=4, alpha=0.6, workers=2) == []


def test_a_limit_leaves_room_for_the_prefix():
    with pytest.raises(ValueError, match="1 tokens cannot start with 2"):
        Source(0, (4, EOS), 1, (5, 6))


@pytest.mark.parametrize("broken", [float("nan"), float("-inf")])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_without_usable_probabilities_is_refused(toy, search, broken, workers):
    class Broken(toy):
        def row(self, source, prefix):
            return [broken] * self.vocabulary

    with pytest.raises(ZooError, match="not usable numbers"):
        search(Broken(), [(4,), (5,)], [5, 5], beam=2, alpha=0.6, workers=workers)


def test_length_penalty_is_that_of_wu_et_al():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(30, 0.0) == 1.0


def test_or_a_power_of_the_length():
    assert length_penalty(1, 0.6, "power") == 1.0
    assert length_penalty(9, 0.5, "power") == 3.0
    assert length_penalty(30, 0.0, "power") == 1.0


def test_a_gpu_reports_one_step_late_and_nothing_changes(toy, search, monkeypatch):
    """Sentences at their limit leave at once all the same: a learned position after the last does not exist.

    It reports on the stream of the program's own device, which need not be the current one.
    """

    class Event:
        waited = 0

        def record(self, stream):
            assert stream == "the stream of cpu"

        def synchronize(self):
            Event.waited += 1

    class Bounded(toy):
        def row(self, source, prefix):
            assert len(prefix) <= len(source) + 2
            return super().row(source, prefix)

    draw = random.Random(8)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    limits = [len(source) + 3 for source in sources]
    for levels in (2, 400):
        beam = {"beam": 3, "alpha": 0.6, "n_best": 2}
        endings = [{**beam, "stopping_rule": ending} for ending in ("admissible", "shrinking", "full")]
        for choice in (*endings, {"chooser": Sampling(2, 0.6, 1.0, 0, 1.0, 1)}):
            expected = search(toy(9, 1, levels), sources, limits, tokens=70, **choice)
            with monkeypatch.context() as patch:
                patch.setattr("zoo.generation.batch._is_asynchronous", lambda tensor: True)
                patch.setattr("torch.cuda.Event", Event)
                patch.setattr("torch.cuda.current_stream", "the stream of {}".format)
                for tokens in (1, 70, 4096):
                    program = Bounded(9, 1, levels)
                    assert search(program, sources, limits, tokens=tokens, **choice) == expected
                    assert Event.waited >= len(program.read)
                    Event.waited = 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_search_is_the_same(search):
    spec = specs.load("tiny", {"architecture": {"N": 2, "d_model": 16, "d_ff": 32}, "vocabulary": {"size": 60}})
    weights = build(spec, backend="eager").weights()
    draw = random.Random(8)
    sources = [tuple(draw.choices(range(4, 60), k=draw.randrange(1, 9))) for _ in range(30)]
    limits = [len(source) + 3 for source in sources]
    found = []
    for device in ("cpu", "cuda"):
        program = build(spec, weights=weights, device=device, backend="eager")
        found.append(search(program, sources, limits, tokens=100, device=device, beam=4, alpha=0.6, n_best=2))
    assert [[h.tokens for h in several] for several in found[0]] == [[h.tokens for h in s] for s in found[1]]
