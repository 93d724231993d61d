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
from specs import Spec
from zoo.data.grammar import sentences
from zoo.data.lines import read_lines
from zoo.data.prepare import prepare
from zoo.decoding.translator import Translator
from zoo.report import Report

TIE = 1e-5
"""Scores nearer than this are equal to float32, and which of two such hypotheses comes first is rounding."""


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
    translator = Translator(build(spec).eval(), prepare(spec, Report()).vocabulary, spec)
    assert check(translator, [pair.source for pair in sentences("test", 70)]) == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_of_multi30k() -> None:
    """ZOO_MULTI30K names the corpus's folder and ZOO_MULTI30K_RUN a run trained on it."""
    if not {"ZOO_MULTI30K", "ZOO_MULTI30K_RUN"} <= os.environ.keys():
        pytest.skip("needs a corpus that is not the project's, and a model trained on it")
    translator = zoo.load(os.environ["ZOO_MULTI30K_RUN"])
    sources = read_lines(Path(os.environ["ZOO_MULTI30K"]) / "test_2016_flickr.en")
    assert len(sources) == 1000
    ties = check(translator, sources)
    print(f"{ties} ties in 2,000 comparisons")
