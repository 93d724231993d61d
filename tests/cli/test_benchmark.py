"""`zoo benchmark`: words for people, JSON for programs."""

from __future__ import annotations

import json

import pytest

from cli.benchmark_decode import command
from cli.benchmark_train import command as train
from specs import ZooError

SMALL = [
    "architecture.N=1",
    "architecture.d_model=16",
    "architecture.d_ff=24",
    "vocabulary.size=101",
    "compilation.backend=eager",
]


def test_the_words_name_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    command("tiny", SMALL, batch=2, sentences=3, rounds=2, device="cpu")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transformer-tiny-ende, eager, float32, cpu"
    assert [line.split("  ")[0] for line in lines[1:8]] == [
        "sentences a second",
        "target tokens a second",
        "a step, ms",
        "a sentence alone, ms",
        "the first sentence, ms",
        "building, s",
        "disagreement",
    ]
    assert "cores, torch" in lines[-1]


def test_json_has_medians_and_spreads_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    command("tiny", SMALL, batch=2, sentences=3, rounds=2, device="cpu", precision="int8", json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["backend"], told["precision"], told["sentences"], told["batch"]) == ("eager", "int8", 3, 2)
    assert set(told["sentences_per_second"]) == {"median", "least", "most"}
    assert told["sentences_per_second"]["min"] <= told["sentences_per_second"]["median"]
    assert {"processor", "cores", "threads", "torch"} == set(told["host"])


def test_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(ZooError, match="`egaer` is not a backend"):
        command("tiny", SMALL, rounds=1, sentences=1, backend="egaer")


def test_training_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    small = [*SMALL, "training.source_tokens=400", "training.target_tokens=400"]
    train("tiny", small, steps=1, rounds=1, device="cpu")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transformer-tiny-ende, eager, float32, cpu"
    names = [line.split("  ")[0].rstrip("0123456789.") for line in lines[1:8]]
    assert names == [
        "source tokens a second",
        "target tokens a second",
        "a step, ms",
        "the first round, s",
        "padding, %",
        "utilisation, %",
        "memory",
    ]
    train("tiny", small, steps=1, rounds=1, device="cpu", json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["step_seconds"]["min"] <= told["step_seconds"]["max"]
    assert told["peak_flops"] > 1e9
