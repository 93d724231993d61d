"""`zoo train`: prepare what is missing, train, average, score the dev set."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from compiler import find_device
from specs import Spec
from zoo.data.prepare import prepare
from zoo.evaluation.model import evaluate_model
from zoo.files import require_space
from zoo.report import Report
from zoo.training.average import average
from zoo.training.footprint import footprint
from zoo.training.run import Run
from zoo.training.trainer import Trainer


def train(
    spec: Spec,
    *,
    run: Path | str | None = None,
    fresh: bool = False,
    device: str = "auto",
    report: Report | None = None,
) -> Run:
    """Trains by this spec in a run's folder (`runs/SPEC` unless `run` names another), from where that run is.

    Ctrl-C or SIGTERM writes a checkpoint and stops. At the end the last checkpoints are averaged and the dev set is
    scored. With `fresh` what the run holds is removed first. Raises ZooError, before anything of the run is written,
    where it was begun with another spec or corpus, where the disk is too small, or where the device is not there.
    """
    report = report or Report()
    device = find_device(device)
    place = Run(Path(run)) if run is not None else Run.default(spec)
    if not fresh:
        place.check(spec)
    require_space(place.folder, footprint(spec).disk_bytes - _size(place.checkpoints), "the run")
    prepared = prepare(spec, report)
    if fresh:
        place.clear()
    store = prepared.store("train")
    place.start(spec, prepared.fingerprint, int(store.source_lengths.max()))
    prepared.vocabulary.save(place.folder)
    trainer = Trainer(spec, store, place, device, report)
    with _stopping(report) as stopped:
        done = trainer.train(stopped)
    if not done:
        report.say(f"stopped at step {trainer.progress.step:,}; `zoo train` goes on from there")
        return place
    average(place)
    report.say(f"averaged the last checkpoints into {place.weights}")
    _score_dev(place, device, report)
    return place


def _score_dev(run: Run, device: str, report: Report) -> None:
    if not run.spec.corpus.dev:
        report.say("there is no dev set to score")
        return
    scores = evaluate_model(run.folder, "dev", device=device, precision="float32", report=report)
    report.say(f"dev: BLEU {scores.bleu:.2f}, perplexity {scores.perplexity:.3f} per piece")


@contextmanager
def _stopping(report: Report) -> Iterator[Callable[[], bool]]:
    """While it lasts, a first SIGINT or SIGTERM asks for a stop after the step; a second one acts as usual."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])
        report.say("stopping after this step (once more stops at once, without a checkpoint)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
