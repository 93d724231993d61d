"""Search over compiled programs: true scores, and the same results alone, in batches and with every backend."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler
import specs
import zoo
from compiler.backends import BACKENDS
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, Spec, ZooError
from zoo.data.builtin import sentences
from zoo.data.prepare import prepare
from zoo.generation.beam_search import BeamSearch, StoppingRule
from zoo.generation.engine import Engine
from zoo.generation.ensemble import Ensemble
from zoo.generation.sampling import Sampling
from zoo.generation.translation import SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.report import Report

pytestmark = pytest.mark.integration
ALL_CORES = pytest.mark.usefixtures("all_cores")
SMALL: dict[str, Any] = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4},
    "vocabulary": {"size": 60},
}
RULES: tuple[StoppingRule, ...] = ("admissible", "full", "shrinking")


@pytest.fixture(scope="module", params=[("post", "eager"), ("pre", "eager"), ("post", "native")], ids="-".join)
def program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    norm, backend = request.param
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    spec = specs.load("tiny", {**SMALL, "architecture": {**SMALL["architecture"], "norm": {"placement": norm}}})
    torch.manual_seed(0)
    return compiler.build(spec, compiler.TRANSLATE, backend=backend, folder=tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def sources() -> list[tuple[int, ...]]:
    draw = random.Random(2)
    return [tuple(draw.choices(range(4, 60), k=draw.randrange(1, 9))) for _ in range(14)]


def draft(text: Sequence[int], count: int, draw: random.Random) -> list[int]:
    """Guess the next tokens: those that followed the last token where it occurred before, and then random ones."""
    occurrences = [index for index, token in enumerate(text[:-1]) if token == text[-1]]
    copied = text[occurrences[-1] + 1 :][:count] if occurrences else []
    return [*copied, *draw.choices(range(4, 60), k=count - len(copied))]


@pytest.mark.parametrize("in_ensemble", [False, True])
def test_greedy_search_with_drafts_finds_the_greedy_tokens(program: Any, sources: Any, in_ensemble: bool) -> None:
    """Each step reads a draft for each row. The row takes back the tokens after the first that it would not choose."""
    decoder = Ensemble([program, program]) if in_ensemble else program
    source, length, draw = PaddedBatch.pad([(*tokens, EOS) for tokens in sources]), 24, random.Random(4)
    state, tokens, expected = decoder.encode(source), torch.full((len(sources), 1), BOS), []
    for _ in range(length):
        best, state = decoder.top_k(state, tokens, 1)
        tokens = best.tokens
        expected.append(tokens)
    state, texts, steps = decoder.encode(source), [[BOS] for _ in sources], 0
    while min(map(len, texts)) <= length:
        count, steps, counts = draw.randrange(5), steps + 1, []
        drafts = [draft(text, count, draw) for text in texts]
        read = torch.tensor([[text[-1], *guess] for text, guess in zip(texts, drafts, strict=True)])
        best, state = decoder.top_k(state, read, 1)
        for text, guess, chosen in zip(texts, drafts, best.tokens.view(read.shape).tolist(), strict=True):
            accepted = next((i for i, token in enumerate(guess) if token != chosen[i]), count)
            text += chosen[: accepted + 1]
            counts.append(count - accepted)
        state = decoder.rewind(state, torch.tensor(counts))
    assert [text[1 : length + 1] for text in texts] == torch.cat(expected, 1).tolist()
    assert sum(map(len, texts)) > 1.5 * len(texts) * (steps + 1), "few drafts were right"


@pytest.mark.parametrize(
    "strategy", [BeamSearch(4, 0.6, 4), Sampling(3, 0.6, 1.3, 20, 0.95, 1)], ids=["beam", "sample"]
)
def test_log_probabilities_equal_the_score_of_a_full_forward_pass(
    program: Any, sources: Any, search: Any, strategy: Any
) -> None:
    draw = random.Random(3)
    prefixes = [draw.choices(range(4, 60), k=draw.choice([0, 0, 2])) for _ in sources]
    lengths = [len(source) + 4 for source in sources]
    results = search(program, sources, lengths, strategy, prefixes=prefixes, max_batch_tokens=100)
    pairs = [(source, hypothesis) for source, group in zip(sources, results, strict=True) for hypothesis in group]
    targets = [[BOS, *hypothesis.tokens, EOS] for _, hypothesis in pairs]
    scores = (
        program.score(PaddedBatch.pad([(*source, EOS) for source, _ in pairs]), PaddedBatch.pad(targets).values)
        .sum(1)
        .tolist()
    )
    for (_, hypothesis), target, total in zip(pairs, targets, scores, strict=True):
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5 * len(target))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_model_with_nan_weights_translates_nothing(
    search: Any, tmp_path_factory: Any, backend: str, precision: str
) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    spec = specs.load("tiny", {**SMALL, "architecture": {**SMALL["architecture"], "N": 1}})
    folder = tmp_path_factory.getbasetemp()
    clean = compiler.build(spec, compiler.TRANSLATE, backend="eager").weights()
    for name in list(clean)[::3]:
        broken = clean[name].clone()
        broken[-1] = math.nan  # in the embedding, the last token: it has a logit, and no source contains it
        program = compiler.build(
            spec, weights={**clean, name: broken}, backend=backend, precision=precision, folder=folder
        )
        for strategy in (BeamSearch(1, 0.6), BeamSearch(4, 0.6, 4), Sampling(2, 0.6, 1.0, 0, 1.0, 1)):
            with pytest.raises(ZooError, match="log-probabilities are not usable numbers"):
                search(program, [(7, 8, 9), (7,)], [6, 6], strategy)


def test_requests_with_different_beams_find_the_same_together_and_alone(program: Any, sources: Any) -> None:
    texts = [SearchInput(index, {"source": (*tokens, EOS)}, len(tokens) + 4) for index, tokens in enumerate(sources)]
    strategies = [BeamSearch(size, 0.6, size, None, "gnmt", rule) for size in (1, 2, 5) for rule in RULES]
    with Engine(program, max_batch_tokens=4096) as engine:
        alone = [engine.submit(texts, strategy).result() for strategy in strategies]
        futures = [engine.submit(texts, strategy) for strategy in strategies]
        together = [future.result() for future in futures]
    for one, other in zip(chain(*alone), chain(*together), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-5)


# whole translators

TIE = 1e-5
"""Smallest difference between scores that float32 resolves: the order of closer hypotheses is rounding."""
REFERENCE_BACKEND = "eager"
SLOW_BACKENDS = {"inductor", "aot", "onnx"}  # they compile or export for half a minute


def count_ties(one: Sequence[list[Translation]], other: Sequence[list[Translation]]) -> int:
    """Return how many best translations differ. The scores of each pair have to be equal up to rounding."""
    pairs = [(a[0], b[0]) for a, b in zip(one, other, strict=True)]
    for a, b in pairs:
        assert b.score == pytest.approx(a.score, abs=TIE, rel=TIE / 10), (a.text, b.text)
    return sum(a.text != b.text for a, b in pairs)


def count_batch_differences(translator: Translator, texts: Sequence[str]) -> int:
    """Translate each text alone, 64 at a time and shuffled, and return how many translations differ."""
    alone = [translator.hypotheses([text])[0] for text in texts]
    chunks = [translator.hypotheses(texts[a:b]) for a, b in pairwise([*range(0, len(texts), 64), len(texts)])]
    order = random.Random(3).sample(range(len(texts)), len(texts))
    shuffled = translator.hypotheses([texts[i] for i in order], max_batch_tokens=1500)
    unshuffled = [shuffled[order.index(i)] for i in range(len(texts))]
    return count_ties(alone, [found for chunk in chunks for found in chunk]) + count_ties(alone, unshuffled)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Spec, Any, list[str]]:
    """Return a small spec, a vocabulary and 20 texts. Random weights give the search the hardest decisions."""
    sections = {
        "architecture": {"N": 2, "d_model": 32, "d_ff": 64, "h": 4, "d_k": 8, "d_v": 8},
        "vocabulary": {"size": 300},
        "corpus": {"train": [{"grammar": 300}]},
        "decoding": {"extra_length": 5},
    }
    spec = zoo.spec("tiny", sections)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(tmp_path_factory.mktemp("home")))
        vocabulary = prepare(spec, Report()).vocabulary
    return spec, vocabulary, [pair.source for pair in sentences("test", 20)]


@ALL_CORES
def test_a_translation_is_independent_of_other_texts(world: tuple[Spec, Any, list[str]]) -> None:
    spec, vocabulary, texts = world
    assert count_batch_differences(Translator(compiler.build(spec), vocabulary, spec), texts) == 0


@ALL_CORES
@pytest.mark.parametrize(
    "backend",
    [pytest.param(b, marks=[pytest.mark.slow] * (b in SLOW_BACKENDS)) for b in BACKENDS if b != REFERENCE_BACKEND],
)
def test_every_backend_finds_the_same_translations(
    world: tuple[Spec, Any, list[str]], backend: str, tmp_path: Path
) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    spec, vocabulary, texts = world
    weights = compiler.build(spec, backend=REFERENCE_BACKEND).weights()
    results = [
        Translator(
            compiler.build(spec, weights=weights, backend=name, folder=tmp_path / "compiled"), vocabulary, spec
        ).hypotheses(texts)
        for name in (REFERENCE_BACKEND, backend)
    ]
    assert count_ties(*results) == 0
