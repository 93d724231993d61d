"""The acceptance test of the whole way: a tiny model learns to copy, and copies sentences it has never seen."""

from __future__ import annotations

import random
from pathlib import Path

import zoo

LETTERS = "abcdefghijklmnop"


def _write(stem: str, count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    lines = [" ".join(source.choices(LETTERS, k=source.randint(2, 8))) for _ in range(count)]
    for side in ("en", "de"):
        Path(f"{stem}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return lines


def test_a_tiny_model_learns_to_copy() -> None:
    _write("train", 3000, seed=1)
    dev = _write("dev", 50, seed=2)
    spec = zoo.spec(
        "tiny",
        {
            "architecture": {"N": 1, "d_model": 64, "d_ff": 128, "h": 4, "d_k": 16, "d_v": 16},
            "vocabulary": {"size": 36},
            "corpus": {
                "train": [{"source": "train.en", "target": "train.de"}],
                "dev": [{"source": "dev.en", "target": "dev.de"}],
                "test": [],
            },
            "training": {
                "steps": 500,
                "warmup_steps": 100,
                "learning_rate": 0.5,
                "checkpoint_steps": 20,
                "average": 5,
                "source_tokens": 1500,
                "target_tokens": 1500,
            },
        },
    )
    run = zoo.train(spec, run="copy")
    copied = zoo.load(str(run.folder)).translate(dev)
    wrong = [(line, copy) for line, copy in zip(dev, copied, strict=True) if line != copy]
    assert len(wrong) <= 1, wrong[:5]
