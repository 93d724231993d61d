"""Beam search against brute force over all sequences, and against a reference implementation in plain Python."""

import random
from unittest.mock import Mock

import pytest

import specs
from compiler import build
from specs import BOS, EOS, PAD
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.hypotheses import length_penalty
from zoo.generation.sampling import Sampling
from zoo.generation.translation import Hypothesis

STOPPING_RULES = ["admissible", "full", "shrinking"]


def reference_search(program, source, max_length, beam, alpha, n_best, kind, prefix, stopping_rule, min_length):
    """Search for one sentence's hypotheses without stopping early, except by the rule "full"."""
    start = sum(program.row(source, prefix[:i])[token] for i, token in enumerate(prefix))
    live, finished, width = [(start, prefix)], [], beam
    for length in range(len(prefix), max_length + 1):
        must_end = length == max_length and stopping_rule != "shrinking"
        candidates = sorted(
            (-(total + value), parent, -value, token, before)
            for parent, (total, before) in enumerate(live)
            for token, value in enumerate(program.row(source, before))
            if token not in (PAD, BOS)
            and (token == EOS or not must_end)
            and (token != EOS or length >= min(min_length, max_length))
        )
        limit = {"admissible": 2 * beam if beam > 1 else 1, "full": len(candidates), "shrinking": width}
        live = []
        for rank, (loss, _, _, token, before) in enumerate(candidates[: limit[stopping_rule]]):
            whole = before if token == EOS else (*before, token)
            if (token == EOS and (stopping_rule != "full" or rank < beam)) or (token != EOS and length == max_length):
                finished.append(Hypothesis(whole, -loss, -loss / length_penalty(length + 1, alpha, kind)))
            elif token != EOS:
                live.append((-loss, whole))
        live = live[:beam]
        width = len(live)
        if stopping_rule == "full" and len(finished) >= beam:
            break
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[:n_best]


def random_sources():
    """Return random sources and their maximum lengths."""
    draw = random.Random(4)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(20)]
    return sources, [len(source) + 3 for source in sources]


@pytest.mark.parametrize("levels", [1, 3, 40, 5000])
@pytest.mark.parametrize("stopping_rule", STOPPING_RULES)
def test_search_equals_the_reference_including_ties(toy, search, stopping_rule, levels):
    """Early stopping, batches and sentences that join later change nothing."""
    penalties = [(0.0, "power"), (0.6, "gnmt"), (2.0, "gnmt"), (0.6, "power")]
    choices = {"vocabulary": [4, 5, 7, 30], "max_length": [0, 4, 12], "beam": [1, 2, 4, 6], "min_length": [0, 0, 1, 3]}
    choices["max_batch_tokens"] = [1, 40, 60, 4096]
    for seed in range(30):
        draw = random.Random(seed)
        chosen = {name: draw.choice(values) for name, values in choices.items()}
        sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))]
        lengths = [draw.randrange(chosen["max_length"] + 1) for _ in sources]
        program, beam = toy(chosen["vocabulary"], seed, levels), chosen["beam"]
        n_best, (alpha, kind) = draw.randrange(1, beam + 1), penalties[seed % 4]
        min_length = chosen["min_length"] if chosen["vocabulary"] > 4 else 0
        prefixes = [(1,) * min(length, draw.choice([0, 0, 1, 2])) for length in lengths]
        constraint = SuppressedTokens((), chosen["vocabulary"], min_length=min_length) if min_length else None
        strategy = BeamSearch(beam, alpha, n_best, constraint, kind, stopping_rule)
        batches = {"max_batch_tokens": chosen["max_batch_tokens"], "chunk_size": 2}
        results = search(program, sources, lengths, strategy, prefixes=prefixes, **batches)
        for source, length, prefix, hypotheses in zip(sources, lengths, prefixes, results, strict=True):
            options = length, beam, alpha, n_best, kind, prefix, stopping_rule, min_length
            assert hypotheses == reference_search(program, (*source, EOS), *options)


def test_the_admissible_rule_stops_as_soon_as_no_live_hypothesis_can_win(toy, search):
    start = [-20.0, -20.0, -20.0, -0.5, -0.75, -20.0]
    # Ending at once scores -0.5. The other hypothesis has -0.75 and gets 30 free tokens. Divided by the penalty of 31
    # tokens, 6 ** 0.6, it wins, so that stopping early would be wrong. With alpha 0 it cannot win.
    free = {(4,) * i: [-20.0, -20.0, -20.0, -20.0, 0.0, -20.0] for i in range(1, 30)}
    last = {(4,) * 30: [-20.0, -20.0, -20.0, 0.0, -20.0, -20.0]}
    for alpha, tokens in ((0.6, (4,) * 30), (0.0, ())):
        program = toy(6, overriding={(): start, **free, **last})
        assert search(program, [(4,)], [30], beam=2, alpha=alpha)[0][0].tokens == tokens
    assert len(program.read) == 1


def test_the_cache_is_only_rearranged_when_rows_change(toy, search):
    greedy = toy(9, 3, 5000)
    search(greedy, [(4,)], [8], beam=1, alpha=0.6)
    assert len(greedy.read) > 3
    assert greedy.selected == []
    straight = {(*first, *(4,) * i): [-9, -9, -9, -8, -0.1, -9, -9, -9] for i in range(9) for first in ((), (5,))}
    wide = toy(8, overriding={**straight, (): [-9, -9, -9, -8, -0.1, -0.2, -9, -9]})
    search(wide, [(4,)], [8], beam=2, alpha=10.0)
    assert len(wide.read) == 9
    assert wide.selected == [[0]]  # one hypothesis becomes two


def test_length_penalties():
    assert [length_penalty(1, 0.6), length_penalty(30, 0.0)] == [1.0, 1.0]
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert [length_penalty(*each, "power") for each in ((1, 0.6), (9, 0.5), (30, 0.0))] == [1, 3, 1]


CONSTRAINT = SuppressedTokens((), 9, min_length=2)
BEAMS = [BeamSearch(3, 0.6, 2, CONSTRAINT, stopping_rule=rule) for rule in STOPPING_RULES]


@pytest.mark.parametrize("strategy", [*BEAMS, Sampling(2, 0.6, 1.0, 0, 1.0, 1)], ids=[*STOPPING_RULES, "sampling"])
def test_a_gpu_that_reports_one_step_late_changes_nothing(toy, search, monkeypatch, strategy):
    """No step reads past the maximum length. The copies are awaited on the stream of the program's own device."""

    class Bounded(toy):
        def row(self, source, prefix):
            assert len(prefix) <= len(source) + 2
            return super().row(source, prefix)

    sources, lengths = random_sources()
    for levels in (2, 400):
        expected = search(toy(9, 1, levels), sources, lengths, strategy, max_batch_tokens=70)
        with monkeypatch.context() as patch:
            event = Mock()
            patch.setattr("zoo.generation.batch._is_asynchronous", lambda tensor: True)
            patch.setattr("torch.cuda.Event", Mock(return_value=event))
            patch.setattr("torch.cuda.current_stream", "the stream of {}".format)
            for max_batch_tokens in (1, 70, 4096):
                event.reset_mock()
                program = Bounded(9, 1, levels)
                assert search(program, sources, lengths, strategy, max_batch_tokens=max_batch_tokens) == expected
                assert event.synchronize.call_count >= len(program.read)
                assert {call.args for call in event.record.call_args_list} == {("the stream of cpu",)}


@pytest.mark.gpu
def test_search_on_a_gpu_finds_the_same(search):
    spec = specs.load("tiny", {"architecture": {"N": 2, "d_model": 16, "d_ff": 32}, "vocabulary": {"size": 60}})
    weights = build(spec, backend="eager").weights()
    request, results = random_sources(), []
    for device in ("cpu", "cuda"):
        program = build(spec, weights=weights, device=device, backend="eager")
        found = search(program, *request, max_batch_tokens=100, device=device, beam=4, alpha=0.6, n_best=2)
        results.append([[each.tokens for each in hypotheses] for hypotheses in found])
    assert results[0] == results[1]
