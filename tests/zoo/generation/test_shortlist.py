"""Searches with a shortlist against searches of the whole vocabulary, and the errors of programs without support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from compiler.backends.native import NativeProgram
from compiler.decoder import top_k
from specs import EOS, ZooError
from tests.refusals import refused
from tests.zoo.generation.conftest import require_backend
from tests.zoo.generation.test_program_batch import SIZE, native_program
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.engine import Engine
from zoo.generation.hypotheses import SearchStrategy
from zoo.generation.loading import open_model
from zoo.generation.sampling import Sampling
from zoo.generation.translation import Hypothesis, SearchInput
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


def sources() -> list[SearchInput]:
    draw = np.random.default_rng(2)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(map(int, draw.integers(4, SIZE, count)))

    return [SearchInput(i, {"source": (*tokens(1 + i % 5), EOS)}, 10, tokens(i % 3)) for i in range(12)]


def search(program: Any, sources: Sequence[SearchInput], strategy: SearchStrategy) -> list[list[Hypothesis]]:
    with Engine(program, max_batch_tokens=256) as engine:
        return engine.submit(sources, strategy).result()


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
        (expected,) = search(SlowTwin(program, shortlist, source), [source], strategy(None))
        assert [each.tokens for each in hypotheses] == [each.tokens for each in expected]
        scores = [each.score for each in hypotheses]
        assert scores == pytest.approx([each.score for each in expected], rel=1e-4, abs=1e-4)
        listed = {*shortlist.tokens_of(source.tokens, source.prefix).tolist()}
        assert all({*each.tokens} <= listed for each in hypotheses)
    assert found != search(program, texts, strategy(None))


@pytest.fixture
def model(trained: Callable[..., Run], kernels: Any) -> Callable[..., Translator]:
    """Return a function that opens a run of a small random model. By default, it has a shortlist of all tokens."""
    require_backend("native")

    def make(backend: str = "native", has_shortlist: bool = True, **decoding: object) -> Translator:
        run = trained(decoding={"extra_length": 3, **decoding})
        if has_shortlist:
            Shortlist.from_lists(range(101), [[]] * 101).write(run.folder / NAME)
        return open_model(run.folder, backend=backend)

    return make


TEXTS = ["the old dog", "we read two books today"]


def test_the_spec_or_the_caller_turns_the_shortlist_on(model: Callable[..., Translator]) -> None:
    translator, listed = model(shortlist=True), {40, 41}
    assert translator.shortlist is not None
    translator.shortlist = Shortlist.from_lists([*listed], [[]] * 101)
    for options, uses_it in (({}, True), ({"shortlist": True}, True), ({"shortlist": False}, False)):
        assert all({*best.tokens} <= listed for best, *_ in translator.hypotheses(TEXTS, **options)) == uses_it


WITHOUT_SHORTLIST = [
    ({"backend": "eager"}, "the `eager` backend does not support a shortlist", "native.*--no-shortlist"),
    ({"has_shortlist": False}, "has no shortlist", "zoo shortlist RUN"),
]


@pytest.mark.parametrize(("options", "problem", "hint"), WITHOUT_SHORTLIST)
def test_a_model_or_backend_without_shortlist_is_named(model: Any, options: Any, problem: str, hint: str) -> None:
    opened = model(**options)
    for translator in (opened, Translator(opened.program, opened.vocabulary, opened.spec)):
        refused(rf"(?s){problem}.*hint: .*{hint}", translator.translate, TEXTS, shortlist=True)


def test_an_ensemble_refuses(model: Callable[..., Translator]) -> None:
    with pytest.raises(ZooError, match=r"(?s)does not support a shortlist.*hint: use a single model"):
        Translator.ensemble([model()] * 2).translate(TEXTS, shortlist=True)


def test_a_damaged_shortlist_is_reported_when_the_model_is_opened(trained: Callable[..., Run]) -> None:
    folder = trained().folder
    (folder / NAME).write_bytes(b"not a table")
    refused(r"`.*shortlist\.safetensors` is damaged", open_model, folder, backend="eager")
