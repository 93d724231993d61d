"""Beam search in the native kernels against the Python search over the same kernels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import compiler
import specs
from compiler.backends.native import NativeProgram
from compiler.padded_batch import PaddedBatch
from compiler.program import SearchRequest, TreeLimits, TreeRules
from specs import EOS, UNK
from tests.zoo.generation.conftest import require_backend
from zoo.generation import batch as module
from zoo.generation.batch import Batch, ProgramBatch, start_batch
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.engine import Engine
from zoo.generation.hypotheses import SearchHistory
from zoo.generation.sampling import Sampling
from zoo.generation.translation import Hypothesis, SearchInput

pytestmark = pytest.mark.integration
SIZE = 40
FEW_TOKENS = tuple(token for token in range(12, SIZE))
"""Suppressing these leaves so few tokens that hypotheses often end."""


@pytest.fixture(autouse=True)
def _single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MICROSECONDS", 0)


def native_program(folder: Path, architecture: dict[str, Any], **options: Any) -> NativeProgram:
    """Return a model with large random weights, in which the tokens 5 and 6, and 7 and 8, have equal embeddings."""
    require_backend("native")
    sizes = {"d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4, **architecture}
    spec = specs.load("tiny", {"architecture": sizes, "vocabulary": {"size": SIZE}})
    torch.manual_seed(0)
    weights = compiler.build(spec, compiler.TRANSLATE, backend="eager").weights()
    for table in [tensor for tensor in weights.values() if tensor.shape == (SIZE, 16)]:
        table *= 2.0
        table[EOS] *= 1.5
        table[6], table[8] = table[5], table[7]
    native = compiler.build(spec, compiler.TRANSLATE, weights=weights, backend="native", folder=folder, **options)
    assert isinstance(native, NativeProgram)
    return native


@pytest.fixture(scope="module", params=["self_attention", "ssru"])
def program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> NativeProgram:
    decoder = [{"kind": request.param}, {"kind": "cross_attention"}, {"kind": "feed_forward"}]
    native = native_program(tmp_path_factory.getbasetemp(), {"N": 2, "decoder": decoder})
    native.max_drafts = 3
    return native


def random_history(draw: random.Random, index: int, strategy: BeamSearch) -> SearchHistory:
    tokens = tuple(draw.choices(range(4, 40), k=draw.randrange(6)))
    max_length = draw.choice([0, 1, 2, 5, 12, 30])
    prefix = tuple(draw.choices(range(4, 12), k=min(max_length, draw.choice([0, 0, 1, 3, 10]))))
    return strategy.new_history(SearchInput(index, {"source": (*tokens, EOS)}, max_length, prefix))


def random_strategy(draw: random.Random, constraint: SuppressedTokens | None, size: int) -> BeamSearch:
    alpha, penalty = draw.choice([(0.0, "gnmt"), (0.6, "gnmt"), (2.0, "gnmt"), (0.7, "power")])
    rule = draw.choice(["admissible", "full", "shrinking"])
    return BeamSearch(size, alpha, draw.randrange(1, size + 1), constraint, penalty, rule)  # type: ignore[arg-type]


def finish(batch: Batch[Any] | ProgramBatch[Any]) -> int:
    """Decode until all sentences have ended, and return the number of steps."""
    steps = 0
    while batch.histories:
        batch.step()
        steps += 1
    return steps


def copied(histories: Sequence[SearchHistory]) -> list[SearchHistory]:
    return [history.strategy.new_history(history.source) for history in histories]


def results(histories: Sequence[SearchHistory]) -> list[tuple[list[Hypothesis], str | None]]:
    return [(history.hypotheses(), history.stop_reason) for history in histories]


def expected(program: NativeProgram, histories: Sequence[SearchHistory]) -> list[tuple[list[Hypothesis], str | None]]:
    """Return what the Python search finds for each sentence alone."""
    copies = copied(histories)
    for copy in copies:
        finish(Batch(program, [copy], "cpu"))
    return results(copies)


def require_same(program: NativeProgram, given: Sequence[SearchHistory], draw: random.Random) -> set[str | None]:
    """Require the same of a batch of the program, which the sentences join one by one, before or after some steps."""
    batch, histories = None, copied(given)
    for history in histories:
        started: Any = start_batch(program, [history], "cpu")
        assert type(started) is ProgramBatch
        batch = started if batch is None or not batch.histories else batch.join(started)
        if draw.random() < 0.5:
            batch.step()
    if batch is not None:
        finish(batch)
    assert results(histories) == expected(program, histories)
    return {history.stop_reason for history in histories}


@pytest.mark.parametrize("size", range(1, 9))
def test_hypotheses_and_scores_equal_those_of_the_search_in_python(program: NativeProgram, size: int) -> None:
    """They are equal for each rule and penalty, even if sentences of other beam sizes join between the steps."""
    reasons = set()
    for seed in range(8):
        draw = random.Random(f"{size} {seed}")
        suppressed = draw.choice([(), FEW_TOKENS, (1, 5, *FEW_TOKENS)])
        min_length = draw.choice([0, 0, 2, 7])
        constraint = SuppressedTokens(suppressed, SIZE, None, min_length) if suppressed or min_length else None
        sizes = [size if index < 2 else draw.randrange(1, 9) for index in range(4)]
        drawn = [random_history(draw, i, random_strategy(draw, constraint, each)) for i, each in enumerate(sizes)]
        histories = [each for each in drawn if 5 not in suppressed or 5 not in each.source.prefix]
        reasons |= require_same(program, histories, draw)
    assert reasons >= {"decided", "exhausted"}


def test_drafts_change_no_result(program: NativeProgram) -> None:
    """Each sentence is translated three times, so that the n-grams of its translation are known."""
    for seed in range(15):
        draw = random.Random(seed)
        constraint = draw.choice([None, SuppressedTokens(FEW_TOKENS, SIZE), SuppressedTokens((5,), SIZE, None, 12)])
        sizes = draw.choice([(1,), (1, 1, 3), (1, 1), (1,) * 9])
        strategies = [random_strategy(draw, constraint, size) for size in sizes]
        drawn = [random_history(draw, index, strategy) for index, strategy in enumerate(strategies)]
        forbidden = {5, *constraint.tokens} if constraint else set()
        allowed = [history for history in drawn if not forbidden & {*history.source.prefix}]
        for _ in range(3):
            require_same(program, allowed, draw)


@pytest.mark.parametrize("max_run", [None, 2])
def test_trees_equal_those_of_the_search_in_python(program: NativeProgram, max_run: int | None) -> None:
    trees = BracketConstraint(range(4, 9), range(9, 14), range(14, 20), SIZE, max_run)
    for seed in range(10):
        draw = random.Random(seed)
        strategies = [random_strategy(draw, trees, size) for size in draw.choice([(1,), (1, 1, 3), (4, 2), (8,)])]
        histories = [strategy.new_history(random_tree_source(draw, i)) for i, strategy in enumerate(strategies)]
        for _ in range(3):
            require_same(program, histories, draw)


def random_tree_source(draw: random.Random, index: int) -> SearchInput:
    words = draw.randrange(1, 7)
    listed = draw.choice([[UNK] * words, draw.choices([UNK, *range(14, 20)], k=words)])
    prefix = draw.choice([(), (draw.randrange(4, 9),)])
    streams = {"source": (*draw.choices(range(4, SIZE), k=4), EOS)}
    return SearchInput(index, streams, words + 2 + draw.randrange(30), prefix, words=tuple(listed))


def test_drafts_save_steps(program: NativeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = BeamSearch(1, 0.6, 1, SuppressedTokens((), SIZE, None, 20))
    counts = {}
    for drafts in (3, 0):
        monkeypatch.setattr(program, "max_drafts", drafts)
        for _ in range(3):
            history = strategy.new_history(long_sources(1)[0])
            counts[drafts] = finish(start_batch(program, [history], "cpu"))
        assert history.hypotheses() == expected(program, [history])[0][0]
    assert counts[3] < counts[0] == len(history.hypotheses()[0].tokens) + 1


def test_a_wide_beam_finds_what_the_search_in_python_finds(program: NativeProgram) -> None:
    wide = BeamSearch(50, 0.6, 50, None, "gnmt", "full")
    histories = [random_history(random.Random(index), index, wide) for index in range(5)]
    for history in histories:
        finish(start_batch(program, [history], "cpu"))
    assert results(histories) == expected(program, histories)


def long_sources(count: int) -> list[SearchInput]:
    return [SearchInput(index, {"source": (4 + index, 5, EOS)}, 40) for index in range(count)]


SLOW = BeamSearch(4, 0.6, 4, SuppressedTokens((), SIZE, None, 25))
"""A search that needs at least 25 steps."""


def test_a_call_ends_after_a_step_if_its_time_is_over(program: NativeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, other sentences could not join."""
    histories, calls = [], []
    for limit in (0, 10**9):
        monkeypatch.setattr(module, "MAX_MICROSECONDS", limit)
        histories.append(SLOW.new_history(long_sources(1)[0]))
        calls.append(finish(start_batch(program, histories[-1:], "cpu")))
    assert calls[0] >= 26
    assert calls[1] == 1
    assert results(histories[:1]) == results(histories[1:])


def test_cancelled_sentences_leave_the_batch(program: NativeProgram) -> None:
    histories = [SLOW.new_history(source) for source in long_sources(4)]
    batch = start_batch(program, histories, "cpu")
    batch.step()
    histories[0].stop_reason = histories[2].stop_reason = "cancelled"
    done = []
    while batch.histories:
        done += batch.step()
        assert {*batch.histories, *done} == {histories[1], histories[3]}
    assert results(done) == expected(program, done)
    assert {*done} == {histories[1], histories[3]}
    alone = SLOW.new_history(histories[0].source)
    batch = start_batch(program, [alone], "cpu")
    alone.stop_reason = "cancelled"
    assert batch.step() == [] == list(batch.histories)


TREES = BracketConstraint([4], [5], range(6, SIZE), SIZE)


def test_the_search_runs_in_the_program_if_possible(program: NativeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    spies = {name: Mock(wraps=getattr(program, name)) for name in ("search", "top_k", "advance")}
    for name, spy in spies.items():
        monkeypatch.setattr(program, name, spy)
    for strategy, method in (
        (BeamSearch(2, 0.6), "search"),
        (BeamSearch(2, 0.6, 1, SuppressedTokens((5,), SIZE)), "search"),
        (BeamSearch(2, 0.6, 1, TREES), "search"),
        (BeamSearch(2, 0.6, 1, SuppressedTokens((6,), SIZE, TREES)), "top_k"),
        (Sampling(2, 0.6, 1.0, 0, 1.0, 1), "advance"),
    ):
        with Engine(program, max_batch_tokens=100) as engine:
            engine.submit([SearchInput(0, {"source": (5, 6, EOS)}, 6, words=(UNK, UNK))], strategy).result()
        assert [name for name, spy in spies.items() if spy.called] == [method], strategy
        for spy in spies.values():
            spy.reset_mock()


def rejected(error: Any, pattern: str | None, function: Any, *arguments: Any) -> None:
    with pytest.raises(error, match=pattern):
        function(*arguments)


def test_invalid_calls_are_refused(program: NativeProgram) -> None:
    start, sources = program.start_search, [(5, EOS), (6, EOS)]
    rejected(IndexError, "does not exist", program.search, program.encode(PaddedBatch.pad(sources)), 1, None)
    one = module._request(SLOW.new_history(long_sources(1)[0])).options
    requests = [SearchRequest(source, (), one, [1.0] * 42) for source in sources]
    for invalid in ({"size": 0}, {"n_best": 0}, {"max_length": -1}):
        wrong = requests[1]._replace(options=one._replace(**invalid))
        rejected((IndexError, ValueError), None, start, [requests[0], wrong])
    short = one._replace(max_length=1)
    rejected(IndexError, "does not exist", start, [each._replace(prefix=(5, 5), options=short) for each in requests])
    rejected(ValueError, "shape", start, [each._replace(penalties=[1.0] * 41) for each in requests])
    rejected(ValueError, "got 1 shortlists", start, requests, [np.array([EOS, 5])])
    kinds = np.array([0] * 4 + [2] * 5 + [3] * 5 + [1] * (SIZE - 14), np.int32)
    for words, prefix in (((14,), ()), ((), (9,)), ((), (SIZE,))):
        rules, given = TreeRules(kinds, 9, [TreeLimits(2, 3, words)] * 2), [r._replace(prefix=prefix) for r in requests]
        rejected(IndexError, "does not exist|out of bounds", start, given, None, rules)
    rejected(ValueError, "got limits for 1", start, requests, None, TreeRules(kinds, 9, [TreeLimits(2, 3, ())]))
    state = start(requests)
    for kept in ([2], [-1], [1, 0], [0, 0]):
        rejected(IndexError, "does not exist", program.keep, state, kept)
    rejected(ValueError, "with itself", program.join, state, state)
    rejected(ValueError, "rows", program.top_k, state, torch.tensor([[5], [5]]), 1)
    rejected(ValueError, "shape", program.search, state, 1, np.ones((2, SIZE - 1), bool))
    assert program.search(program.keep(state, [1]), 0, None)[0] == []
