"""Searches with a shortlist against searches of the whole vocabulary, and the errors of programs without support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compiler.backends import BACKENDS
from compiler.backends.native import NativeProgram
from compiler.decoder import top_k
from compiler.padded_batch import PaddedBatch
from specs import EOS, ZooError
from tests.zoo.generation.test_program_batch import SIZE, native_program
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.engine import Engine
from zoo.generation.hypotheses import SearchStrategy
from zoo.generation.loading import open_model
from zoo.generation.sampling import Sampling
from zoo.generation.translation import SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.models.shortlist import NAME, Shortlist
from zoo.training.run import Run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["float32", "int8"])
def program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> NativeProgram:
    return native_program(tmp_path_factory.getbasetemp(), {"N": 1}, precision=request.param)


class SlowTwin:
    """Program that computes all logits, then removes the tokens that are not in the shortlist of their sentence.

    It finds the sentence of a row by decoding one sentence at a time.
    """

    concurrent = False

    def __init__(self, program: NativeProgram, shortlist: Shortlist, source: SearchInput) -> None:
        self.program, self.listed = program, torch.from_numpy(shortlist.tokens_of(source.tokens, source.prefix))
        self.encode, self.select, self.join = program.encode, program.select, program.join

    def advance(self, state: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, Any]:
        everything, state = self.program.advance(state, tokens)
        restricted = torch.full_like(everything, -torch.inf)
        restricted[..., self.listed] = everything[..., self.listed].log_softmax(-1)
        return restricted, state

    def top_k(self, state: Any, tokens: torch.Tensor, count: int, allowed: torch.Tensor | None = None) -> Any:
        log_probabilities, state = self.advance(state, tokens)
        return top_k(log_probabilities[:, 0], count, allowed), state


def shortlist_of(share: float) -> Shortlist:
    draw = np.random.default_rng(1)
    return Shortlist.from_lists([5], [np.flatnonzero(draw.random(SIZE) < share) for _ in range(SIZE)])


def sources(count: int = 12) -> list[SearchInput]:
    draw = np.random.default_rng(2)
    rows = [tuple(map(int, draw.integers(4, SIZE, draw.integers(1, 6)))) for _ in range(count)]
    prefixes = [tuple(map(int, draw.integers(4, SIZE, index % 3))) for index in range(count)]
    return [
        SearchInput(i, {"source": (*row, EOS)}, 10, prefix)
        for i, (row, prefix) in enumerate(zip(rows, prefixes, strict=True))
    ]


def search(program: Any, sources: Sequence[SearchInput], strategy: SearchStrategy) -> list[list[Translation]]:
    with Engine(program, max_batch_tokens=256) as engine:
        return engine.submit(sources, strategy).result()


def same(actual: list[list[Translation]], expected: list[list[Translation]]) -> None:
    """Require equal tokens, and scores that differ by rounding only."""
    for one, other in zip(actual, expected, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], rel=1e-4, abs=1e-4)


def beam(shortlist: Shortlist | None, *constraint: Any, **options: Any) -> BeamSearch:
    rule = SuppressedTokens(constraint[0], SIZE, None, constraint[1]) if constraint else None
    return BeamSearch(4, 0.6, 4, rule, shortlist=shortlist, **options)


Strategies = Callable[[Shortlist | None], SearchStrategy]
STRATEGIES: dict[str, Strategies] = {
    "beam": beam,
    "shrinking": lambda shortlist: beam(shortlist, stopping_rule="shrinking"),
    "suppressed": lambda shortlist: beam(shortlist, (5, 9), 3),
    "sample": lambda shortlist: Sampling(3, 0.0, 1.0, 0, 1.0, 7, shortlist=shortlist),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request: Any) -> Strategies:
    return STRATEGIES[request.param]


def test_a_shortlist_of_the_whole_vocabulary_changes_nothing(program: NativeProgram, strategy: Strategies) -> None:
    """Bitwise: the same sums are computed in the same order."""
    assert search(program, sources(), strategy(shortlist_of(2.0))) == search(program, sources(), strategy(None))


def test_the_search_finds_what_the_slow_twin_finds(program: NativeProgram, strategy: Strategies) -> None:
    """Also with prefixes whose tokens are in no list."""
    shortlist, texts = shortlist_of(0.15), [each for each in sources() if not {5, 9} & {*each.prefix}]
    found = search(program, texts, strategy(shortlist))
    for source, hypotheses in zip(texts, found, strict=True):
        same([hypotheses], search(SlowTwin(program, shortlist, source), [source], strategy(None)))
        listed = {*shortlist.tokens_of(source.tokens, source.prefix).tolist()}
        assert all({*each.tokens} <= listed for each in hypotheses)
    assert found != search(program, texts, strategy(None))


def test_a_state_mixes_sentences_with_and_without_a_shortlist(program: NativeProgram) -> None:
    alone = [program.encode(PaddedBatch.pad([(token, EOS)])) for token in (7, 8, 9)]
    alone[1] = program.restrict(alone[1], [np.array([EOS, 6, 8])])
    separate = [program.advance(state, torch.tensor([[2]]))[0] for state in alone]
    states = [program.encode(PaddedBatch.pad([(token, EOS)])) for token in (7, 8, 9)]
    states[1] = program.restrict(states[1], [np.array([EOS, 6, 8])])
    joined = program.join(program.join(states[0], states[1]), states[2])
    torch.testing.assert_close(program.advance(joined, torch.full((3, 1), 2))[0], torch.cat(separate))


@pytest.fixture
def model(trained: Callable[..., Run], kernels: Any) -> Callable[..., Translator]:
    """Return a function that opens a run of a small random model. By default, it has a shortlist of all tokens."""
    if problem := BACKENDS["native"].unavailable_reason():
        pytest.skip(problem)

    def make(backend: str = "native", has_shortlist: bool = True, **decoding: object) -> Translator:
        run = trained(decoding={"extra_length": 3, **decoding})
        if has_shortlist:
            Shortlist.from_lists(range(101), [[]] * 101).write(run.folder / NAME)
        return open_model(run.folder, backend=backend)

    return make


TEXTS = ["the old dog", "we read two books today"]


def test_the_spec_or_the_caller_turns_the_shortlist_on(model: Callable[..., Translator]) -> None:
    translator = model(shortlist=True)
    assert translator.shortlist is not None
    translator.shortlist = Shortlist.from_lists([40, 41], [[]] * 101)
    shorter = translator.hypotheses(TEXTS)
    assert all({*best.tokens} <= {40, 41} for best, *_ in shorter)
    assert [best.tokens for best, *_ in translator.hypotheses(TEXTS, shortlist=True)] == [
        best.tokens for best, *_ in shorter
    ]
    everything = translator.hypotheses(TEXTS, shortlist=False)
    assert any(not {*best.tokens} <= {40, 41} for best, *_ in everything)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_other_backends_refuse_by_name(model: Callable[..., Translator], backend: str) -> None:
    with pytest.raises(ZooError, match=f"the `{backend}` backend does not support a shortlist") as error:
        model(backend, shortlist=True).translate(TEXTS)
    assert "native" in str(error.value.hint)
    assert "--no-shortlist" in str(error.value.hint)


def test_an_ensemble_refuses(model: Callable[..., Translator]) -> None:
    ensemble = Translator.ensemble([model()] * 2)
    with pytest.raises(ZooError, match="an ensemble does not support a shortlist"):
        ensemble.translate(TEXTS, shortlist=True)


def test_a_model_without_shortlist_is_named(model: Callable[..., Translator]) -> None:
    with pytest.raises(ZooError, match="has no shortlist") as error:
        model(has_shortlist=False).translate(TEXTS, shortlist=True)
    assert "zoo shortlist RUN" in str(error.value.hint)


def test_a_damaged_shortlist_is_reported_when_the_model_is_opened(trained: Callable[..., Run]) -> None:
    run = trained()
    Path(run.folder / NAME).write_bytes(b"not a table")
    with pytest.raises(ZooError, match=r"`.*shortlist\.safetensors` is damaged"):
        open_model(run.folder, backend="eager")
