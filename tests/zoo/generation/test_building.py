"""Whoever waits for a program is told why, and nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from zoo.generation import compilation
from zoo.generation.loading import open_model
from zoo.report import Progress, Report
from zoo.training.run import Run


class Waiting(Report):
    """Keeps what is said, and which progress was shown."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, text: str) -> None:
        self.said.append(text)

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        self.said.append(f"{label} in {unit}")
        return Progress()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """A report to a person of no patience."""
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 0.0)
    return Waiting()


def test_a_model_that_takes_long_to_open_says_why(
    trained: Callable[..., Run], slow: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = compilation.build
    monkeypatch.setattr(compilation, "build", lambda *given, **how: (time.sleep(0.1), build(*given, **how))[1])
    folder = trained().folder
    assert open_model(folder, report=slow).translate("we read") is not None
    assert ["once on this machine" in text for text in slow.said] == [True, False]
    assert slow.said[1] == "compiling in seconds"
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 300.0)
    quick = Waiting()
    open_model(folder, report=quick)
    assert quick.said == []


def test_what_is_compiled_in_the_first_run_is_told(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch.compile itself is not called: it waits for the first run."""
    words = Waiting()
    open_model(trained().folder, backend="inductor", report=words)
    assert words.said[-1] == compilation.LAZY_MESSAGE
