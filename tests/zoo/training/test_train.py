"""Training from the start to the end: stopping and resuming, limits, and corpora that do not fit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import specs
from specs import Spec, ZooError
from tests.zoo.conftest import RecordingReport
from tests.zoo.training.conftest import train_steps
from zoo.data.batches import Batch
from zoo.data.builtin import sentences
from zoo.data.prepare import prepare
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.evaluation.evaluate import evaluate_models
from zoo.files.atomic import remove_folder
from zoo.models.weights import read_metadata
from zoo.report import Progress, Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.checkpoints import list_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run
from zoo.training.run_log import RunLog
from zoo.training.step import StepResult
from zoo.training.train import _stop_requested, train
from zoo.training.trainer import Trainer

pytestmark = pytest.mark.integration
World = Callable[..., Spec]


class StoppingReport(RecordingReport):
    """Interrupts this process, as Ctrl-C would, after a number of steps. Collects all messages."""

    def __init__(self, at: int) -> None:
        super().__init__(together=True)
        self.at = at

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        report = self

        class Counting(Progress):
            done = 0

            def advance(self, n: int = 1, **figures: float | str) -> None:
                self.done += n
                if label == "training" and n and self.done == report.at:
                    os.kill(os.getpid(), signal.SIGINT)

        return Counting()


def assert_same_weights(a: Run, b: Run) -> None:
    """Compare the averages if there are any, and the last checkpoints."""
    for file in (a.weights, list_checkpoints(a)[-1].weights):
        if file.is_file():
            ours, theirs = load_file(file), load_file(b.folder / file.relative_to(a.folder))
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours), file


def test_stopped_run_resumes_to_identical_weights(world: World, finished_run: Run) -> None:
    """Stopped in the middle of an epoch and between two checkpoints, twice. The averages are the same as well."""
    for at in (6, 17):
        report = StoppingReport(at)
        run = train(world(), run="stopped", report=report)
        assert list_checkpoints(run)[-1].step == at
        assert not run.trained
        assert f"stopped at step {at}; `zoo train stopped/spec.yaml` resumes" in report.said
    run = train(world(), run="stopped")
    assert_same_weights(finished_run, run)
    steps = [json.loads(line)["step"] for line in run.log.read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 24


def test_resumed_training_samples_the_same_tokens(world: World, finished_run: Run) -> None:
    sampled = "training.subword_regularization=0.2"
    train_steps(world(sampled), "whole")
    train_steps(world(sampled, "training.steps=11"), "extended")
    train_steps(world(sampled), "extended")
    assert_same_weights(Run(Path("whole")), Run(Path("extended")))
    ours, plain = (load_file(list_checkpoints(run)[-1].weights) for run in (Run(Path("whole")), finished_run))
    assert not all(torch.equal(ours[name], plain[name]) for name in ours)
    assert prepare(world(sampled), Report()).fingerprint == prepare(world(), Report()).fingerprint


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_run_resumes_to_identical_weights() -> None:
    """SIGKILL at 20 random moments of training or writing."""
    kills, keys = 20, ["architecture={N: 1, d_model: 32, d_ff: 48, h: 2, d_k: 6, d_v: 4, dropout: 0.1}"]
    keys += ["vocabulary.size=200", "corpus={train: [{grammar: 300}], dev: [{grammar: 10}], test: [{grammar: 10}]}"]
    keys += ["training={source_tokens: 400, target_tokens: 400, checkpoint_steps: 7, average: 3}"]
    keys += [f"training.steps={80 * kills}"]
    code = "import sys, zoo; zoo.train(zoo.spec('tiny', sys.argv[2:]), run=sys.argv[1])"
    whole, folder, moments = train(specs.load("tiny", keys), run="whole"), Path("killed/checkpoints"), random.Random(7)
    for _ in range(kills):
        before = {p.name for p in folder.iterdir()} if folder.exists() else set()
        command = [sys.executable, "-c", code, "killed", *keys]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not (
            folder.exists() and any(p.name.isdigit() and p.name not in before for p in folder.iterdir())
        ):
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        _, output = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"it ended before it was killed: {output}"
    assert_same_weights(whole, train(specs.load("tiny", keys), run="killed"))


def test_finished_run_keeps_its_scores(finished_run: Run, world: World, words: Any) -> None:
    evaluate_models([finished_run.folder], "test")
    written = finished_run.scores.stat().st_mtime_ns, finished_run.weights.stat().st_mtime_ns
    train(world(), report=words)
    assert set(json.loads(finished_run.scores.read_text())) == {"dev", "test"}
    assert (finished_run.scores.stat().st_mtime_ns, finished_run.weights.stat().st_mtime_ns) == written
    reason = "nothing is left to train: `training.steps` (24) is reached"
    assert words.said == [f"{reason}; the averaged weights are in `runs/tiny/weights.safetensors`"]


@pytest.mark.parametrize(("mean", "last", "steps"), [(183.0, 92.0, "24"), (92.0, 183.0, "16,20,24")])
def test_average_that_is_worse_than_the_last_checkpoint_is_replaced(
    finished_run: Run, world: World, words: Any, monkeypatch: pytest.MonkeyPatch, mean: float, last: float, steps: str
) -> None:
    for file in (finished_run.weights, finished_run.scores):
        file.unlink()
    scores = iter([mean, last])
    monkeypatch.setattr(DevSet, "score", lambda self, weights: next(scores))
    train(world(), report=words)
    assert read_metadata(finished_run.weights)["steps"] == steps
    warning = (
        "the average of the last 3 checkpoints has a worse dev perplexity (183.000) than the last checkpoint (92.000), "
        "which is used instead; `zoo average runs/tiny --last 3` writes the average"
    )
    assert [warning in said for said in words.said].count(True) == (mean > last)
    written = finished_run.weights.stat().st_mtime_ns
    train(world(), report=words)
    assert words.said[-1].startswith("nothing is left to train")
    assert finished_run.weights.stat().st_mtime_ns == written


def test_a_limit_is_named_and_bounds_the_progress(world: World, words: Any) -> None:
    reason, totals = "`training.max_tokens` (2,000) is reached", list[int]()

    class Totals(Progress):
        def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
            totals.extend([total] if total is not None else [])

    words.progress = lambda label, *_: Totals() if label == "training" else Progress()
    spec = world("training.steps=500", "training.max_tokens=2000")
    run = train(spec, run="limited", report=words)
    last = list_checkpoints(run)[-1].step
    assert last < 24
    assert f"training has ended at step {last}: {reason}" in words.said
    assert totals[-1] <= last + 1, "the expected number of steps follows from the limit"
    said = len(words.said)
    train(spec, run="limited", report=words)
    assert words.said[said:] == [
        f"nothing is left to train: {reason}; the averaged weights are in `limited/weights.safetensors`"
    ]
    train(world("training.steps=500", "training.max_tokens=4000"), run="limited")
    assert list_checkpoints(run)[-1].step > last


def test_fewer_steps_than_a_run_has_are_refused(finished_run: Run, world: World) -> None:
    before = finished_run.spec_file.read_bytes()
    with pytest.raises(ZooError, match=r"`training.steps` is 10, but `.*` is already at step 24"):
        train(world("training.steps=10"), run=finished_run.folder, device="cpu")
    assert finished_run.spec_file.read_bytes() == before


def test_weights_of_corpus_parts_say_how_often_their_pairs_are_used(
    world: World, trainer: Callable[..., Trainer]
) -> None:
    """The built-in sentences once per epoch, and those of two files three times in two epochs."""
    Path("own.en").write_text("".join(f"the cat number {n}\n" for n in range(40)))
    Path("own.de").write_text("".join(f"die Katze Nummer {n}\n" for n in range(40)))
    weighted = "corpus.train=[{grammar: 300}, {source: own.en, target: own.de, weight: 1.5}]"
    store = prepare(world(weighted), Report()).store("train")
    assert store.parts[1] == 40
    assert sum(store.parts) == len(store)
    epochs: list[int] = [0, 0]
    for batch, position in trainer(weighted).inputs():
        if position.epoch == 2:
            break
        epochs[position.epoch] += batch.size.rows
    assert epochs == [store.parts[0] + 60, store.parts[0] + 60]
    plain = world("corpus.train=[{grammar: 300}, {source: own.en, target: own.de}]")
    assert prepare(plain, Report()).fingerprint == prepare(world(weighted), Report()).fingerprint


def test_another_vocabulary_of_the_same_corpus_is_refused(
    finished_run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the tokeniser may learn other tokens, but the run's embeddings belong to its own."""
    learn = Vocabulary.learn
    before = {path: path.read_bytes() for path in finished_run.folder.iterdir() if path.is_file()}
    remove_folder(prepare(finished_run.spec, Report()).folder)
    with monkeypatch.context() as patch:
        other = [{"source": "quite another text", "target": "ein ganz anderer Text"}] * 300
        patch.setattr(Vocabulary, "learn", lambda pairs, *args: learn(lambda: [*pairs(), *other], *args))
        with pytest.raises(ZooError, match="the vocabulary differs from the one in"):
            train(world("training.steps=25"))
    assert {path: path.read_bytes() for path in finished_run.folder.iterdir() if path.is_file()} == before


def test_changed_corpus_is_refused(world: World) -> None:
    pairs = list(sentences("train", 300))
    for side in ("source", "target"):
        Path(f"train.{side}").write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    files = "corpus.train=[{source: train.source, target: train.target}]"
    own = [files, "corpus.source=en", "corpus.target=de", "training.steps=1"]
    train_steps(world(*own), "runs/tiny")
    with Path("train.source").open("a") as source, Path("train.target").open("a") as target:
        source.write("One more sentence.\n")
        target.write("Noch ein Satz.\n")
    with pytest.raises(ZooError, match="corpus has changed"):
        train_steps(world(*own), "runs/tiny")


def test_diverging_run_keeps_its_last_finite_checkpoint(finished_run: Run, trainer: Callable[..., Trainer]) -> None:
    one: Any = trainer("training.steps=30", run=finished_run.folder)
    original = one.step

    def spoilt(number: int, batch: Batch) -> StepResult:
        result: StepResult = original(number, batch)
        if one.progress.step == 25:
            with torch.no_grad():
                next(one.program.parameters()).fill_(float("nan"))
        return result

    one.step = spoilt
    with pytest.raises(ZooError, match="finite") as caught:
        one.train(lambda: False)
    assert "learning_rate" in (caught.value.hint or "")
    assert list_checkpoints(finished_run)[-1].step == 24
    for checkpoint in list_checkpoints(finished_run):
        assert all(bool(t.isfinite().all()) for t in load_file(checkpoint.weights).values())


def test_full_disk_is_reported_before_the_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ZooError, match="the run needs") as caught:
        train(world())
    assert caught.value.exit_code == 1
    assert not Path("runs/tiny").exists()


def test_damaged_corpus_is_reported_before_a_checkpoint_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that is damaged while training runs, and damage that is found only after the last step."""
    with monkeypatch.context() as patch:
        last_step = threading.Event()
        write = RunLog.write
        patch.setattr(RunLog, "write", lambda *args: last_step.set() or write(*args))

        def late(self: PreparedCorpus) -> None:
            assert last_step.wait(60)
            raise ZooError("the corpus is damaged")

        patch.setattr(PreparedCorpus, "verify", late)
        with pytest.raises(ZooError, match="the corpus is damaged"):
            train(world("training.steps=1"))
    monkeypatch.setattr("zoo.data.prepared_corpus._HASHED_BYTES", 10)
    shard = prepare(world(), Report()).folder / "train" / "00000.source.values"
    content = shard.read_bytes()
    shard.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ZooError, match=r"00000\.source\.values` is damaged"):
        train(world())
    assert not list(Path("runs/tiny/checkpoints").glob("*"))


def test_resumed_run_uses_its_number_of_threads(finished_run: Run, world: World, words: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        train(world("training.steps=25"), report=words)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert any(f"using {before} threads instead of " in line for line in words.said)


def test_restarted_launcher_ignores_fresh(finished_run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    train(world("training.steps=25"), fresh=True)
    assert [c.step for c in list_checkpoints(finished_run)][-1] == 25
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    train(world("training.steps=1"), fresh=True)
    assert [c.step for c in list_checkpoints(finished_run)] == [1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_run_with_a_checkpoint(world: World, words: Any, number: signal.Signals) -> None:
    class Signalling(Progress):
        signals = iter([number])  # a second signal would end the process

        def advance(self, n: int = 1, **figures: float | str) -> None:
            for each in self.signals:
                signal.raise_signal(each)

    words.progress = lambda label, *_: Signalling() if label == "training" else Progress()
    train_steps(world("training.steps=9"), "stopped", report=words)
    assert [checkpoint.step for checkpoint in list_checkpoints(Run(Path("stopped")))] == [1]


def test_run_that_is_stopped_before_its_first_step_has_no_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.training.train._stop_requested", lambda report: nullcontext(lambda: True))
    train_steps(world(), "stopped")
    assert list_checkpoints(Run(Path("stopped"))) == []


def test_ignored_signals_stay_ignored(world: World) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _stop_requested(Report()) as stopped:
            signal.raise_signal(signal.SIGHUP)
            assert not stopped()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_training_works_in_a_thread_and_restores_signal_handlers(world: World) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: train_steps(world("training.steps=1"), "thread"))
    thread.start()
    thread.join()
    assert list_checkpoints(Run(Path("thread")))[-1].step == 1
    train_steps(world("training.steps=1", f"training.seed={2**62}"), "main")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
