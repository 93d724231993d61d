"""Training from the start to the end: stopping and resuming, limits, and corpora that do not fit."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

import specs
from compiler import build_module
from specs import ZooError
from tests.examples import examples, write_pairs
from tests.refusals import refused
from tests.zoo.training.conftest import Patch, World, files_of, train_steps
from zoo.data.batches import Batch
from zoo.data.prefetch import run_in_thread
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
from zoo.training.train import run_training, save, stop_requested, train

pytestmark = pytest.mark.integration
OWN_PAIRS = "corpus.train=[{grammar: 300}, {source: pairs.en, target: pairs.de}]"


def watch_training(report: Any, action: Callable[[int, int], object]) -> None:
    """Let the report call a function after each training step, with its number and the expected number of steps."""

    class Watched(Progress):
        step = 0

        def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
            self.step += n
            if total is not None:
                action(self.step, total)

    report.progress = lambda label, *_: Watched() if label == "training" else Progress()


def assert_same_weights(a: Run, b: Run) -> None:
    """Compare the averages if there are any, and the last checkpoints."""
    for file in (a.weights, list_checkpoints(a)[-1].weights):
        if file.is_file():
            ours, theirs = load_file(file), load_file(b.folder / file.relative_to(a.folder))
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours), file


def test_stopped_run_resumes_to_identical_weights(world: World, finished_run: Run, words: Any) -> None:
    """Stopped in the middle of an epoch and between two checkpoints. The averages are the same as well."""
    for at, number in ((1, signal.SIGTERM), (6, signal.SIGINT), (17, signal.SIGHUP)):
        watch_training(words, lambda step, _, at=at, number=number: step == at and signal.raise_signal(number))
        run, stop_signal, _ = run_training(world(), run="stopped", fresh=False, device="auto", report=words)
        assert (list_checkpoints(run)[-1].step, stop_signal) == (at, number)
        assert not run.trained
        assert words.said[-1] == f"stopped at step {at}; run `zoo train stopped/spec.yaml` to resume"
    run = train(world(), run="stopped")
    assert_same_weights(finished_run, run)
    steps = [json.loads(line)["step"] for line in run.log.read_text().splitlines()]
    assert (steps, steps[-1]) == (sorted(set(steps)), 24)


def test_resumed_training_samples_the_same_tokens(world: World, finished_run: Run) -> None:
    sampled, whole = "training.subword_regularization=0.2", Run(Path("whole"))
    train_steps(world(sampled), whole.folder)
    train_steps(world(sampled, "training.steps=11"), "extended")
    train_steps(world(sampled), "extended")
    assert_same_weights(whole, Run(Path("extended")))
    ours, plain = (load_file(list_checkpoints(run)[-1].weights) for run in (whole, finished_run))
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
        before = {path.name for path in folder.glob("*")}
        process = subprocess.Popen([sys.executable, "-c", code, "killed", *keys], stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not any(p.name.isdigit() and p.name not in before for p in folder.glob("*")):
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        _, output = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"it ended before it was killed: {output}"
    assert_same_weights(whole, train(specs.load("tiny", keys), run="killed"))


def test_finished_run_keeps_its_scores_and_cannot_have_fewer_steps(finished_run: Run, world: World, words: Any) -> None:
    evaluate_models([finished_run.folder], "test")
    written = finished_run.scores.stat().st_mtime_ns, finished_run.weights.stat().st_mtime_ns
    assert run_training(world(), run=None, fresh=False, device="cpu", report=words) == (finished_run, 0, True)
    assert set(json.loads(finished_run.scores.read_text())) == {"dev", "test"}
    assert (finished_run.scores.stat().st_mtime_ns, finished_run.weights.stat().st_mtime_ns) == written
    reason = "nothing is left to train: `training.steps` (24) is reached"
    assert words.said == [f"{reason}; the averaged weights are in `runs/tiny/weights.safetensors`"]
    before = files_of(finished_run)
    refused(r"`training.steps` is 10, but `.*` is already at step 24", train, world("training.steps=10"))
    refused("`runs/tiny` contains a run of `zoo train`", save, build_module(world()), finished_run.folder, steps=99)
    assert files_of(finished_run) == before


@pytest.mark.parametrize(("mean", "last", "steps"), [(183.0, 92.0, "24"), (92.0, 183.0, "16,20,24")])
def test_average_that_is_worse_than_the_last_checkpoint_is_replaced(
    finished_run: Run, world: World, words: Any, monkeypatch: Patch, mean: float, last: float, steps: str
) -> None:
    finished_run.weights.unlink()
    finished_run.scores.unlink()
    monkeypatch.setattr(DevSet, "score", Mock(side_effect=[mean, last]))
    train(world(), report=words)
    assert read_metadata(finished_run.weights)["steps"] == steps
    worse = "has a worse dev perplexity (183.000) than the last checkpoint (92.000), which is used instead; "
    warning = f"the average of the last 3 checkpoints {worse}run `zoo average runs/tiny --last 3` to use the average"
    assert words.said.count(warning) == (mean > last)
    train(world(), report=words)
    assert words.said[-1].startswith("nothing is left to train")


def test_a_limit_is_named_and_bounds_the_progress(world: World, words: Any) -> None:
    reason, totals = "`training.max_tokens` (2,000) is reached", list[int]()
    watch_training(words, lambda step, total: totals.append(total))
    spec = world("training.steps=500", "training.max_tokens=2000")
    run = train(spec, run="limited", report=words)
    last = list_checkpoints(run)[-1].step
    assert last < 24
    assert f"training has ended at step {last}: {reason}" in words.said
    assert totals[-1] <= last + 1, "the expected number of steps follows from the limit"
    train(spec, run="limited", report=words)
    assert words.said[-1] == f"nothing is left to train: {reason}; the averaged weights are in `{run.weights}`"
    train(world("training.steps=500", "training.max_tokens=4000"), run="limited")
    assert list_checkpoints(run)[-1].step > last


def test_weights_of_corpus_parts_say_how_often_their_pairs_are_used(world: World, trainer: Any) -> None:
    """The built-in sentences once per epoch, and those of two files three times in two epochs."""
    write_pairs((f"the cat number {n}", f"die Katze Nummer {n}") for n in range(40))
    weighted = OWN_PAIRS.replace("pairs.de", "pairs.de, weight: 1.5")
    prepared = prepare(world(weighted), Report())
    grammar, own = prepared.store("train").parts
    assert (own, grammar + own) == (40, len(prepared.store("train")))
    batches = takewhile(lambda each: each[1].epoch < 2, trainer(weighted).inputs())
    epochs = Counter(position.epoch for batch, position in batches for _ in range(batch.size.rows))
    assert epochs == {0: grammar + 60, 1: grammar + 60}
    assert prepare(world(OWN_PAIRS), Report()).fingerprint == prepared.fingerprint


def test_another_vocabulary_of_the_same_corpus_is_refused(finished_run: Run, world: World, monkeypatch: Patch) -> None:
    """Another version of the tokeniser may learn other tokens, but the run's embeddings belong to its own."""
    learn, before = Vocabulary.learn, files_of(finished_run)
    remove_folder(prepare(finished_run.spec, Report()).folder)
    other = examples([("quite another text", "ein ganz anderer Text")] * 300)
    monkeypatch.setattr(Vocabulary, "learn", lambda pairs, *args: learn(lambda: [*pairs(), *other], *args))
    refused("the vocabulary differs from the one in", train, world("training.steps=25"))
    assert files_of(finished_run) == before


def test_diverging_run_keeps_its_last_finite_checkpoint(finished_run: Run, trainer: Any) -> None:
    one = trainer("training.steps=30", run=finished_run.folder)
    original = one.step

    def spoilt(number: int, batch: Batch) -> StepResult:
        result = original(number, batch)
        if number == 26:
            next(one.program.parameters()).data.fill_(math.nan)
        return result

    one.step = spoilt
    assert "learning_rate" in str(refused("finite", one.train, lambda: False).hint)
    assert list_checkpoints(finished_run)[-1].step == 24
    left = [load_file(checkpoint.weights) for checkpoint in list_checkpoints(finished_run)]
    assert all(bool(tensor.isfinite().all()) for weights in left for tensor in weights.values())


def test_full_disk_is_reported_before_the_start(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Mock(free=1000))
    assert (refused("the run needs", train, world()).exit_code, Path("runs/tiny").exists()) == (1, False)


def test_damaged_corpus_is_reported_before_a_checkpoint_is_written(world: World, monkeypatch: Patch) -> None:
    """A shard that is damaged while training runs, and damage that is found only after the last step."""
    with monkeypatch.context() as patch:
        last_step, write = threading.Event(), RunLog.write
        patch.setattr(RunLog, "write", lambda *args: last_step.set() or write(*args))

        def late(self: PreparedCorpus) -> None:
            assert last_step.wait(60)
            raise ZooError("the corpus is damaged")

        patch.setattr(PreparedCorpus, "verify", late)
        refused("the corpus is damaged", train, world("training.steps=1"))
    monkeypatch.setattr("zoo.data.prepared_corpus._HASHED_BYTES", 10)
    shard = prepare(world(), Report()).folder / "train" / "00000.source.values"
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])
    refused(r"00000\.source\.values` is damaged", train, world())
    assert not list(Path("runs/tiny/checkpoints").glob("*"))


def test_resumed_run_uses_its_number_of_threads(finished_run: Run, world: World, words: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    train(world("training.steps=25"), report=words)
    assert torch.get_num_threads() == before + 1
    assert any(f"using {before} threads instead of " in line for line in words.said)


def test_restarted_launcher_ignores_fresh(finished_run: Run, world: World, monkeypatch: Patch) -> None:
    for restarts, steps, expected in (("1", 25, [20, 24, 25]), ("0", 1, [1])):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
        train(world(f"training.steps={steps}"), fresh=True)
        assert [checkpoint.step for checkpoint in list_checkpoints(finished_run)] == expected


def test_run_that_is_stopped_before_its_first_step_has_only_warnings(
    world: World, words: Any, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("zoo.training.train.stop_requested", lambda on_stop: nullcontext(lambda: True))
    monkeypatch.setattr("zoo.training.train.bfloat16_speed", lambda: 0.5)
    without_dev_set = ("corpus.dev=[]", "training.dev_score=perplexity", "training.patience=1")
    for spec in (world("training.precision=bfloat16"), world(*without_dev_set)):
        assert list_checkpoints(train(spec, run=spec.training.precision, report=words)) == []
    for warning in ("only emulates bfloat16, at 0.5 times", "`training.patience` has no effect"):
        assert sum(warning in line for line in words.said) == 1


def test_ignored_signals_stay_ignored(world: World) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requested(lambda: None) as received:
            signal.raise_signal(signal.SIGHUP)
            assert not received()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_training_works_in_a_thread_and_restores_signal_handlers(world: World) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run_in_thread(lambda: train_steps(world("training.steps=1"), "thread")).result()
    assert list_checkpoints(Run(Path("thread")))[-1].step == 1
    train_steps(world("training.steps=1", f"training.seed={2**62}"), "main")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
