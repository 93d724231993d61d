"""`zoo compile`, `zoo doctor` and `zoo benchmark`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler import EmittedProgram, Purpose, options
from compiler.artefact import Artefact
from compiler.backends import BACKENDS, BuildRequest
from tests.conftest import Trained, Zoo, missing
from zoo.system.memory import memory_limit

SMALL = ("architecture.N=1", "architecture.d_model=16", "architecture.d_ff=24", "vocabulary.size=101")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Add a `caching` backend, which is eager and caches an artefact; return the folders that it wrote."""
    folders: list[Path] = []

    def build(order: BuildRequest) -> Any:
        def write(folder: Path) -> None:
            folders.append(folder)
            (folder / "part").mkdir()
            (folder / "part" / "code").write_bytes(b"12345")

        Artefact(order.folder, "caching", {"precision": order.precision}).make(write)
        return BACKENDS["eager"].build(order)

    backend: Any = replace(BACKENDS["eager"], name="caching", build=build)
    monkeypatch.setitem(BACKENDS, "caching", backend)
    monkeypatch.setattr(options, "BACKEND_NAMES", (*options.BACKEND_NAMES, "caching"))
    return folders


def test_specs_and_models_are_compiled_once_and_run(
    zoo: Zoo, home: Path, trained: Trained, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    purposes, run = set[Purpose](), EmittedProgram.run
    monkeypatch.setattr(EmittedProgram, "run", lambda *args, **how: purposes.add(args[1]) or run(*args, **how))
    how = ("--backend", "caching", "--device", "cpu")
    for _ in range(2):
        assert (
            "transformer-tiny-ende: with random weights, eager, float32, cpu; ready in "
            in zoo("compile", "tiny", *SMALL, *how).printed
        )
    assert purposes == {Purpose.SCORE, Purpose.ENCODE, Purpose.DECODE_STEP}
    assert ", int8, cpu; " in zoo("compile", "tiny", *SMALL, *how, "--precision", "int8").out
    assert len(written) == len(list((home / "compiled").glob("[!.]*"))) == 2
    shutil.rmtree(home / "compiled")
    trained()
    assert "transformer-tiny-ende: " in zoo("compile", "--model", "tiny", *how).out
    assert len(written) == 3


def test_errors_and_backends_without_a_cache_write_nothing(zoo: Zoo, home: Path) -> None:
    for arguments, word in (
        (("tiny", "--backend", "eagre"), "did you mean `eager`?"),
        (("tiny", "--device", "toaster"), "toaster"),
        (("--model", "nothing"), "`nothing`"),
    ):
        assert word in zoo("compile", *arguments).refusal
    with memory_limit(500_000_000):
        assert "GB of memory, but " in zoo("compile", "tiny", "architecture.d_model=65536").refusal
    assert "ready in" in zoo("compile", "tiny", *SMALL, "--backend", "eager", "--device", "cpu").printed
    assert not home.exists()


def test_doctor_describes_every_backend(zoo: Zoo, home: Path) -> None:
    status, text, messages = zoo("doctor")
    assert (status, messages) == (0, "")
    values = json.loads(zoo("doctor", "--json").out)
    for backend in values["backends"]:
        (line,) = [line for line in text.splitlines() if line.split()[:1] == [backend["name"]]]
        assert (backend["problem"] or "available") in line
    assert not missing(text, str(home / "compiled"), values["versions"]["torch"])


@pytest.mark.integration
def test_benchmark_decode(zoo: Zoo) -> None:
    sizes = "--batch", "2", "--sentences", "3", "--rounds", "2"
    command = "benchmark", "decode", "tiny", *SMALL, "--backend", "eager", "--device", "cpu", *sizes
    title, *lines = zoo(*command).out.splitlines()
    assert title == "transformer-tiny-ende, eager, float32, cpu"
    names = ["sentences per second", "target tokens per second", "step, ms", "single sentence, ms"]
    names += ["first sentence, ms", "build, s", "difference"]
    assert [line.split("  ")[0] for line in lines[:7]] == names
    assert "cores, torch" in lines[-1]
    values = json.loads(zoo(*command, "--precision", "int8", "--json").out)
    assert (values["backend"], values["precision"], values["sentences"], values["batch"]) == ("eager", "int8", 3, 2)


@pytest.mark.integration
def test_benchmark_train(zoo: Zoo) -> None:
    tokens = ("training.source_tokens=400", "training.target_tokens=400", "compilation.backend=eager")
    command = ("benchmark", "train", "tiny", *SMALL, *tokens, "--steps", "1", "--rounds", "1", "--device", "cpu")
    title, *lines = zoo(*command).out.splitlines()
    assert title == "transformer-tiny-ende, eager, float32, cpu"
    names = ["source tokens per second", "target tokens per second", "step, ms", "first round, s", "padding, %"]
    assert [line.split("  ")[0] for line in lines[:7]] == [*names, "utilisation, %", "memory"]
