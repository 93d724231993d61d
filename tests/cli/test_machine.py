"""`zoo compile`, `zoo doctor` and `zoo benchmark`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler import options
from compiler.artefact import Artefact
from compiler.backends import BACKENDS, BuildRequest
from tests.conftest import Zoo
from zoo.training.run import Run

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


def test_programs_are_compiled_once(zoo: Zoo, home: Path, written: list[Path]) -> None:
    command = ("compile", "tiny", *SMALL, "--backend", "caching", "--device", "cpu")
    first = zoo(*command)
    assert first.status == 0
    (folder,) = (home / "compiled").glob("[!.]*")
    assert f"{folder}, " in first.out
    assert "compiled now" in first.out
    values = json.loads(zoo(*command, "--json").out)
    assert values["kept"][0]["folder"] == str(folder)
    assert values["kept"][0]["bytes"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > 5
    assert (values["backend"], values["disagreement"].keys()) == ("caching", {"score", "decode_step"})
    assert max(values["disagreement"].values()) < 1e-5
    assert "was in the cache" in zoo(*command).out
    assert len(written) == 1
    assert "compiled now" in zoo(*command, "--precision", "int8").out
    assert len(list((home / "compiled").glob("[!.]*"))) == 2


def test_trained_models_are_compiled(zoo: Zoo, trained: Callable[..., Run], written: list[Path]) -> None:
    trained("runs/tiny")
    values = json.loads(zoo("compile", "--model", "tiny", "--backend", "caching", "--device", "cpu", "--json").out)
    assert values["name"] == "transformer-tiny-ende"
    assert max(values["disagreement"].values()) < 1e-5
    assert len(written) == 1


def test_a_backend_without_a_cache(zoo: Zoo, home: Path) -> None:
    result = zoo("compile", "tiny", *SMALL, "--backend", "eager", "--device", "cpu")
    assert (result.status, "nothing is cached" in result.out, home.exists()) == (0, True, False)


def test_compile_errors(zoo: Zoo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, word in (
        (("tiny", "--backend", "eagre"), "did you mean `eager`?"),
        (("tiny", "--precision", "int9"), "`int9`"),
        (("tiny", "--device", "toaster"), "toaster"),
        (("--model", "nothing"), "`nothing`"),
    ):
        assert word in zoo("compile", *arguments).refusal
    assert not (home / "compiled").exists()


def test_doctor_describes_every_backend(zoo: Zoo, home: Path) -> None:
    result = zoo("doctor")
    assert (result.status, result.err) == (0, "")
    values = json.loads(zoo("doctor", "--json").out)
    for backend in values["backends"]:
        (line,) = [line for line in result.out.splitlines() if line.split()[:1] == [backend["name"]]]
        assert (backend["problem"] or "available") in line
    assert str(home / "compiled") in result.out
    assert values["versions"]["torch"] in result.out


@pytest.mark.integration
def test_benchmark_decode(zoo: Zoo) -> None:
    command = ("benchmark", "decode", "tiny", *SMALL, "--backend", "eager", "--device", "cpu")
    command += ("--batch", "2", "--sentences", "3", "--rounds", "2")
    lines = zoo(*command).out.splitlines()
    assert lines[0] == "transformer-tiny-ende, eager, float32, cpu"
    names = ["sentences per second", "target tokens per second", "step, ms", "single sentence, ms"]
    names += ["first sentence, ms", "build, s", "difference"]
    assert [line.split("  ")[0] for line in lines[1:8]] == names
    assert "cores, torch" in lines[-1]
    values = json.loads(zoo(*command, "--precision", "int8", "--json").out)
    assert (values["backend"], values["precision"], values["sentences"], values["batch"]) == ("eager", "int8", 3, 2)
    minimum, median, maximum = sorted(values["sentences_per_second"].values())
    assert values["sentences_per_second"]["median"] == median
    assert minimum <= maximum
    assert {"processor", "cores", "threads", "torch"} == set(values["host"])


@pytest.mark.integration
def test_benchmark_train(zoo: Zoo) -> None:
    tokens = ("training.source_tokens=400", "training.target_tokens=400", "compilation.backend=eager")
    command = ("benchmark", "train", "tiny", *SMALL, *tokens, "--steps", "1", "--rounds", "1", "--device", "cpu")
    lines = zoo(*command).out.splitlines()
    assert lines[0] == "transformer-tiny-ende, eager, float32, cpu"
    names = ["source tokens per second", "target tokens per second", "step, ms", "first round, s", "padding, %"]
    assert [line.split("  ")[0] for line in lines[1:8]] == [*names, "utilisation, %", "memory"]
    values = json.loads(zoo(*command, "--json").out)
    assert set(values["step_seconds"]) >= {"median"}
    assert values["peak_flops"] > 0
