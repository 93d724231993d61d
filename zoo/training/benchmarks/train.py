"""How fast a spec trains on this machine: weights of before training, made-up pairs, whole updates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from compiler import find_device, trainable
from compiler.switches import fast_float32
from specs import EOS, Spec, ZooError
from zoo.data.store import Store, StoreWriter
from zoo.data.training_set import TrainingSet
from zoo.planning.room import require_to_train
from zoo.report import Report
from zoo.system import ram
from zoo.system.clock import Host, Spread, host, spread, timed
from zoo.system.peak import matrix_peak
from zoo.training.prediction import Outset
from zoo.training.processes import Processes
from zoo.training.run import Run
from zoo.training.trainer import Trainer, Work

MAX_STEPS = 1_000
"""Of a round, or rounds, that anybody would wait for."""
_PAIR = 2_000  # bytes, while pairs are made up
_MEDIAN, _SPREAD = 22, 0.5
"""Lengths of sources, in tokens: log-normal, about as those of WMT 2014. A target has up to 15 % more or less."""
_LONGEST = 80


@dataclass(frozen=True)
class Speed:
    """Figures of `steps` whole updates a round; tokens are those of the text with EOS, padding not counted."""

    name: str
    backend: str
    precision: str
    device: str
    host: Host
    rounds: int
    steps: int
    first_seconds: float
    """Of the first updates of the program's life, in which whatever is compiled is compiled."""
    step_seconds: Spread
    source_tokens_per_second: Spread
    target_tokens_per_second: Spread
    padding: float
    """Share of the places of all batches."""
    utilisation: Spread
    """FLOPs of the matrix products, padding left out, over what a large product reaches in the same time."""
    peak_flops: float
    """What it reaches: FLOPs a second."""
    memory_bytes: int
    """The most that there was: of this process, or of the GPU."""
    loss: float
    """Of the last update, in nats a token: all systems that are compared should have about the same."""


def measure(
    spec: Spec, *, steps: int = 3, rounds: int = 3, device: str = "auto", report: Report | None = None
) -> Speed:
    """Measures updates on batches of the spec's own budget, short, middling and long ones.

    Raises ZooError for a device or a backend that cannot be had, for counts out of bounds, and for a budget that holds
    no sentence of 80 tokens, or as many as the spec has at most.
    """
    if not (1 <= steps <= MAX_STEPS and 1 <= rounds <= MAX_STEPS):
        raise ZooError(
            f"{rounds:,} rounds of {steps:,} steps cannot be measured", hint=f"both are from 1 to {MAX_STEPS:,}"
        )
    require_to_train(spec, device)
    report, device = report or Report(), find_device(device)
    program = trainable(spec, device=device)
    outset = Outset.of(spec, program, report)
    with TemporaryDirectory() as folder, fast_float32(outset.matrix_library or None):
        store, run = made_up(spec, steps, Path(folder)), Run(Path(folder, "run"))
        whole = spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"train": ()})})  # no parts, no weights
        trainer = Trainer(spec, TrainingSet(whole, store), run, Processes(device), report, program=program)
        works = list(islice(trainer.works(), steps))
        peak = matrix_peak(trainer.device, spec.training.precision)
        first, _ = timed(lambda: _round(trainer, works))
        with report.progress("train", rounds, "rounds") as progress:
            taken = []
            for _ in range(rounds):
                seconds, loss = timed(lambda: _round(trainer, works))
                taken.append(seconds)
                progress.advance()
    source, target, places = (
        sum(getattr(work.size, name) for work in works) for name in ("source_tokens", "target_tokens", "places")
    )
    flops = sum(trainer.flops_of(work.size) for work in works)
    return Speed(
        name=spec.name,
        backend=trainer.program.backend,
        precision=spec.training.precision,
        device=device,
        host=host(),
        rounds=rounds,
        steps=steps,
        first_seconds=first,
        step_seconds=spread(seconds / steps for seconds in taken),
        source_tokens_per_second=spread(source / seconds for seconds in taken),
        target_tokens_per_second=spread(target / seconds for seconds in taken),
        padding=1 - (source + target) / places,
        utilisation=spread(flops / seconds / peak for seconds in taken),
        peak_flops=peak,
        memory_bytes=ram.most_used(trainer.device),
        loss=loss,
    )


def _round(trainer: Trainer, works: list[Work]) -> float:
    """All of the updates; the loss a token of the last one, for which the device is waited for."""
    for work in works:
        result = trainer.step(work)
    return float(result.smoothed) / result.tokens


def made_up(spec: Spec, batches: int, folder: Path) -> Store:
    """A store of random tokens, enough for so many batches of the spec's budget, the same ones every time."""
    budget = max(spec.training.source_tokens, spec.training.target_tokens)
    random = np.random.default_rng(1)
    count = max(4096, 4 * batches * budget // _MEDIAN)
    ram.require(
        _PAIR * count, torch.device("cpu"), f"to make up {count:,} pairs", "measure fewer steps, or smaller ones"
    )
    longest = min(_LONGEST - 1, spec.corpus.max_length)  # without EOS
    sources = np.clip(random.lognormal(np.log(_MEDIAN), _SPREAD, count), 4, longest).astype(int)
    targets = np.clip(sources * random.uniform(0.85, 1.15, count), 4, longest).astype(int)
    with StoreWriter(folder, max(spec.vocabulary.sizes)) as writer:
        source, target = (
            [_pieces(random, size, length) for length in lengths]
            for size, lengths in zip(spec.vocabulary.sizes, (sources, targets), strict=True)
        )
        writer.add(source, target)
    return Store(folder)


def _pieces(random: np.random.Generator, size: int, length: int) -> Any:
    return random.integers(EOS + 1, size, length).tolist()
