"""Acceptance test: a tiny model learns to copy from the prepared corpus to the translator."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from pathlib import Path

import pytest

import zoo

LETTERS = "abcdefgh"
SPEC = """
extends: tiny
architecture: {N: 1, d_model: 64, d_ff: 128, h: 4, d_k: 16, d_v: 16, dropout: 0.0}
vocabulary: {size: 20}
corpus: {train: [{source: train.en, target: train.de}], dev: [{source: dev.en, target: dev.de}], test: []}
training: {steps: 190, warmup_steps: 50, learning_rate_factor: 0.7, checkpoint_steps: 10, average: 5, dev_score: null,
           source_tokens: 800, target_tokens: 800}
compilation: {backend: eager}
decoding: {beam: 1, extra_length: 3}
"""


def write(stem: str, count: int, seed: int, excluded: Collection[str] = ()) -> list[str]:
    draw = random.Random(seed)
    drawn = (" ".join(draw.choices(LETTERS, k=draw.randint(2, 5))) for _ in itertools.count())
    lines = list(itertools.islice((line for line in drawn if line not in excluded), count))
    for side in ("en", "de"):
        Path(f"{stem}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return lines


@pytest.mark.integration
def test_tiny_model_learns_to_copy() -> None:
    """The weights are an average of checkpoints, and the threshold is far below what such a model reaches."""
    dev = write("dev", 40, seed=2)
    write("train", 1500, seed=1, excluded=dev)
    Path("copy.yaml").write_text(SPEC)
    run = zoo.train(zoo.spec(Path("copy.yaml")), run="copy")
    copies = zoo.load(str(run.folder)).translate(dev)
    wrong = [(line, copy) for line, copy in zip(dev, copies, strict=True) if line != copy]
    assert len(wrong) <= 8, wrong
