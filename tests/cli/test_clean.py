"""`zoo clean` as a shell sees it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cli.app import run
from zoo.files import storage
from zoo.training.run import Run

Zoo = Callable[..., Any]


@pytest.fixture
def cache() -> Any:
    folder = storage.compiled() / f"native-{'1' * 24}"
    folder.mkdir(parents=True)
    (folder / "kernels.so").write_bytes(b"x" * 1_000_000)
    return folder


def test_without_a_person_to_ask_there_is_a_plan_and_nothing_else(zoo: Zoo, cache: Any) -> None:
    done = zoo("clean", stdin="y\n")
    assert done.status == 2
    assert f"compiled   1.0 MB  {cache}\n" in done.out
    assert "all        1.0 MB  is free then\n" in done.out
    assert done.err.startswith("error: nothing was removed")
    assert cache.exists()


def test_yes_removes_it_and_then_there_is_nothing(zoo: Zoo, cache: Any, trained: Callable[..., Run]) -> None:
    model = trained("runs/tiny")
    assert zoo("clean", "--yes").err == "removed: 1.0 MB\n"
    assert not cache.exists()
    assert zoo("clean").err == "there is nothing to remove\n"
    assert model.weights.exists()
    assert zoo("clean", "tiny", "--yes").status == 0
    assert not model.folder.exists()
    assert zoo("clean", "compild").err.startswith("error: there is no run `compild`")


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_a_person_is_asked(
    cache: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, gone: bool
) -> None:
    typed = io.StringIO(answer)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)
    assert run(["clean"]) == 0
    assert "remove all of this? [y/N] " in capsys.readouterr().err
    assert cache.exists() is not gone
