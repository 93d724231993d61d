"""Measure time and memory from a corpus to the first batch: `python -m tests.benchmarks.data SPEC [KEY=VALUE ...]`.

Each part runs in its own process, so that its memory can be measured: preparing the corpus (in a temporary
folder), opening the prepared corpus up to the first batch, forming the batches of 36 million pairs with random lengths,
and encoding text of the spec's corpus with `zoo prepare`, compared with SentencePiece alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from specs import Spec
from tests.benchmarks.arguments import create_parser, load_spec
from zoo.data.batches import epoch_batches
from zoo.data.corpus import CorpusReader, Example
from zoo.data.prepare import encode_examples, prepare
from zoo.data.store import StoreWriter
from zoo.data.training_set import TrainingSet
from zoo.report import Progress, Report
from zoo.system.memory import peak_memory
from zoo.text.lines import clean
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary

EPOCH = 36_000_000
SAMPLE, ROUNDS, CHUNK = 150_000, 5, 8192


class Stages(Report):
    """Report that records the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.said: list[str] = []

    def info(self, text: str) -> None:
        self.said.append(text)
        print(text, file=sys.stderr, flush=True)

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return Stage(self, label)


class Stage(Progress):
    def __init__(self, stages: Stages, label: str) -> None:
        self._stages, self._label = stages, label

    def __enter__(self) -> Self:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._stages.seconds[self._label] = round(time.perf_counter() - self._begun, 2)


def preparing(spec: Spec) -> dict[str, Any]:
    stages, begun = Stages(), time.perf_counter()
    prepared = prepare(spec, stages)
    size = sum(file.stat().st_size for file in prepared.folder.rglob("*") if file.is_file())
    return {"seconds": _since(begun), "stages": stages.seconds, "said": stages.said, "bytes": size}


def first_batch(spec: Spec) -> dict[str, Any]:
    begun = time.perf_counter()
    data = TrainingSet(spec, prepare(spec, Report()).store("train"))
    batches = data.epoch_batches(0)
    planned = _since(begun)
    batch = next(data.batches_from(0))[0].to_batch()
    counts = {"batches": len(batches), "padding": round(batches.padding, 4), "rows": len(batch)}
    return {"planned": planned, "first batch": _since(begun), **counts}


def epoch(spec: Spec, pairs: int = EPOCH) -> dict[str, Any]:
    random = np.random.default_rng(1)
    source = random.lognormal(np.log(22), 0.5, pairs).clip(1, spec.corpus.max_length).astype(np.int32)
    target = (source * random.uniform(0.85, 1.15, pairs)).clip(1, spec.corpus.max_length).astype(np.int32)
    store: Any = SimpleNamespace(lengths={"source": source, "target": target}, has_eos=lambda _: True)
    begun, held = time.perf_counter(), _largest()
    batches = epoch_batches(store, dict.fromkeys(store.lengths, spec.training.source_tokens), seed=1, epoch=0)
    return {
        "seconds": _since(begun),
        "pairs": pairs,
        "batches": len(batches),
        "padding": round(batches.padding, 4),
        "held before, GB": round(held, 2),
    }


def lines(spec: Spec) -> dict[str, Any]:
    vocabulary = prepare(spec, Report()).vocabulary
    with TemporaryDirectory() as folder:
        file = Path(folder, "text")
        text = CorpusReader(spec, Report())
        number = max(range(len(spec.corpus.train)), key=lambda part: hasattr(spec.corpus.train[part], "source"))
        file.write_text(
            "".join(
                f"{each['source']}\t{each['target']}\n" for each in islice(text.part_examples("train", number), SAMPLE)
            )
        )
        ratios, ours = [], []
        for turn in range(ROUNDS):
            both = {"ours": _ours, "alone": _alone}
            taken = {name: both[name](file, vocabulary) for name in sorted(both, reverse=bool(turn % 2))}
            count = 2 * sum(1 for _ in _pairs(file))
            ours.append(count / taken["ours"])
            ratios.append(taken["alone"] / taken["ours"])
    return {
        "lines a second": round(statistics.median(ours)),
        "of SentencePiece alone": [round(statistics.median(ratios), 3), round(min(ratios), 3), round(max(ratios), 3)],
    }


def _pairs(file: Path) -> Iterator[Example]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            source, _, target = line.removesuffix("\n").partition("\t")
            yield {"source": clean(source), "target": clean(target)}


def _ours(file: Path, vocabulary: Vocabulary) -> float:
    """Return the seconds from text to token shards on disk."""
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with StoreWriter(Path(folder), dict.fromkeys(("source", "target"), vocabulary.source.dtype)) as writer:
            for values in encode_examples(_pairs(file), vocabulary):
                writer.add(values)
        return time.perf_counter() - begun


def _alone(file: Path, vocabulary: Vocabulary) -> float:
    """Return the seconds of SentencePiece alone, on all cores, from lists of lines in memory."""
    source_side, target_side = vocabulary.source, vocabulary.target
    assert isinstance(target_side, Tokenizer), "the targets must not be trees"
    pairs = list(_pairs(file))
    chunks = [list(zip(*pairs[at : at + CHUNK], strict=True)) for at in range(0, len(pairs), CHUNK)]
    begun = time.perf_counter()
    for source, target in chunks:
        source_side.model.encode(list(source))
        target_side.model.encode(list(target))
    return time.perf_counter() - begun


def _since(begun: float) -> float:
    return round(time.perf_counter() - begun, 2)


def _largest() -> float:
    """Return the peak resident memory of this process in GB."""
    return peak_memory("cpu") / 1e9


PARTS = {"prepare": preparing, "first": first_batch, "epoch": epoch, "lines": lines}


def main() -> None:
    parser = create_parser(__doc__)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    if given.part:
        spec = load_spec(given.spec, given.overrides, toy=given.toy)
        figures = epoch(spec, EPOCH // 1000) if given.toy and given.part == "epoch" else PARTS[given.part](spec)
        return print(json.dumps({**figures, "largest, GB": round(_largest(), 2)}))
    with TemporaryDirectory() as home:
        for part in PARTS:
            command = [sys.executable, "-m", "tests.benchmarks.data", *sys.argv[1:], "--part", part]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "ZOO_HOME": home}
            )
            print(part, done.stdout.strip(), flush=True)
    return None


if __name__ == "__main__":
    main()
