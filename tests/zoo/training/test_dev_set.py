"""The dev set during training: it is scored at checkpoints, decides about patience, and never affects the weights."""

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
from tests.zoo.training.conftest import train_steps
from zoo.data.prepare import prepare
from zoo.evaluation.metrics import METRICS, compute_scores
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.report import Report, figure
from zoo.training.checkpoints import list_checkpoints, scheduled_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run
from zoo.training.train import train

pytestmark = pytest.mark.integration
World = Callable[..., Spec]


def lines_of(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.log.read_text().splitlines()]


def state_of(run: Run) -> dict[str, Any]:
    return dict(json.loads((list_checkpoints(run)[-1].folder / "state.json").read_text()))


def test_scoring_does_not_change_the_weights(world: World, finished_run: Run) -> None:
    """The shared run is scored by perplexity."""
    train_steps(world("training.dev_score=bleu", "training.steps=20"), "other")
    other = Run(Path("other"))
    ours, theirs = (load_file(run.checkpoints / "0000020" / "weights.safetensors") for run in (finished_run, other))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [line["step"] for line in lines_of(finished_run) if "dev_perplexity" in line] == [4, 8, 12, 16, 20, 24]
    assert [line["step"] for line in lines_of(other) if "dev_bleu" in line] == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("name", ["perplexity", "bleu"])
def test_patience_ends_the_training_and_the_best_checkpoint_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    metric = next(m for m in METRICS if m.name == name)
    higher = metric.is_better(2, 1)
    scores = iter(100 - score if higher else score for score in [9.0, 5.0, 7.0, 6.0, 5.5, 8.0, 8.0])
    monkeypatch.setattr(DevSet, "score", lambda self, weights: next(scores))
    keys = [f"training.dev_score={name}", "training.steps=400", "training.average=1"]
    train_steps(world("training.patience=4", *keys), "runs/tiny")
    run = Run(Path("runs/tiny"))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["0000020", "0000024", "best-0000008"]
    assert (run.checkpoints / "best-0000008" / "weights.safetensors").is_file()
    assert [c.step for c in scheduled_checkpoints(run)] == [20, 24], "averages do not include the best one"
    assert state_of(run)["best"] == (95.0 if higher else 5.0)
    assert lines_of(run)[-1][f"dev_{name}"] == (92.0 if higher else 8.0)
    train_steps(world("training.patience=4", *keys), "runs/tiny")
    assert list_checkpoints(run)[-1].step == 24
    train_steps(world("training.patience=5", *keys), "runs/tiny")
    assert list_checkpoints(run)[-1].step == 28


def test_checkpoints_report_scores_and_sample_translations(world: World, words: Any) -> None:
    run = train(world("training.dev_score=bleu", "training.steps=10"), report=words)
    lines = {line["step"]: line for line in lines_of(run)}
    summaries = [line for line in words.said if line.startswith("step ")]
    assert [line.partition(":")[0] for line in summaries] == ["step 4", "step 8", "step 10"]
    for step, line in zip((4, 8, 10), summaries, strict=True):
        assert f"loss {figure(lines[step]['loss'])}" in line
    assert f"dev BLEU {figure(lines[8]['dev_bleu'])}" in summaries[1]
    assert "the best so far" in summaries[0]
    assert ("the best so far" in summaries[1]) == (lines[8]["dev_bleu"] > lines[4]["dev_bleu"])
    assert "dev BLEU" not in summaries[2]
    samples = [text for text in words.said if text.startswith("  source ")]
    assert len(samples) == 3, "of two checkpoints, and of the average at the end"
    sources = prepare(world(), Report()).texts("dev")["source"]
    assert all(sources[0] in text for text in samples)
    assert words.said.index(summaries[0]) < words.said.index(samples[0]) < words.said.index(summaries[1])


def test_dev_set_longer_than_learned_positions_is_refused_before_training(
    world: World, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was started in spite of it continues, without scores."""
    for side in ("en", "de"):
        Path(f"dev.{side}").write_text("".join(f"{'z' * length}\n" for length in (3, 100)), encoding="utf-8")
    keys = ["architecture.positions={kind: learned, rows: 32}", "corpus.max_length=31"]
    keys += ["corpus.dev=[{source: dev.en, target: dev.de}]", "training.dev_score=bleu"]
    with pytest.raises(ZooError, match=r"the dev set cannot be scored") as caught:
        train(world(*keys))
    assert "learned 32 (`architecture.positions.rows`)" in str(caught.value)
    assert caught.value.exit_code == 2
    assert "architecture.positions.rows" in (caught.value.hint or "")
    assert not Path("runs").exists()
    with monkeypatch.context() as patch:
        patch.setattr("zoo.training.train.require_scorable_dev_set", lambda *_: None)
        train_steps(world(*keys, "training.steps=2"), "runs/tiny")
    run = train(world(*keys, "training.steps=3"), report=words)
    assert run.weights.is_file()
    assert sum(text.startswith("the dev set could not be scored: ") for text in words.said) == 1


@pytest.mark.parametrize("name", ["bleu", "f1", "perplexity"])
def test_program_is_built_for_what_the_metric_needs(
    parrot: Any, parsing: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    translator = parrot("parsing" if name == "f1" else "translation")
    fields = {"training.dev_score": name}
    spec = parsing(**fields) if name == "f1" else specs.load("tiny", fields)
    built: list[Any] = []
    texts = EvaluationSet({"source": translator.sources, "target": translator.references})
    monkeypatch.setattr("zoo.training.dev_set.read_split", lambda *_: texts)
    monkeypatch.setattr(
        "zoo.training.dev_set.build_with_message", lambda spec, purposes, *_, **__: built.extend(purposes)
    )
    monkeypatch.setattr("zoo.training.dev_set.resolve_name", lambda name: lambda *_, **__: translator)
    dev = DevSet(spec, None, "cpu", Report())  # type: ignore[arg-type]
    score = dev.score({})
    expected = compute_scores(ModelOutputs(translator, texts), translator.spec)
    assert score == pytest.approx(expected[name])
    assert [what for what, _ in translator.asked[:-2]] == ["scores" if name == "perplexity" else "outputs"]
    assert (Purpose.DECODE_STEP in built) == bool(dev.samples) == (name != "perplexity")


def test_score_that_is_not_finite_is_null_in_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([math.nan, 6.0, math.inf, math.nan, 5.0, 5.5, 4.0])
    monkeypatch.setattr(DevSet, "score", lambda self, weights: next(scores))
    train_steps(world("training.patience=6", "training.average=6"), "runs/tiny")
    run = Run(Path("runs/tiny"))
    assert state_of(run)["best_step"] == 20
    assert [line["dev_perplexity"] for line in lines_of(run) if "dev_perplexity" in line][:3] == [None, 6.0, None]


def test_failure_to_score_does_not_stop_the_training(world: World, monkeypatch: pytest.MonkeyPatch, words: Any) -> None:
    def failing(self: DevSet, weights: object) -> float:
        raise ZooError("a line has more tokens than there are positions")

    monkeypatch.setattr(DevSet, "score", failing)
    train_steps(world("training.steps=8"), "runs/tiny", report=words)
    assert [c.step for c in list_checkpoints(Run(Path("runs/tiny")))] == [4, 8]
    assert sum("the dev set could not be scored at step" in line for line in words.said) == 2


def test_patience_without_a_dev_set_is_warned_about(world: World, words: Any) -> None:
    keys = ("corpus.dev=[]", "training.dev_score=perplexity", "training.patience=1", "training.steps=1")
    train_steps(world(*keys), "runs/tiny", report=words)
    assert any(line.startswith("`training.patience` has no effect") for line in words.said)
