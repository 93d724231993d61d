"""`zoo prepare`, `zoo train`, `zoo average` and `zoo shortlist`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.app import run
from compiler.backends import BACKENDS
from tests.conftest import Zoo
from tests.examples import write_pairs
from zoo.data.prepare import prepare
from zoo.report import Report
from zoo.training.run import Run
from zoo.training.train import TrainingResult

CORPUS = "corpus={train: [{source: pairs.en, target: pairs.de}], dev: [{held_out: 1}], test: []}"


def test_prepare_prints_the_counts_and_the_folder(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained()  # writes the text files
    result = zoo("prepare", "tiny", "vocabulary.size=75", CORPUS)
    assert (result.status, Path(result.out.strip()).is_dir()) == (0, True)
    assert "4 pairs read, 3 kept" in result.err
    again = zoo("prepare", "tiny", "vocabulary.size=75", CORPUS)
    assert again.out == result.out
    assert len(again.err) < len(result.err), "the vocabulary is not learned again"
    assert result.err.count("4 pairs read") == again.err.count("4 pairs read") == 1


def test_prepare_shows_three_dropped_pairs_per_reason(zoo: Zoo) -> None:
    pairs = [("the dog", "der Hund"), ("the old cat sleeps", "die alte Katze schläft"), ("", "leer")]
    pairs += [(f"<i>{number}</i>", f"{number}") for number in range(5)] + [("Berlin", "Berlin")]
    pairs += [("a cat", "die Katze und noch eine Katze und noch eine Katze"), ("the dog " * 40, "der Hund " * 40)]
    pairs += pairs[:1]
    write_pairs(pairs)
    overrides = ["vocabulary.size=45", "corpus.filters=[copy, markup]", "corpus.deduplicate=true"]
    overrides += ["corpus.max_length=60", "corpus.max_ratio=3", CORPUS.replace("{held_out: 1}", "")]
    result = zoo("prepare", "tiny", *overrides)
    assert result.status == 0, result.err
    assert (
        "dropped: 1 with an empty side, 1 duplicates, 1 with identical sides, 5 with HTML, 1 too long, 1 with very "
        "different lengths"
    ) in " ".join(result.err.split())
    shown = [line.strip() for line in result.err.splitlines() if line.startswith("  dropped, ")]
    reasons = ["an empty side", "identical sides", *["HTML"] * 3, "very different lengths"]
    expected = sorted(["dropped, duplicates", "dropped, too long", *(f"dropped, with {reason}" for reason in reasons)])
    assert sorted(line.split(":")[0] for line in shown) == expected
    assert "dropped, with identical sides: Berlin | Berlin" in shown
    assert "dropped, with HTML: <i>2</i> | 2" in shown
    assert zoo("prepare", "tiny", *overrides).err.count("  dropped, ") == len(shown)


@pytest.fixture
def requested(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments with which `zoo train` calls the library, whose training ends at step 30."""
    arguments: dict[str, Any] = {}
    run = trained()

    def train(spec: Any, **more: Any) -> TrainingResult:
        arguments.update(more, spec=spec)
        return TrainingResult(run, ended=spec.training.steps == 30, first="tiny2" not in str(more["run"]))

    monkeypatch.setattr("zoo.training.train.run_training", train)
    return arguments


class TestTrain:
    def test_a_missing_corpus_is_named(self, zoo: Zoo) -> None:
        result = zoo("train", "tiny", CORPUS)
        assert (result.status, "`pairs.en`" in result.err, "hint: " in result.err) == (2, True, True)
        assert not Path("runs").exists()

    def test_a_missing_file_is_located_in_the_spec(self, zoo: Zoo) -> None:
        corpus = "{source: en, target: de, dev: [], test: [],\n  train: [{source: a.en, target: a.de}]}"
        Path("mine").mkdir()
        Path("mine/own.yaml").write_text(f"extends: tiny\ncorpus: {corpus}\n")
        for command in ("train", "prepare"):
            result = zoo(command, "mine/own.yaml")
            assert "the corpus file `mine/a.en` does not exist (mine/own.yaml:3)" in result.err
        result = zoo("prepare", "mine/own.yaml", "corpus.train=[{source: b.en, target: b.de}]")
        assert "`b.en` does not exist (command line: `corpus.train=" in result.err

    def test_the_spec_of_a_run_resumes_that_run(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        Path("runs/x/deep").mkdir(parents=True)
        for file in ("runs/x/deep/spec.yaml", "runs/x/spec.yaml"):
            Path(file).write_text("extends: tiny\ntraining: {steps: 30}\n")
        Path("runs/x/deep/data.json").write_text("{}")
        assert zoo("train", "runs/x/deep/spec.yaml").status == 0
        assert requested["run"] == Path("runs/x/deep")
        zoo("train", "runs/x/deep/spec.yaml", "--run", "other")
        assert requested["run"] == Path("other")
        zoo("train", "runs/x/spec.yaml")  # not a run: it has no data.json
        assert requested["run"] is None

    def test_options_are_passed_on_and_the_next_commands_printed(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        result = zoo("train", "tiny", "training.steps=30", "training.average=2", "--fresh", "--yes", "--device", "cpu")
        assert (result.status, result.out) == (0, "")
        assert "zoo decode --spec tiny" in result.err
        assert "zoo publish tiny" in result.err
        assert (requested["spec"].training.steps, requested["spec"].training.average) == (30, 2)
        assert (requested["run"], requested["fresh"], requested["device"]) == (None, True, "cpu")
        assert isinstance(requested["report"], Report)

    def test_head_sizes_that_an_override_breaks_are_reported(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        result = zoo("train", "tiny", "architecture.h=8")
        assert "h * d_k = 256 and h * d_v = 256 differ from d_model = 128" in result.err
        assert "add `architecture.d_k=16 architecture.d_v=16`" in result.err
        assert "differ" not in zoo("train", "tiny", "architecture={h: 8, d_k: 16, d_v: 16}").err
        assert "an `architecture.h` that divides d_model" in zoo("plan", "tiny", "architecture.h=3").err
        assert "differ" not in zoo("plan", "table3/b-dk16").err, "a spec may differ on purpose"
        for name, text in (("mine", "extends: tiny"), ("second", "extends: mine.yaml")):
            Path(f"{name}.yaml").write_text(f"{text}\nname: {name}\narchitecture: {{h: 8}}\n")
            for command in ("plan", "show"):
                assert "h * d_k = 256 and h * d_v = 256 differ" in zoo(command, f"{name}.yaml").err

    @pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("n\n", False), ("", False)])
    def test_a_fresh_start_asks_before_it_removes_a_run(
        self, zoo: Zoo, requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch, answer: str, removed: bool
    ) -> None:
        result = zoo("train", "tiny", "training.steps=30", "--fresh")
        assert (result.status, "fresh" in requested) == (2, False)
        assert "`runs/tiny` was not removed, because stdin is not a terminal" in result.err
        assert "--yes" in result.err
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: answer))
        result = run(["train", "tiny", "training.steps=30", "--fresh"])
        assert (result, "fresh" in requested) == ((0, True) if removed else (1, False))

    def test_a_fresh_start_without_a_run_asks_nothing(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        assert zoo("train", "tiny", "training.steps=30", "--fresh", "--run", "runs/new").status == 0
        assert requested["fresh"] is True

    def test_the_next_commands_name_the_folder_of_another_run(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        result = zoo("train", "tiny", "training.steps=30", "architecture.dropout=0.3")
        assert "next: zoo decode --model runs/tiny, zoo evaluate --model runs/tiny, zoo publish" in result.err
        result = zoo("train", "tiny", "training.steps=30", "--run", "runs/second")
        assert "zoo decode --model runs/second" in result.err

    def test_the_next_commands_are_quoted_for_a_shell(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        Path("my spec.yaml").write_text("extends: tiny\ntraining: {steps: 30}\n")
        messages = zoo("train", "my spec.yaml").err
        assert "zoo decode --spec 'my spec.yaml', " in messages
        assert "zoo publish 'my spec' --name NAME\n" in messages

    def test_status_of_interrupted_and_secondary_processes(self, zoo: Zoo, requested: dict[str, Any]) -> None:
        interrupted = zoo("train", "tiny", "training.steps=31")
        assert (interrupted.status, "next" in interrupted.err) == (130, False)
        secondary = zoo("train", "tiny", "training.steps=30", "--run", "tiny2")
        assert (secondary.status, secondary.err) == (0, "")


def test_a_shortlist_is_used_by_decode(zoo: Zoo, trained: Callable[..., Run]) -> None:
    if problem := BACKENDS["native"].unavailable_reason():
        pytest.skip(problem)
    run = trained("runs/tiny")
    prepare(run.spec, Report()).vocabulary.save(run.folder)
    decode = ("decode", "--model", "tiny", "--backend", "native", "--shortlist")
    assert "has no shortlist" in zoo(*decode, stdin="we read\n").refusal
    result = zoo("shortlist", "tiny")
    assert (result.status, result.out) == (0, "runs/tiny/shortlist.safetensors\n")
    decoded = zoo(*decode, stdin="we read\n")
    assert (decoded.status, decoded.out.count("\n")) == (0, 1)
