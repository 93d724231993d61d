"""Opening of models: messages while compiling, no side effects on the process, and pickles."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import compiler
import zoo
from tests.refusals import refused
from tests.zoo.conftest import RecordingReport
from tests.zoo.generation.conftest import require_backend
from zoo.generation import compilation
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.report import Progress
from zoo.training.run import Run


def _state() -> dict[str, object]:
    """Return the process-wide state that a backend could change."""
    return {
        "precision": (torch.backends.mkldnn.matmul.fp32_precision, torch.get_float32_matmul_precision()),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "recompilations": torch._dynamo.config.recompile_limit,
        "random numbers": torch.get_rng_state().tolist(),
        "defaults": (torch.get_default_dtype(), torch.is_grad_enabled()),
        # Where torch.compile keeps its own cache it notes there itself.
        "environment": {n: value for n, value in os.environ.items() if "INDUCTOR" not in n},
        "logging": logging.root.manager.disable,
        "warnings": list(warnings.filters),
        "signals": (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)),
        "folder": Path.cwd(),
    }


SLOW = [pytest.param(backend, marks=pytest.mark.slow) for backend in ("inductor", "onnx")]


@pytest.mark.parametrize("backend", ["eager", "native", *SLOW])
def test_loading_leaves_the_process_as_it_was(trained: Callable[..., Run], backend: str) -> None:
    require_backend(backend)
    run, threads = trained(), torch.get_num_threads()
    torch.set_num_threads(3)
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        before = _state()
        translator = zoo.load(str(run.folder), backend=backend)
        assert translator.translate(["the old dog", "she knows"])
        assert translator.score(["the old dog"], ["der alte Hund"])[0] < 0
        assert {name: value for name, value in _state().items() if value != before[name]} == {}
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_unpickling_opens_the_same_model(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, too, and holds no weights."""
    folder = str(trained("runs/one").folder)
    one = zoo.load(folder, backend="eager", precision="bfloat16", max_batch_tokens=77)
    expected = one.translate(["the old dog", "she knows"])
    kept = [pickle.dumps(each) for each in (one, type(one).ensemble([one, one]))]
    assert max(map(len, kept)) < 2000
    monkeypatch.chdir("/")
    again, ensemble = map(pickle.loads, kept)
    for each in (again, ensemble):
        assert (each.translate(["the old dog", "she knows"]), each.max_batch_tokens) == (expected, 77)
    assert (again.program.backend, again.program.precision) == ("eager", "bfloat16")


def test_translators_made_from_programs_cannot_be_pickled(trained: Callable[..., Run]) -> None:
    one = zoo.load(str(trained().folder), backend="eager")
    made = Translator(one.program, one.vocabulary, one.spec)
    for each in (made, Translator.ensemble([one, made])):
        refused("created from a compiled model, so it cannot be pickled", pickle.dumps, each)


class Waiting(RecordingReport):
    """Report that also records which progress was shown."""

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        self.said.append(f"{label} in {unit}")
        return Progress()


def test_a_message_explains_slow_compilation(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    build, folder = compiler.build, trained().folder
    monkeypatch.setattr(compiler, "build", lambda *given, **how: (time.sleep(0.1), build(*given, **how))[1])
    slow, quick = Waiting(), Waiting()
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 300.0)
    open_model(folder, report=quick)
    assert quick.said == []
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 0.0)  # a person of no patience
    assert open_model(folder, report=slow).translate("we read") is not None
    assert ["once on this machine" in text for text in slow.said] == [True, False]
    assert slow.said[1] == "compiling in seconds"


def test_a_message_announces_compilation_in_the_first_run(trained: Callable[..., Run]) -> None:
    """Torch.compile itself is not called: it waits for the first run."""
    words = Waiting()
    open_model(trained().folder, backend="inductor", report=words)
    assert words.said[-1] == compilation.LAZY_MESSAGE
