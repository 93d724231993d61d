"""In float32 a sentence is translated to the same text alone, in a batch and in any order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import zoo
from compiler import build
from compiler.backends import BACKENDS
from specs import Spec
from zoo.data.builtin import sentences
from zoo.data.prepare import prepare
from zoo.generation.translator import Translation, Translator
from zoo.report import Report
from zoo.text.lines import read_lines

pytestmark = pytest.mark.usefixtures("all_cores")
TIE = 1e-5
"""Scores nearer than this are equal to float32, and which of two such hypotheses comes first is rounding."""


APART = {"eager", "ctranslate2"}
"""What the others are compared with; and CTranslate2, which has a search of its own (see test_ctranslate2.py)."""


def check(translator: Translator, sources: Sequence[str]) -> int:
    """Translates alone, 64 at a time and shuffled; returns how many sentences differ, all of which must be ties."""
    alone = [translator.hypotheses([source])[0][0] for source in sources]
    batches = [translator.hypotheses(sources[a:b]) for a, b in pairwise([*range(0, len(sources), 64), len(sources)])]
    batched = [found[0] for batch in batches for found in batch]
    order = random.Random(3).sample(range(len(sources)), len(sources))
    shuffled = [found[0] for found in translator.hypotheses([sources[i] for i in order], tokens=1500)]
    unshuffled = [shuffled[order.index(i)] for i in range(len(sources))]
    ties = 0
    for source, one, *others in zip(sources, alone, batched, unshuffled, strict=True):
        for other in others:
            assert other.score == pytest.approx(one.score, abs=TIE, rel=TIE / 10), source
            ties += other.text != one.text
    return ties


def test_a_translation_does_not_depend_on_its_neighbours(small: Callable[..., Spec]) -> None:
    """With random weights, which leave the search the hardest choices."""
    sizes = {"architecture": small().architecture.model_dump(), "vocabulary": {"size": 300}}
    spec = zoo.spec("tiny", {**sizes, "corpus": {"train": [{"grammar": 300}]}})
    translator = Translator(build(spec), prepare(spec, Report()).vocabulary, spec)
    assert check(translator, [pair.source for pair in sentences("test", 70)]) == 0


def differing(one: Sequence[list[Translation]], other: Sequence[list[Translation]]) -> int:
    """How many best translations differ, all of which must be ties."""
    pairs = [(a[0], b[0]) for a, b in zip(one, other, strict=True)]
    for a, b in pairs:
        assert b.score == pytest.approx(a.score, abs=TIE, rel=TIE / 10), (a.text, b.text)
    return sum(a.text != b.text for a, b in pairs)


SLOW = {"inductor", "aot", "onnx"}  # half a minute to compile or export


@pytest.mark.parametrize(
    "backend", [pytest.param(b, marks=[pytest.mark.slow] * (b in SLOW)) for b in BACKENDS if b not in APART]
)
def test_every_backend_finds_the_same(small: Callable[..., Spec], backend: str, tmp_path: Path) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    sizes = {"architecture": small().architecture.model_dump(), "vocabulary": {"size": 300}}
    spec = zoo.spec("tiny", {**sizes, "corpus": {"train": [{"grammar": 300}]}})
    vocabulary, texts = prepare(spec, Report()).vocabulary, [pair.source for pair in sentences("test", 70)]
    found = [
        Translator(build(spec, backend=name, folder=tmp_path / "compiled"), vocabulary, spec).hypotheses(texts)
        for name in ("eager", backend)
    ]
    assert differing(*found) == 0


@pytest.fixture(scope="module")
def multi30k() -> tuple[str, list[str]]:
    """ZOO_MULTI30K names the corpus's folder and ZOO_MULTI30K_RUN a run trained on it: the run, and the test set."""
    if not {"ZOO_MULTI30K", "ZOO_MULTI30K_RUN"} <= os.environ.keys():
        pytest.skip("needs a corpus that is not the project's, and a model trained on it")
    sources = read_lines(Path(os.environ["ZOO_MULTI30K"]) / "test_2016_flickr.en")
    assert len(sources) == 1000
    return os.environ["ZOO_MULTI30K_RUN"], sources


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_of_multi30k(multi30k: tuple[str, list[str]]) -> None:
    run, sources = multi30k
    print(f"{check(zoo.load(run), sources)} ties in 2,000 comparisons")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", [b for b in BACKENDS if b not in APART])
def test_all_of_multi30k_through_every_backend(multi30k: tuple[str, list[str]], backend: str) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    run, sources = multi30k
    eager, other = (zoo.load(run, backend=name).hypotheses(sources) for name in ("eager", backend))
    print(f"{backend}: {differing(eager, other)} of 1,000 sentences differ, all of them ties")
