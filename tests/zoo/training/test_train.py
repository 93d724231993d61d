"""Training in a tiny world: what is stopped goes on bit for bit, and what does not fit is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specs import Spec, ZooError
from zoo.data.prepare import PreparedCorpus, prepare
from zoo.data.training_set import TrainingSet
from zoo.evaluation.evaluate import evaluate_model
from zoo.files import manifest
from zoo.files.atomic import remove_folder
from zoo.report import Progress as ShownProgress
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.averaging import average, mean_of
from zoo.training.checkpoints import list_checkpoints
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.step import StepResult
from zoo.training.train import train
from zoo.training.trainer import StepInput, Trainer


class Stop(Report):
    """Asks this process to stop, as Ctrl-C would, once so many steps are done."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.said: list[str] = []

    def info(self, text: str) -> None:
        self.said.append(text)

    warn = info

    def progress(self, label: str, total: int | None, unit: str) -> ShownProgress:
        stop = self

        class Counted(ShownProgress):
            done = 0

            def advance(self, n: int = 1, **figures: float | str) -> None:
                self.done += n
                if label == "training" and n and self.done == stop.at:
                    os.kill(os.getpid(), signal.SIGINT)

        return Counted()


def test_a_stopped_run_goes_on_bit_for_bit(world: Callable[..., Spec]) -> None:
    """Stopped in the middle of an epoch and between two checkpoints, twice."""
    whole = train(world(), run="whole")
    for at in (6, 17):
        report = Stop(at)
        run = train(world(), run="stopped", report=report)
        assert list_checkpoints(run)[-1].step == at
        assert f"stopped at step {at}; `zoo train stopped/spec.yaml` goes on from there" in report.said
    run = train(world(), run="stopped")
    for file in (list_checkpoints(whole)[-1].weights, whole.weights):
        ours, theirs = load_file(run.folder / file.relative_to(whole.folder)), load_file(file)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), file
    steps = [json.loads(line)["step"] for line in run.log.read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 24


def test_a_run_that_is_extended_equals_one_that_was_long_from_the_start(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=11"), run="grown")
    run = train(world(), run="grown")
    whole = train(world(), run="whole")
    ours, theirs = (load_file(r.weights) for r in (run, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_training_that_draws_pieces_is_the_same_when_it_is_resumed(world: Callable[..., Spec]) -> None:
    sampled = "training.subword_regularization=0.2"
    whole, plain = train(world(sampled), run="whole"), train(world(), run="plain")
    train(world(sampled, "training.steps=11"), run="grown")
    grown = train(world(sampled), run="grown")
    first, second, other = (load_file(run.weights) for run in (whole, grown, plain))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert prepare(world(sampled), Report()).fingerprint == prepare(world(), Report()).fingerprint


def test_batches_whose_pieces_are_drawn_are_within_the_budgets(world: Callable[..., Spec]) -> None:
    """They are by the tokens that they are trained in, of which there are more than the store has."""
    spec = world("training.subword_regularization=0.5", "training.source_tokens=65", "training.steps=1")
    data = TrainingSet.from_prepared(spec, prepare(spec, Report()))
    sizes = []
    for given in data.batches_from(0):
        batch = given.pairs.to_batch()
        assert batch.source.numel() <= 65
        assert batch.target.numel() - len(batch) <= 400
        sizes.append(given.pairs.size)
        if given.epoch:
            break
    assert sum(size.source_tokens for size in sizes) > 1.2 * data.epoch_batches(0).total.source_tokens


def test_a_run_whose_batches_were_cut_before_pieces_were_drawn_is_told(world: Callable[..., Spec]) -> None:
    """Its checkpoints say nothing of a pool. It goes on with what it has not seen of its epoch."""
    drawn = "training.subword_regularization=0.2"
    run = train(world(drawn, "training.steps=4"))
    folder = list_checkpoints(run)[-1].folder
    state = json.loads((folder / "state.json").read_text())
    assert (state["batch"], state.pop("drawn")) == (0, 4)
    (folder / "state.json").write_text(json.dumps({**state, "batch": 4}))
    manifest.write(folder)
    report = Stop(at=-1)
    train(world(drawn, "training.steps=8"), report=report)
    assert sum("before their tokens were drawn" in line for line in report.said) == 1
    assert json.loads((list_checkpoints(run)[-1].folder / "state.json").read_text())["batch"] == 4
    report = Stop(at=-1)
    train(world(drawn, "training.steps=12"), report=report)
    assert not any("before their tokens" in line for line in report.said)


def test_weights_of_a_corpus_say_how_often_its_pairs_are_trained_on(world: Callable[..., Spec]) -> None:
    """The built-in sentences once, and those of two files three times in two epochs."""
    Path("own.en").write_text("".join(f"the cat number {n}\n" for n in range(40)))
    Path("own.de").write_text("".join(f"die Katze Nummer {n}\n" for n in range(40)))
    spec = world("corpus.train=[{grammar: 300}, {source: own.en, target: own.de, weight: 1.5}]")
    store = prepare(spec, Report()).store("train")
    assert store.parts[1] == 40
    assert sum(store.parts) == len(store)
    trainer = Trainer(spec, TrainingSet(spec, store), Run(Path("nowhere")), Processes("cpu"), Report())
    epochs: list[int] = [0, 0]
    for work in trainer.inputs():
        if work.place.epoch == 2:
            break
        epochs[work.place.epoch] += work.size.rows
    assert epochs == [store.parts[0] + 60, store.parts[0] + 60]
    plain = world("corpus.train=[{grammar: 300}, {source: own.en, target: own.de}]")
    assert prepare(plain, Report()).fingerprint == prepare(spec, Report()).fingerprint


def test_it_learns(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=120", "training.warmup_steps=40", "training.checkpoint_steps=60"))
    losses = [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]
    assert losses[-1] < 0.8 * losses[0]
    assert run.folder == Path("runs/tiny")
    assert "dev" in json.loads(run.scores.read_text())


def test_accumulation_changes_nothing_but_rounding(world: Callable[..., Spec]) -> None:
    spec = world("architecture.dropout=0.0")
    store = prepare(spec, Report()).store("train")
    gradients = []
    for parts in (1, 3):
        spec = world("architecture.dropout=0.0", f"training.accumulation_steps={parts}")
        trainer = Trainer(spec, TrainingSet(spec, store), Run(Path("nowhere")), Processes("cpu"), Report())
        result = trainer.step(next(trainer.inputs()))
        moments = [trainer.update.optimiser.state[p]["exp_avg"] for p in trainer.program.parameters()]
        gradients.append((result.smoothed, *moments))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_adam_and_the_loss_are_those_of_a_plain_loop(trainer: Callable[..., Trainer]) -> None:
    """Ten steps against the update written out: moments, bias correction, epsilon outside of the root (5.3)."""
    begun = trainer("architecture.dropout=0.0")
    spec = begun.spec
    parameters = list(begun.program.parameters())
    twins = [p.detach().clone().double() for p in parameters]
    moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in twins]
    t = spec.training
    for number, work in zip(range(1, 11), begun.inputs(), strict=False):
        loss = begun.program(work.batch.source, work.batch.target).smoothed / work.size.target_tokens
        gradients = torch.autograd.grad(loss, parameters)
        begun.step(work)
        rate = 16**-0.5 * min(number**-0.5, number * 10**-1.5)
        for twin, (m, v), gradient in zip(twins, moments, gradients, strict=True):
            m.mul_(t.beta1).add_((1 - t.beta1) * gradient)
            v.mul_(t.beta2).add_((1 - t.beta2) * gradient.double() ** 2)
            corrected = (v / (1 - t.beta2**number)).sqrt() + t.epsilon
            twin -= rate * (m / (1 - t.beta1**number)) / corrected
    for parameter, twin in zip(parameters, twins, strict=True):
        torch.testing.assert_close(parameter.detach().double(), twin, atol=2e-4, rtol=1e-3)


def test_only_the_newest_two_checkpoints_keep_the_optimiser(world: Callable[..., Spec]) -> None:
    run = train(world("training.average=4"))
    found = list_checkpoints(run)
    assert [c.step for c in found] == [12, 16, 20, 24]
    assert [c.resumable for c in found] == [False, False, True, True]


def test_the_average_is_the_mean_and_is_taken_wide(tmp_path: Path) -> None:
    files = []
    tensors = [torch.randn(50) * 10.0**i for i in range(3)]
    for number, tensor in enumerate(tensors):
        files.append(tmp_path / f"{number}.safetensors")
        save_file({"a": tensor}, files[-1])
    expected = torch.stack([t.double() for t in tensors]).mean(0).float()
    assert torch.equal(mean_of(files)["a"], expected)


def test_average_takes_the_last_n(world: Callable[..., Spec]) -> None:
    run = train(world())
    average(run, 2)
    expected = mean_of([c.weights for c in list_checkpoints(run)[-2:]])
    assert all(torch.equal(load_file(run.weights)[name], expected[name]) for name in expected)
    with pytest.raises(ZooError, match="between 1 and the 3 checkpoints"):
        average(run, 9)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
@pytest.mark.parametrize("file", ["weights.safetensors", "optimiser.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named_and_passed_over(world: Callable[..., Spec], file: str, damage: str) -> None:
    whole = train(world("training.steps=12"), run="whole")
    run = train(world("training.steps=12"), run="damaged")
    target = list_checkpoints(run)[-1].folder / file
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 4
    target.write_bytes({"truncate": content[: len(content) // 2], "flip": content, "empty": b""}[damage])
    report = Stop(at=-1)
    train(world("training.steps=12"), run="damaged", report=report)
    assert any(file in line and "going back" in line for line in report.said)
    ours, theirs = (load_file(list_checkpoints(r)[-1].weights) for r in (run, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_checkpoint_that_only_cannot_be_read_stays(
    world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, opened = train(world("training.steps=8")), os.open
    newest = list_checkpoints(run)[-1].folder

    def fails(path: Any, *given: Any) -> int:
        if path == newest / "manifest.json":
            raise PermissionError
        return opened(path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        with pytest.raises(ZooError, match=r"manifest\.json` may not be read by this user"):
            train(world("training.steps=12"))
    assert list_checkpoints(run)[-1].folder == newest


def test_the_newest_checkpoint_is_that_of_most_steps(tmp_path: Path) -> None:
    for step in (9_999_998, 10_000_000, 9_999_999, 4):
        (tmp_path / "checkpoints" / f"{step:07d}").mkdir(parents=True)
    assert [each.step for each in list_checkpoints(Run(tmp_path))] == [4, 9_999_998, 9_999_999, 10_000_000]


def test_another_vocabulary_of_the_same_corpus_is_refused(
    world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version of what learns it may give; the run's own is what its embeddings are of."""
    run, learn = train(world("training.steps=4")), Vocabulary.learn
    before = {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}
    prepared = prepare(run.spec, Report()).folder
    remove_folder(prepared)
    with monkeypatch.context() as patch:
        other = [("quite another text", "ein ganz anderer Text")] * 300
        patch.setattr(Vocabulary, "learn", lambda pairs, *given: learn(lambda: [*pairs(), *other], *given))
        with pytest.raises(ZooError, match="has given another vocabulary than"):
            train(world("training.steps=8"))
    assert {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file()} == before
    remove_folder(prepared)
    assert list_checkpoints(train(world("training.steps=8")))[-1].step == 8


def test_patience_that_waits_for_nothing_is_told(world: Callable[..., Spec]) -> None:
    report = Stop(at=-1)
    train(
        world("training.steps=2", "corpus.dev=[]", "training.dev_score=perplexity", "training.patience=1"),
        report=report,
    )
    assert "`training.patience` ends nothing: `corpus.dev` is empty, and nothing is scored" in report.said


def test_no_checkpoint_left_to_resume_is_an_error_not_a_fresh_start(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=8"))
    for checkpoint in list_checkpoints(run):
        (checkpoint.folder / "weights.safetensors").write_bytes(b"")
    with pytest.raises(ZooError, match="can be resumed") as caught:
        train(world("training.steps=8"))
    assert "--fresh" in (caught.value.hint or "")


def test_a_differing_spec_is_refused_with_its_keys(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=4"))
    before = run.spec_file.read_bytes()
    with pytest.raises(ZooError, match=r"architecture\.dropout: `0\.1` in the run, `0\.2` now") as caught:
        train(world("training.steps=4", "architecture.dropout=0.2", "training.seed=3"))
    assert "training.seed: `1` in the run, `3` now" in str(caught.value)
    assert caught.value.hint.startswith("`zoo train runs/tiny/spec.yaml` goes on with the run's own values; ")
    assert run.spec_file.read_bytes() == before
    train(world("training.steps=8", "training.average=2", "training.log_steps=4"))
    assert list_checkpoints(run)[-1].step == 8


def test_fresh_starts_over_and_takes_nothing_else_away(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=4"))
    (run.folder / "notes.txt").write_text("mine")
    with pytest.raises(ZooError, match=r"notes\.txt"):
        train(world("training.steps=4", "training.seed=3"), fresh=True)
    (run.folder / "notes.txt").unlink()
    train(world("training.steps=4", "training.seed=3"), fresh=True)
    assert run.spec.training.seed == 3


def test_a_folder_that_is_no_run_is_left_alone(world: Callable[..., Spec]) -> None:
    Path("thesis").mkdir()
    Path("thesis/chapter1.tex").write_text("...")
    for fresh in (False, True):
        with pytest.raises(ZooError, match=r"chapter1\.tex"):
            train(world(), run="thesis", fresh=fresh)
    assert [p.name for p in Path("thesis").iterdir()] == ["chapter1.tex"]


def test_a_corpus_that_changed_under_a_run_is_refused(world: Callable[..., Spec]) -> None:
    lines = [f"{pair.source}\t{pair.target}" for pair in _pairs(300)]
    for side, column in (("en", 0), ("de", 1)):
        Path(f"train.{side}").write_text("".join(line.split("\t")[column] + "\n" for line in lines))
    own = ["corpus.train=[{source: train.en, target: train.de}]", "training.steps=4"]
    train(world(*own))
    with Path("train.en").open("a") as en, Path("train.de").open("a") as de:
        en.write("One more sentence.\n")
        de.write("Noch ein Satz.\n")
    with pytest.raises(ZooError, match="corpus has changed"):
        train(world(*own))


def test_checkpoints_by_the_clock(world: Callable[..., Spec]) -> None:
    """A minute that is over at once makes every step due; one that never ends leaves the last step alone."""
    by_clock = ["training.checkpoint_steps=null", "training.steps=5", "training.average=5"]
    run = train(world(*by_clock, "training.checkpoint_minutes=1.0e-9"), run="often")
    assert [c.step for c in list_checkpoints(run)] == [1, 2, 3, 4, 5]
    run = train(world(*by_clock, "training.checkpoint_minutes=1000.0"), run="never")
    assert [c.step for c in list_checkpoints(run)] == [5]


def test_a_diverging_run_stops_and_keeps_the_last_good_checkpoint(world: Callable[..., Spec]) -> None:
    """The weights are spoilt in the middle of the run, as a bad step would."""
    spec = world()
    run = Run(Path("runs/tiny"))
    train(world("training.steps=8"))
    trainer = Trainer(spec, TrainingSet(spec, prepare(spec, Report()).store("train")), run, Processes("cpu"), Report())
    steps = trainer.step

    def spoilt(work: StepInput) -> StepResult:
        result = steps(work)
        if trainer.progress.step == 9:
            with torch.no_grad():
                next(trainer.program.parameters()).fill_(float("nan"))
        return result

    trainer.step = spoilt  # type: ignore[method-assign]
    with pytest.raises(ZooError, match=r"nan|finite") as caught:
        trainer.train(lambda: False)
    assert "learning_rate" in (caught.value.hint or "")
    assert [c.step for c in list_checkpoints(run)][-1] == 8
    for checkpoint in list_checkpoints(run):
        assert all(bool(t.isfinite().all()) for t in load_file(checkpoint.weights).values())


def test_a_full_disk_is_told_before_the_start(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(world(), Report())
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ZooError, match="the run needs") as caught:
        train(world())
    assert caught.value.exit_code == 1
    assert not Path("runs/tiny").exists()


def test_a_run_that_was_killed_at_its_start_can_be_started(world: Callable[..., Spec]) -> None:
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/.spec.yaml.partial-somewhere-1.2").touch()
    assert train(world("training.steps=4")).weights.is_file()


def test_training_a_finished_run_again_keeps_its_scores(world: Callable[..., Spec]) -> None:
    run = train(world("training.steps=4"))
    evaluate_model(run.folder, "test")
    train(world("training.steps=4"))
    assert set(json.loads(run.scores.read_text())) == {"dev", "test"}


def test_seeds_of_any_size(world: Callable[..., Spec]) -> None:
    assert train(world("training.steps=2", f"training.seed={2**62}")).weights.is_file()


def test_training_in_a_thread_needs_no_signals(world: Callable[..., Spec]) -> None:
    done: list[Run] = []
    thread = threading.Thread(target=lambda: done.append(train(world("training.steps=4"))))
    thread.start()
    thread.join(timeout=100)
    assert list_checkpoints(done[0])[-1].step == 4


def test_evaluation_leaves_the_signals_as_they_were(world: Callable[..., Spec]) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(world("training.steps=4"))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def _pairs(count: int) -> list[object]:
    from zoo.data.builtin import sentences

    return list(sentences("train", count))


def test_no_checkpoint_is_written_from_a_damaged_corpus(world: Callable[..., Spec], monkeypatch: Any) -> None:
    """A shard that was damaged under the eyes of a running training, where opening takes its content on trust."""
    monkeypatch.setattr("zoo.data.prepare._HASHED_BYTES", 10)
    spec = world()
    shard = prepare(spec, Report()).folder / "train" / "00000.source.tokens"
    content = shard.read_bytes()
    shard.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ZooError, match=r"00000\.source\.tokens` is damaged"):
        train(spec)
    assert not list(Path("runs/tiny/checkpoints").glob("*"))


def test_nor_at_the_end_though_that_comes_before_all_is_verified(
    world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path("runs/tiny/log.jsonl").absolute()

    def late(self: PreparedCorpus) -> None:
        while not (log.is_file() and log.read_bytes()):  # the last step is done
            time.sleep(0.02)
        time.sleep(0.2)
        raise ZooError("it is damaged")

    monkeypatch.setattr(PreparedCorpus, "verify", late)
    with pytest.raises(ZooError, match="it is damaged"):
        train(world("training.steps=1"))
    assert not list(Path("runs/tiny/checkpoints").glob("*"))


def test_every_step_is_in_a_line_of_the_log(world: Callable[..., Spec]) -> None:
    """The last one, too, of a run that is shorter than `log_steps` or is stopped between two of its lines."""
    run = train(world("training.steps=2"))
    assert [json.loads(line)["step"] for line in run.log.read_text().splitlines()] == [2]


def test_a_run_that_is_over_says_so(world: Callable[..., Spec], words: Any) -> None:
    train(world("training.steps=4"))
    train(world("training.steps=3"), report=words)
    assert "there is nothing left to train: the run stands at step 4" in words.said
