"""`zoo prepare`, `zoo train`, `zoo average` and `zoo shortlist`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cli.app import run
from compiler.backends import BACKENDS
from tests.conftest import Trained, Zoo, missing
from tests.examples import write_pairs
from zoo.data.prepare import prepare
from zoo.report import Report
from zoo.training.train import TrainingResult

CORPUS = "corpus={train: [{source: pairs.en, target: pairs.de}], dev: [{held_out: 1}], test: []}"


def test_prepare_prints_the_folder_the_counts_and_three_dropped_pairs_per_reason(zoo: Zoo) -> None:
    pairs = [("the dog", "der Hund"), ("the old cat sleeps", "die alte Katze schläft"), ("", "leer")]
    pairs += [(f"<i>{number}</i>", f"{number}") for number in range(5)] + [("Berlin", "Berlin")]
    pairs += [("a cat", "die Katze und noch eine Katze und noch eine Katze"), ("the dog " * 40, "der Hund " * 40)]
    write_pairs([*pairs, pairs[0]])
    overrides = ["vocabulary.size=45", "corpus.filters=[copy, markup]", "corpus.deduplicate=true"]
    overrides += ["corpus.max_length=60", "corpus.max_ratio=3", CORPUS.replace("{held_out: 1}", "")]
    first, again = (zoo("prepare", "tiny", *overrides) for _ in range(2))
    messages = first.err
    counts = "1 with an empty side, 1 duplicates, 1 with identical sides, 5 with HTML, 1 too long"
    assert f"dropped: {counts}, 1 with very different lengths" in " ".join(messages.split())
    shown = [line.strip() for line in messages.splitlines() if line.startswith("  dropped, ")]
    assert [line.split(":")[0].removeprefix("dropped, ") for line in sorted(shown)] == [
        *("duplicates", "too long", "with HTML", "with HTML", "with HTML"),
        *("with an empty side", "with identical sides", "with very different lengths"),
    ]
    assert {"dropped, with identical sides: Berlin | Berlin", "dropped, with HTML: <i>2</i> | 2"} <= set(shown)
    assert (Path(again.printed.strip()).is_dir(), again.out) == (True, first.out)
    assert again.err.count("  dropped, ") == len(shown)
    assert ("learning" in first.err, "learning" in again.err) == (True, False)


@pytest.fixture
def requested(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments with which `zoo train` calls the library, whose training ends at step 30."""
    arguments: dict[str, Any] = {}
    run = trained()

    def train(spec: Any, **more: Any) -> TrainingResult:
        arguments.update(more, spec=spec)
        return TrainingResult(run, signal.SIGTERM * (spec.training.steps != 30), first="tiny2" not in str(more["run"]))

    monkeypatch.setattr("zoo.training.train.run_training", train)
    return arguments


def test_a_missing_file_of_the_corpus_is_located(zoo: Zoo) -> None:
    assert not missing(zoo("train", "tiny", CORPUS).refusal, "`pairs.en`", "hint: ")
    assert not Path("runs").exists()
    corpus = "{source: en, target: de, dev: [], test: [],\n  train: [{source: en, target: a.de}]}"
    Path("mine").mkdir()
    Path("mine/own.yaml").write_text(f"extends: tiny\ncorpus: {corpus}\n")
    for command in ("train", "prepare"):
        error = zoo(command, "mine/own.yaml").err
        assert "the corpus file `mine/en` does not exist (mine/own.yaml:3)" in error
    error = zoo("prepare", "mine/own.yaml", "corpus.train=[{source: b.en, target: b.de}]").err
    assert "`b.en` does not exist (command line: `corpus.train=" in error


def test_the_spec_of_a_run_resumes_that_run(zoo: Zoo, requested: dict[str, Any]) -> None:
    Path("runs/x/deep").mkdir(parents=True)
    for file in ("runs/x/deep/spec.yaml", "runs/x/spec.yaml"):
        Path(file).write_text("extends: tiny\ntraining: {steps: 30}\n")
    Path("runs/x/deep/data.json").write_text("{}")
    for arguments, run_folder in (
        (["runs/x/deep/spec.yaml"], Path("runs/x/deep")),
        (["runs/x/deep/spec.yaml", "--run", "other"], Path("other")),
        (["runs/x/spec.yaml"], None),  # not a run: it has no data.json
    ):
        assert zoo("train", *arguments).status == 0
        assert requested["run"] == run_folder


def test_options_are_passed_on_and_the_next_commands_printed(zoo: Zoo, requested: dict[str, Any]) -> None:
    result = zoo("train", "tiny", "training.steps=30", "training.average=2", "--fresh", "--yes", "--device", "cpu")
    assert (result.status, result.out) == (0, "")
    assert not missing(result.err, "zoo decode --spec tiny", "zoo publish tiny")
    assert (requested["spec"].training.steps, requested["spec"].training.average) == (30, 2)
    assert (requested["run"], requested["fresh"], requested["device"]) == (None, True, "cpu")
    assert isinstance(requested["report"], Report)


def test_a_fresh_start_asks_before_it_removes_a_run(
    zoo: Zoo, requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "train", "tiny", "training.steps=30", "--fresh"
    problem = "`runs/tiny` was not removed, because stdin is not a terminal"
    assert not missing(zoo(*command).refusal, problem, "--yes")
    assert "fresh" not in requested
    terminal = Mock(isatty=lambda: True, readline=Mock(side_effect=["n\n", "", "y\n"]))
    monkeypatch.setattr("sys.stdin", terminal)
    assert [(run(command), "fresh" in requested) for _ in range(3)] == [(1, False), (1, False), (0, True)]
    requested.clear()
    assert zoo(*command, "--run", "runs/new").status == 0, "there is no run, and stdin is no terminal"
    assert requested["fresh"] is True


def test_the_next_commands_name_another_folder_and_are_quoted(zoo: Zoo, requested: dict[str, Any]) -> None:
    command = "train", "tiny", "training.steps=30"
    following = "next: zoo decode --model runs/tiny, zoo evaluate --model runs/tiny, zoo publish"
    assert following in zoo(*command, "architecture.dropout=0.3").err
    assert "zoo decode --model runs/second" in zoo(*command, "--run", "runs/second").err
    assert zoo(*command, "--run", "tiny2") == (0, "", ""), "a secondary process"
    interrupted = zoo("train", "tiny", "training.steps=31")
    assert (interrupted.status, "next" in interrupted.err) == (143, False)
    Path("my spec.yaml").write_text("extends: tiny\ntraining: {steps: 30}\n")
    commands = "zoo decode --spec 'my spec.yaml', ", "zoo publish 'my spec' --name NAME\n"
    assert not missing(zoo("train", "my spec.yaml").err, *commands)


def test_a_shortlist_is_used_by_decode(zoo: Zoo, trained: Trained) -> None:
    if problem := BACKENDS["native"].unavailable_reason():
        pytest.skip(problem)
    run = trained("runs/tiny")
    prepare(run.spec, Report()).vocabulary.save(run.folder)
    decode = ("decode", "--model", "tiny", "--backend", "native", "--shortlist")
    assert "has no shortlist" in zoo(*decode, stdin="we read\n").refusal
    assert zoo("shortlist", "tiny").printed == "runs/tiny/shortlist.safetensors\n"
    assert zoo(*decode, stdin="we read\n").printed.count("\n") == 1
