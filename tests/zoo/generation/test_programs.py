"""Search over compiled programs: true scores, and the same results alone, in batches and with every backend."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler
import specs
from compiler.backends import BACKENDS
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS
from tests.examples import changed, small
from tests.refusals import refused
from tests.zoo.generation.conftest import require_backend
from zoo.data.builtin import sentences
from zoo.generation.beam_search import BeamSearch
from zoo.generation.sampling import Sampling
from zoo.generation.translator import Translator
from zoo.text.vocabulary import Vocabulary

pytestmark = pytest.mark.integration
SIZES: dict[str, Any] = {"d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4}


@pytest.fixture(scope="module", params=[("post", "eager"), ("pre", "eager"), ("post", "native")], ids="-".join)
def program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    norm, backend = request.param
    require_backend(backend)
    architecture = {**SIZES, "N": 2, "norm": {"placement": norm}}
    spec = specs.load("tiny", {"architecture": architecture, "vocabulary.size": 60})
    torch.manual_seed(0)
    return compiler.build(spec, compiler.TRANSLATE, backend=backend, folder=tmp_path_factory.getbasetemp())


STRATEGIES = {"beam": BeamSearch(4, 0.6, 4), "sample": Sampling(3, 0.6, 1.3, 20, 0.95, 1)}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_scores_equal_those_of_a_full_forward_pass(program: Any, search: Any, strategy: Any) -> None:
    draw = random.Random(2)
    sources = [tuple(draw.choices(range(4, 60), k=draw.randrange(1, 9))) for _ in range(14)]
    prefixes = [draw.choices(range(4, 60), k=draw.choice([0, 0, 2])) for _ in sources]
    lengths = [len(source) + 4 for source in sources]
    results = search(program, sources, lengths, strategy, prefixes=prefixes, max_batch_tokens=100)
    pairs = [(source, hypothesis) for source, group in zip(sources, results, strict=True) for hypothesis in group]
    target = PaddedBatch.pad([[BOS, *hypothesis.tokens, EOS] for _, hypothesis in pairs])
    scores = program.score(PaddedBatch.pad([(*source, EOS) for source, _ in pairs]), target.values).sum(1).tolist()
    for (_, hypothesis), total in zip(pairs, scores, strict=True):
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5 * (len(hypothesis.tokens) + 2))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_nan_weights_translate_nothing(search: Any, tmp_path_factory: Any, backend: str, precision: str) -> None:
    require_backend(backend)
    spec = specs.load("tiny", {"architecture": {**SIZES, "N": 1}, "vocabulary.size": 60})
    folder = tmp_path_factory.getbasetemp()
    clean = compiler.build(spec, compiler.TRANSLATE, backend="eager").weights()
    for name in list(clean)[::3]:
        broken = clean[name].clone()
        broken[-1] = math.nan  # in the embedding, the last token: it has a logit, and no source contains it
        weights = {**clean, name: broken}
        program = compiler.build(spec, weights=weights, backend=backend, precision=precision, folder=folder)
        for strategy in (BeamSearch(1, 0.6), BeamSearch(4, 0.6, 4), Sampling(2, 0.6, 1.0, 0, 1.0, 1)):
            refused("log-probabilities are not finite", search, program, [(7, 8, 9), (7,)], [6, 6], strategy)


# whole translators

TIE = 1e-5
"""Smallest difference between scores that float32 resolves: the order of closer hypotheses is rounding."""
REFERENCE_BACKEND = "eager"
SLOW_BACKENDS = {"inductor", "aot", "onnx"}  # they compile or export for half a minute


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize(
    "backend", [pytest.param(b, marks=[pytest.mark.slow] * (b in SLOW_BACKENDS)) for b in BACKENDS]
)
def test_translations_depend_neither_on_the_backend_nor_on_other_texts(
    tokens: Vocabulary, backend: str, tmp_path: Path
) -> None:
    """Random weights give the search the hardest decisions."""
    require_backend(backend)
    spec = changed(small(d_model=32, d_ff=64, h=4, d_k=8, d_v=8), "decoding", extra_length=5)
    texts = [pair.source for pair in sentences("test", 20)]
    weights = compiler.build(spec, backend=REFERENCE_BACKEND).weights()
    reference, other = (
        Translator(compiler.build(spec, weights=weights, backend=name, folder=tmp_path), tokens, spec)
        for name in (REFERENCE_BACKEND, backend)
    )
    alone = [reference.hypotheses([text])[0] for text in texts]
    order = random.Random(3).sample(range(len(texts)), len(texts))
    shuffled = other.hypotheses([texts[i] for i in order], max_batch_tokens=150)
    for found, expected in ((other.hypotheses(texts), alone), (shuffled, [alone[i] for i in order])):
        for (a, *_), (b, *_) in zip(found, expected, strict=True):
            assert b.score == pytest.approx(a.score, abs=TIE, rel=TIE / 10), (a.text, b.text)
            assert a.text == b.text
