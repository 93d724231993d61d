"""Freezes what today's code writes: `python freeze.py FOLDER`, in an empty folder, with PYTHONPATH set to that code."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

os.environ["ZOO_HOME"] = str(Path("home").resolve())

import zoo
from zoo.shelf.publish import publish

SENTENCES = (
    "the old dog sees a small house",
    "we read two books today",
    "she does not know the man",
    "do you see the cat?",
)
SPEC = {
    "name": "frozen",
    "description": "A tiny model that past code trained.",
    "architecture": {"N": 2, "d_model": 12, "d_ff": 16, "h": 2, "d_k": 4, "d_v": 3, "dropout": 0.0},
    "vocabulary": {"size": 120},
    "corpus": {"train": [{"grammar": 300}], "dev": [{"grammar": 8}], "test": []},
    "training": {
        "steps": 3000,
        "source_tokens": 512,
        "target_tokens": 512,
        "learning_rate": 0.5,
        "warmup_steps": 200,
        "checkpoint_steps": 1500,
        "average": 2,
        "log_steps": 500,
    },
    "decoding": {"extra_length": 10},
    "compilation": {"backend": "eager"},
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run = zoo.train(zoo.spec("tiny", SPEC), run="run", device="cpu")
    bundle = publish("run")
    texts = zoo.load("run", device="cpu").translate(SENTENCES)
    shutil.copytree("run", folder / "run", ignore=shutil.ignore_patterns("log.jsonl", "events", ".lock"))
    shutil.copytree(bundle, folder / "bundle")
    lines = "".join(f"{source}\t{text}\n" for source, text in zip(SENTENCES, texts, strict=True))
    (folder / "expected.txt").write_text(lines, encoding="utf-8", newline="\n")
