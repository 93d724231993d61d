"""What a corpus costs on its way to the first batch: `python tests/benchmarks/data.py SPEC [KEY=VALUE ...]`.

Each part in a process of its own, so that its memory is its own: preparing (in an empty ZOO_HOME), from opening what is
prepared to the first batch, the batches of an epoch of 36 million pairs with made-up lengths, and in turns the encoding
of text as `zoo prepare` does it and by SentencePiece alone, on the spec's own corpus.
"""

from __future__ import annotations

import json
import resource
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

import specs
from specs import Spec
from zoo.data.batches import epoch_batches
from zoo.data.corpus import Pair, ParallelCorpus
from zoo.data.prepare import encode_pairs, prepare
from zoo.data.store import StoreWriter
from zoo.data.training_set import TrainingSet
from zoo.report import Progress, Report
from zoo.text.lines import clean
from zoo.text.vocabulary import Vocabulary

EPOCH = 36_000_000
SAMPLE, ROUNDS, CHUNK = 150_000, 5, 8192


class Stages(Report):
    """Keeps how long each token of work took."""

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
    if not stages.seconds:
        raise SystemExit("it was prepared before: name an empty folder with ZOO_HOME")
    size = sum(file.stat().st_size for file in prepared.folder.rglob("*") if file.is_file())
    return {"seconds": _since(begun), "stages": stages.seconds, "said": stages.said, "bytes": size}


def first_batch(spec: Spec) -> dict[str, Any]:
    begun = time.perf_counter()
    data = TrainingSet(spec, prepare(spec, Report()).store("train"))
    batches = data.epoch_batches(0)
    planned = _since(begun)
    batch = next(data.batches_from(0)).pairs.to_batch()
    counts = {"batches": len(batches), "padding": round(batches.padding, 4), "rows": len(batch)}
    return {"planned": planned, "first batch": _since(begun), **counts}


def epoch(spec: Spec) -> dict[str, Any]:
    random = np.random.default_rng(1)
    source = random.lognormal(np.log(22), 0.5, EPOCH).clip(1, spec.corpus.max_length).astype(np.int32)
    target = (source * random.uniform(0.85, 1.15, EPOCH)).clip(1, spec.corpus.max_length).astype(np.int32)
    store: Any = SimpleNamespace(source_lengths=source, target_lengths=target)
    begun, held = time.perf_counter(), _largest()
    batches = epoch_batches(store, spec.training.source_tokens, spec.training.target_tokens, seed=1, epoch=0)
    return {
        "seconds": _since(begun),
        "pairs": EPOCH,
        "batches": len(batches),
        "padding": round(batches.padding, 4),
        "held before, GB": round(held, 2),
    }


def lines(spec: Spec) -> dict[str, Any]:
    vocabulary = prepare(spec, Report()).vocabulary
    with TemporaryDirectory() as folder:
        file = Path(folder, "text")
        text = ParallelCorpus(spec, Report())
        number = max(range(len(spec.corpus.train)), key=lambda part: hasattr(spec.corpus.train[part], "source"))
        file.write_text("".join(f"{s}\t{t}\n" for s, t in islice(text.part_pairs("train", number), SAMPLE)))
        ratios, ours = [], []
        for turn in range(ROUNDS):
            both = {"ours": _ours, "alone": _alone}
            taken = {name: both[name](file, vocabulary) for name in sorted(both, reverse=bool(turn % 2))}
            count = 2 * sum(1 for _ in file.open())
            ours.append(count / taken["ours"])
            ratios.append(taken["alone"] / taken["ours"])
        text.close()
    return {
        "lines a second": round(statistics.median(ours)),
        "of SentencePiece alone": [round(statistics.median(ratios), 3), round(min(ratios), 3), round(max(ratios), 3)],
    }


def _pairs(file: Path) -> Iterator[Pair]:
    for line in file.open(encoding="utf-8"):
        source, _, target = line.removesuffix("\n").partition("\t")
        yield clean(source), clean(target)


def _ours(file: Path, vocabulary: Vocabulary) -> float:
    """From text to a store on the disk."""
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with StoreWriter(Path(folder), max(vocabulary.sizes)) as writer:
            for source, target in encode_pairs(_pairs(file), vocabulary):
                writer.add(source, target)
        return time.perf_counter() - begun


def _alone(file: Path, vocabulary: Vocabulary) -> float:
    """SentencePiece on all cores, from lists of lines that lie there."""
    pairs = list(_pairs(file))
    chunks = [list(zip(*pairs[at : at + CHUNK], strict=True)) for at in range(0, len(pairs), CHUNK)]
    begun = time.perf_counter()
    for source, target in chunks:
        vocabulary.source.encode(list(source))
        vocabulary.target.encode(list(target))
    return time.perf_counter() - begun


def _since(begun: float) -> float:
    return round(time.perf_counter() - begun, 2)


def _largest() -> float:
    """Resident GB of this process at its largest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


PARTS = {"prepare": preparing, "first": first_batch, "epoch": epoch, "lines": lines}


def main(arguments: list[str]) -> None:
    if arguments[0] == "--part":
        figures = PARTS[arguments[1]](specs.load(arguments[2], arguments[3:]))
        return print(json.dumps({**figures, "largest, GB": round(_largest(), 2)}))
    for part in PARTS:
        command = [sys.executable, __file__, "--part", part, *arguments]
        print(part, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip(), flush=True)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
