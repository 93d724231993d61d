"""`zoo compile`: what is made ahead lies where it says, is found again, and computes what the interpreter does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.artefact import Artefact
from compiler.backends import BACKENDS, BuildRequest
from zoo.training.run import Run

Zoo = Callable[..., Any]
SMALL = ("architecture.N=1", "architecture.d_model=16", "architecture.d_ff=24", "vocabulary.size=101")


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A backend `keeping`, which is eager and keeps an artefact; the list has the folder of each time it wrote one."""
    written: list[Path] = []

    def build(order: BuildRequest) -> Any:
        def write(folder: Path) -> None:
            written.append(folder)
            (folder / "part").mkdir()
            (folder / "part" / "code").write_bytes(b"12345")

        Artefact(order.folder, "keeping", {"precision": order.precision}).make(write)
        return BACKENDS["eager"].build(order)

    eager = BACKENDS["eager"]
    monkeypatch.setitem(BACKENDS, "keeping", replace(eager, name="keeping", build=build))  # type: ignore[arg-type]
    return written


def test_it_says_what_it_made_and_then_that_it_is_there(zoo: Zoo, home: Path, keeping: list[Path]) -> None:
    first = zoo("compile", "tiny", *SMALL, "--backend", "keeping", "--device", "cpu")
    assert (first.status, first.err) == (0, "keeping: the emitted PyTorch, line by line\n")
    (folder,) = (home / "compiled").iterdir()
    assert f"{folder}, " in first.out
    assert "made now" in first.out
    told = json.loads(zoo("compile", "tiny", *SMALL, "--backend", "keeping", "--device", "cpu", "--json").out)
    assert [(each["folder"], each["existed"]) for each in told["kept"]] == [(str(folder), True)]
    assert told["kept"][0]["bytes"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > 5
    assert told["backend"] == "keeping"
    assert told["disagreement"].keys() == {"score", "decode_step"}
    assert max(told["disagreement"].values()) < 1e-5
    assert len(keeping) == 1


def test_what_is_damaged_is_made_again(zoo: Zoo, home: Path, keeping: list[Path]) -> None:
    command = ("compile", "tiny", *SMALL, "--backend", "keeping", "--device", "cpu")
    zoo(*command)
    (file,) = (home / "compiled").glob("*/part/code")
    file.write_bytes(b"12346")
    assert "made now" in zoo(*command).out
    assert file.read_bytes() == b"12345"
    assert len(keeping) == 2


def test_another_precision_is_another_artefact(zoo: Zoo, home: Path, keeping: list[Path]) -> None:
    for precision in ("float32", "int8"):
        done = zoo("compile", "tiny", *SMALL, "--backend", "keeping", "--device", "cpu", "--precision", precision)
        assert "made now" in done.out
        assert precision in done.out
    assert len(list((home / "compiled").iterdir())) == 2


def test_a_trained_model_is_compiled_with_its_weights(
    zoo: Zoo, trained: Callable[..., Run], keeping: list[Path]
) -> None:
    trained("runs/tiny")
    told = json.loads(zoo("compile", "--model", "tiny", "--backend", "keeping", "--device", "cpu", "--json").out)
    assert told["name"] == "transformer-tiny-ende"
    assert not told["kept"][0]["existed"]
    assert max(told["disagreement"].values()) < 1e-5


def test_a_backend_that_keeps_nothing_says_so(zoo: Zoo, home: Path) -> None:
    done = zoo("compile", "tiny", *SMALL, "--backend", "eager", "--device", "cpu")
    assert done.status == 0
    assert "nothing is kept" in done.out
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing says what is to be compiled"),
        (("tiny", "--model", "tiny"), "both given"),
        (("tiny", "--backend", "eagre"), "did you mean `eager`?"),
        (("tiny", "--precision", "int9"), "`int9` is not a precision"),
        (("tiny", "--device", "toaster"), "toaster"),
        (("--model", "nothing"), "there is no model `nothing`"),
    ],
)
def test_what_cannot_be_compiled_is_told(zoo: Zoo, home: Path, arguments: tuple[str, ...], words: str) -> None:
    done = zoo("compile", *arguments)
    assert done.status == 2
    assert words in done.err
    assert not (home / "compiled").exists()


def test_an_absent_backend_is_told_with_its_remedy(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(BACKENDS["inductor"], absent=lambda: "install g++ or clang++")
    monkeypatch.setitem(BACKENDS, "inductor", absent)  # type: ignore[arg-type]
    done = zoo("compile", "tiny", "--backend", "inductor")
    assert done.status == 1
    assert "install g++ or clang++" in done.err
