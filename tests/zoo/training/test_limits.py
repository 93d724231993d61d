"""When a training ends, which checkpoints stay, and that looking at the dev set leaves no trace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import specs
from compiler import Purpose
from specs import Spec, ZooError
from zoo.data.prepare import prepare
from zoo.evaluation.evaluate import evaluate_translator
from zoo.evaluation.metrics import METRICS, Metric
from zoo.report import Report, figure
from zoo.system import device_memory
from zoo.training.checkpoints import list_checkpoints, scheduled_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run
from zoo.training.train import train, train_steps

World = Callable[..., Spec]


def _lines(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.log.read_text().splitlines()]


def test_training_ends_after_so_many_tokens(world: World) -> None:
    run = train(world("training.max_tokens=1500"))
    (last,) = list_checkpoints(run)[-1:]
    tokens = json.loads((last.folder / "state.json").read_text())["tokens"]
    assert tokens >= 1500
    assert 3 <= last.step < 8
    assert run.weights.is_file()
    again = train(world("training.max_tokens=1500"))
    assert list_checkpoints(again)[-1].step == last.step
    longer = train(world("training.max_tokens=3000"))
    assert list_checkpoints(longer)[-1].step > last.step


def test_training_ends_after_so_much_time(world: World) -> None:
    run = train(world("training.max_minutes=1.0e-6"))
    assert list_checkpoints(run)[-1].step == 1


@pytest.mark.parametrize("score", ["perplexity", "bleu"])
def test_the_dev_set_is_scored_at_each_checkpoint_without_a_trace(world: World, score: str) -> None:
    blind, seeing = (
        train(world("training.dev_score=null"), run="a"),
        train(world(f"training.dev_score={score}"), run="b"),
    )
    ours, theirs = (load_file(list_checkpoints(run)[-1].weights) for run in (blind, seeing))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    scored = [line["step"] for line in _lines(seeing) if f"dev_{score}" in line]
    assert scored == [4, 8, 12, 16, 20, 24]
    assert not any(f"dev_{score}" in line for line in _lines(blind))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_patience_ends_a_training_that_gets_no_better_and_keeps_the_best(
    world: World, monkeypatch: pytest.MonkeyPatch, metric: Metric
) -> None:
    of_more = metric.is_better(2, 1)
    scores = iter(100 - score if of_more else score for score in [9.0, 5.0, 7.0, 6.0, 5.5, 8.0, 8.0])
    monkeypatch.setattr(DevSet, "score", lambda self, weights: next(scores))
    monkeypatch.setattr("zoo.training.dev_set.named", lambda name: metric)  # the corpus of this world is of one task
    run = train(world("training.patience=4", "training.steps=400", "training.average=1"))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["0000020", "0000024", "best-0000008"]
    assert (run.checkpoints / "best-0000008" / "weights.safetensors").is_file()
    assert [c.step for c in scheduled_checkpoints(run)] == [20, 24]  # no mean takes the best one for one of the last
    assert json.loads((list_checkpoints(run)[-1].folder / "state.json").read_text())["best"] == (
        95.0 if of_more else 5.0
    )
    assert [line[f"dev_{metric.name}"] for line in _lines(run) if f"dev_{metric.name}" in line][-1] == (
        92.0 if of_more else 8.0
    )
    assert (
        list_checkpoints(train(world("training.patience=4", "training.steps=400", "training.average=1")))[-1].step == 24
    )
    longer = train(world("training.patience=5", "training.steps=400", "training.average=1"))
    assert list_checkpoints(longer)[-1].step == 28


def test_each_checkpoint_has_a_line_that_stays_and_translations_where_there_are_any(world: World, words: Any) -> None:
    run = train(world("training.dev_score=bleu", "training.steps=10"), report=words)
    lines = {line["step"]: line for line in _lines(run)}
    said = [line for line in words.said if line.startswith("step ")]
    assert [line.partition(":")[0] for line in said] == ["step 4", "step 8", "step 10"]
    for step, line in zip((4, 8, 10), said, strict=True):
        assert f"loss {figure(lines[step]['loss'])}" in line
    best = max((4, 8), key=lambda step: (lines[step]["dev_bleu"], -step))
    assert f"dev BLEU {figure(lines[8]['dev_bleu'])}" in said[1]
    assert "the best so far" in said[0]
    assert ("the best so far" in said[1]) == (best == 8)
    assert "dev BLEU" not in said[2]
    shown = [text for text in words.said if text.startswith("  source ")]
    assert len(shown) == 3  # of two checkpoints, and of the mean at the end
    sources, references = prepare(world(), Report()).texts("dev")
    for text in shown:
        rows = [row.split(None, 1) for row in text.splitlines() if row]
        assert [row[0] for row in rows] == ["source", "reference", "ours"] * 3
        assert [row[1] for row in rows[::3]] == sources[:3]
        assert [row[1] for row in rows[1::3]] == references[:3]
    assert words.said.index(said[0]) < words.said.index(shown[0]) < words.said.index(said[1])


def test_a_dev_set_that_is_scored_without_translating_is_translated_at_the_end_alone(world: World, words: Any) -> None:
    train(world("training.dev_score=perplexity", "training.steps=8"), report=words)
    assert sum(text.startswith("  source ") for text in words.said) == 1
    assert sum("dev perplexity" in text for text in words.said) == 2


LEARNED = ("architecture.positional_encoding=learned", "architecture.max_positions=32", "corpus.max_length=31")


def _dev_of(lengths: list[int]) -> str:
    """A dev set in files, of sentences of so many letters that are a token each."""
    for side in ("en", "de"):
        Path(f"dev.{side}").write_text("".join(f"{'z' * length}\n" for length in lengths), encoding="utf-8")
    return "corpus.dev=[{source: dev.en, target: dev.de}]"


@pytest.mark.parametrize("score", ["bleu", "null"])
def test_a_dev_set_that_outgrows_learned_positions_is_told_before_the_first_step(world: World, score: str) -> None:
    spec = world(*LEARNED, _dev_of([3, 100, 5, 200]), f"training.dev_score={score}", "training.steps=4")
    with pytest.raises(ZooError, match=r"of the dev set's 4 pairs, 2 cannot be scored: the source 'zzz") as caught:
        train(spec)
    assert "positions, and the model has learned 32 (`architecture.max_positions`)" in str(caught.value)
    assert caught.value.exit_code == 2
    assert "architecture.max_positions" in (caught.value.hint or "")
    assert not Path("runs").exists()


def test_a_run_that_was_begun_with_such_a_dev_set_is_not_lost(
    world: World, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world(*LEARNED, _dev_of([3, 100]), "training.dev_score=bleu")
    with monkeypatch.context() as before:
        before.setattr("zoo.training.train.too_long", lambda *_: None)
        train_steps(spec.model_copy(update={"training": spec.training.model_copy(update={"steps": 4})}), "runs/tiny")
    run = train(spec, report=words)
    assert run.weights.is_file()
    assert sum("2 pairs, 1 cannot be scored" in text for text in words.said) == 1
    assert sum(text.startswith("the dev set has no score: ") for text in words.said) == 1


@pytest.mark.parametrize("name", ["bleu", "f1", "perplexity"])
def test_the_dev_set_is_scored_by_the_metric_of_its_spec(
    parrot: Any, parsing: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A program is built for what the metric needs, and nothing else is asked of it."""
    spoken = parrot("parsing" if name == "f1" else "translation")
    fields = {"training.dev_score": name}
    spec = parsing(**fields) if name == "f1" else specs.load("tiny", fields)
    built: list[Any] = []
    monkeypatch.setattr("zoo.training.dev_set.texts", lambda *_: (spoken.sources, spoken.references))
    monkeypatch.setattr("zoo.training.dev_set.built", lambda spec, purposes, *_, **__: built.extend(purposes))
    monkeypatch.setattr("zoo.training.dev_set.kind", lambda task: lambda *_, **__: spoken)
    dev = DevSet(spec, None, "cpu", Report())  # type: ignore[arg-type]
    found = dev.score({})
    wanted = evaluate_translator(spoken, spoken.sources, spoken.references, Report())
    assert found == wanted[name]
    assert [what for what, _ in spoken.asked[:-2]] == ["forced" if name == "perplexity" else "outputs"]
    assert (Purpose.DECODE_STEP in built) == bool(dev.samples) == (name != "perplexity")


def test_every_line_of_the_log_says_speed_padding_utilisation_and_memory(world: World) -> None:
    cpu = torch.device("cpu")
    before = device_memory.peak_memory(cpu)
    lines = _lines(train(world()))
    memory = [before, *(line["memory_bytes"] for line in lines), device_memory.peak_memory(cpu)]
    assert memory == sorted(memory)
    assert [line["step"] for line in lines] == [step for step in range(1, 25) if step % 3 == 0 or step % 4 == 0]
    for line in lines:
        assert 0.8 < line["target_tokens_per_second"] / line["source_tokens_per_second"] < 1.5
        assert 0 < line["padding"] < 0.9
        assert 0 < line["utilisation"] < 1


@pytest.mark.parametrize("score", ["perplexity", "bleu"])
def test_a_score_that_is_not_finite_is_none(world: World, monkeypatch: pytest.MonkeyPatch, score: str) -> None:
    scores = iter([math.nan, 6.0, math.inf, math.nan, 5.0, 5.5, 4.0])
    monkeypatch.setattr(DevSet, "score", lambda self, weights: next(scores))
    run = train(world(f"training.dev_score={score}", "training.patience=6", "training.average=6"))
    state = json.loads((list_checkpoints(run)[-1].folder / "state.json").read_text())
    assert state["best_step"] == (20 if score == "perplexity" else 8)
    assert [line[f"dev_{score}"] for line in _lines(run) if f"dev_{score}" in line][:3] == [None, 6.0, None]


def test_a_dev_set_that_cannot_be_scored_costs_no_step(
    world: World, monkeypatch: pytest.MonkeyPatch, words: Any
) -> None:
    def failing(self: DevSet, weights: object) -> float:
        raise ZooError("a line has more tokens than there are positions")

    monkeypatch.setattr(DevSet, "score", failing)
    run = train(world("training.steps=8"), report=words)
    assert [c.step for c in list_checkpoints(run)] == [4, 8]
    assert sum("no score at step" in line for line in words.said) == 2
