"""`prepare` and `train` as a shell sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.report import Report
from zoo.training.resume_check import ResumeResult
from zoo.training.run import Run
from zoo.training.train import TrainingResult

Zoo = Callable[..., Any]
OWN = "corpus={train: [{source: pairs.en, target: pairs.de}], dev: [{held_out: 1}], test: []}"


def test_prepare_shows_what_was_left_out_and_where_the_rest_is(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained()  # writes the files
    done = zoo("prepare", "tiny", "vocabulary.size=75", OWN)
    assert (done.status, Path(done.out.strip()).is_dir()) == (0, True)
    assert "4 pairs read, 3 kept; left out: 1 held out" in done.err
    assert "learning 75 tokens" in done.err
    again = zoo("prepare", "tiny", "vocabulary.size=75", OWN)
    assert again.out == done.out
    assert "learning" not in again.err

    assert done.err.count("4 pairs read") == again.err.count("4 pairs read") == 1


def test_a_runs_own_spec_resumes_it_with_all_that_was_set_when_it_began(
    zoo: Zoo, trained: Callable[..., Run], asked: dict[str, Any]
) -> None:
    Path("runs/x/deep").mkdir(parents=True)
    for file in ("runs/x/deep/spec.yaml", "runs/x/spec.yaml"):
        Path(file).write_text("extends: tiny\ntraining: {steps: 30}\n")
    Path("runs/x/deep/data.json").write_text("{}")
    assert zoo("train", "runs/x/deep/spec.yaml").status == 0
    assert asked["run"] == Path("runs/x/deep")
    zoo("train", "runs/x/deep/spec.yaml", "--run", "other")
    assert asked["run"] == Path("other")
    zoo("train", "runs/x/spec.yaml")  # of no run
    assert asked["run"] is None


def test_a_corpus_that_is_not_there_is_named(zoo: Zoo) -> None:
    done = zoo("train", "tiny", OWN)
    assert done.status == 2
    assert done.err.startswith("error: the corpus file `pairs.en` is not there\n\nhint: ")
    assert not Path("runs").exists()


@pytest.fixture
def asked(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `zoo train` asks of the library, which has stopped at step 30."""
    heard: dict[str, Any] = {}

    def train(spec: Any, **more: Any) -> TrainingResult:
        heard.update(more, spec=spec)
        return TrainingResult(trained(), ended=spec.training.steps == 30, first="tiny2" not in str(more["run"]))

    monkeypatch.setattr("zoo.training.train.run_training", train)
    return heard


def test_a_finished_training_says_what_to_do_next(zoo: Zoo, asked: dict[str, Any]) -> None:
    done = zoo("train", "tiny", "training.steps=30", "training.average=2", "--fresh", "--device", "cpu")
    assert (done.status, done.out) == (0, "")
    assert "zoo decode --spec tiny" in done.err
    assert "zoo publish tiny" in done.err
    assert (asked["spec"].training.steps, asked["spec"].training.average) == (30, 2)
    assert (asked["run"], asked["fresh"], asked["device"]) == (None, True, "cpu")
    assert isinstance(asked["report"], Report)


def test_a_run_of_another_spec_by_its_overrides_is_named_by_its_folder(zoo: Zoo, asked: dict[str, Any]) -> None:
    done = zoo("train", "tiny", "training.steps=30", "architecture.dropout=0.3")
    assert "next: zoo decode --model runs/tiny, zoo evaluate --model runs/tiny, zoo publish runs/tiny\n" in done.err


def test_a_run_elsewhere_is_named_by_its_folder(zoo: Zoo, asked: dict[str, Any]) -> None:
    done = zoo("train", "tiny", "training.steps=30", "--run", "runs/second")
    assert "zoo decode --model runs/second" in done.err
    assert asked["run"] == Path("runs/second")


def test_what_to_do_next_can_be_typed(zoo: Zoo, asked: dict[str, Any]) -> None:
    Path("my spec.yaml").write_text("extends: tiny\ntraining: {steps: 30}\n")
    told = zoo("train", "my spec.yaml").err
    assert "zoo decode --spec 'my spec.yaml', " in told
    assert "zoo publish 'my spec' --name NAME\n" in told


def test_a_training_that_was_stopped_is_no_success(zoo: Zoo, asked: dict[str, Any]) -> None:
    done = zoo("train", "tiny", "training.steps=31")
    assert done.status == 130
    assert "next" not in done.err


def test_of_several_processes_one_speaks(zoo: Zoo, asked: dict[str, Any]) -> None:
    done = zoo("train", "tiny", "training.steps=30", "--run", "tiny2")
    assert (done.status, done.err) == (0, "")


def test_resuming_is_verified_in_words(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter(
        [ResumeResult(7, (2, 4), ()), ResumeResult(7, (2, 4), ("weights.safetensors", "optimiser.safetensors"))]
    )
    monkeypatch.setattr("zoo.training.resume_check.verify_resume", lambda spec, **how: next(verdicts))
    done = zoo("train", "tiny", "--verify-resume")
    assert done.status == 0
    assert "steps 2, 4: weights and moments of step 7 are the same bits" in done.out
    done = zoo("train", "tiny", "--verify-resume")
    assert done.status == 1
    assert "step 7 has another weights.safetensors and optimiser.safetensors" in done.err
    assert "hint: " in done.err


@pytest.mark.parametrize("option", [["--run", "runs/mine"], ["--fresh"]])
def test_verifying_touches_no_run(zoo: Zoo, option: list[str]) -> None:
    done = zoo("train", "tiny", "--verify-resume", *option)
    assert done.status == 2
    assert done.err.startswith("error: `--verify-resume` touches no run\n\nhint: leave `--run` and `--fresh` out")
