"""The dev set during training: it is scored at checkpoints, decides about patience, and never affects the weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

from specs import Spec, ZooError
from tests.examples import write_pairs
from tests.refusals import refused
from tests.zoo.training.conftest import Patch, World, train_steps
from zoo.data.prepare import prepare
from zoo.report import Report, figure
from zoo.training.checkpoints import list_checkpoints, scheduled_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run
from zoo.training.train import train

pytestmark = pytest.mark.integration
LOWER = [9.0, 5.0, 7.0, 6.0, 5.5, 8.0, 8.0]
"""Scores of a metric that is better if it is lower."""


def train_tiny(spec: Spec, report: Report | None = None) -> Run:
    train_steps(spec, "runs/tiny", report=report)
    return Run(Path("runs/tiny"))


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


@pytest.mark.parametrize(("name", "scores"), [("perplexity", LOWER), ("bleu", [100 - score for score in LOWER])])
def test_patience_ends_training_and_keeps_the_best(world: World, monkeypatch: Patch, name: str, scores: Any) -> None:
    monkeypatch.setattr(DevSet, "score", Mock(side_effect=scores))
    keys = [f"training.dev_score={name}", "training.steps=400", "training.average=1"]
    run = train_tiny(world("training.patience=4", *keys))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["0000020", "0000024", "best-0000008"]
    assert (run.checkpoints / "best-0000008" / "weights.safetensors").is_file()
    assert [c.step for c in scheduled_checkpoints(run)] == [20, 24], "averages do not include the best one"
    assert (state_of(run)["best"], lines_of(run)[-1][f"dev_{name}"]) == (scores[1], scores[5])
    for patience, step in ((4, 24), (5, 28)):
        train_tiny(world(f"training.patience={patience}", *keys))
        assert list_checkpoints(run)[-1].step == step


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
    first, *_ = prepare(world(), Report()).texts("dev")["source"]
    assert all(first in text for text in samples)
    assert words.said.index(summaries[0]) < words.said.index(samples[0]) < words.said.index(summaries[1])


def test_too_long_dev_set_is_refused_before_training(world: World, words: Any, monkeypatch: Patch) -> None:
    """A run that was started in spite of it continues, without scores."""
    write_pairs([("z" * 3,) * 2, ("z" * 100,) * 2])
    keys = ["architecture.positions={kind: learned, rows: 32}", "corpus.max_length=31"]
    keys += ["corpus.dev=[{source: pairs.en, target: pairs.de}]", "training.dev_score=bleu"]
    problem, field = "the model cannot be scored on the dev set", r"architecture\.positions\.rows"
    error = refused(rf"{problem}.*model has 32 \(`{field}`\).*\s+hint: .*{field}", train, world(*keys))
    assert (error.exit_code, Path("runs").exists()) == (2, False)
    with monkeypatch.context() as patch:
        patch.setattr("zoo.training.train.require_scorable_dev_set", lambda *_: None)
        train_tiny(world(*keys, "training.steps=2"))
    assert train(world(*keys, "training.steps=3"), report=words).weights.is_file()
    assert sum(text.startswith("the model could not be scored on the dev set: ") for text in words.said) == 1


def test_score_that_is_not_finite_is_null_in_the_log(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(DevSet, "score", Mock(side_effect=[math.nan, 6.0, math.inf, math.nan, 5.0, 5.5, 4.0]))
    run = train_tiny(world("training.patience=6", "training.average=6"))
    scores = [line["dev_perplexity"] for line in lines_of(run) if "dev_perplexity" in line]
    assert (state_of(run)["best_step"], scores[:3]) == (20, [None, 6.0, None])


def test_failure_to_score_does_not_stop_the_training(world: World, monkeypatch: Patch, words: Any) -> None:
    monkeypatch.setattr(DevSet, "score", Mock(side_effect=ZooError("a line has more tokens than there are positions")))
    run = train_tiny(world("training.steps=8"), words)
    assert [checkpoint.step for checkpoint in list_checkpoints(run)] == [4, 8]
    assert sum("the model could not be scored on the dev set at step" in line for line in words.said) == 2
