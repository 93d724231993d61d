"""A model that somebody loads into a process of his own leaves the process as it was."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import zoo
from compiler.backends import BACKENDS
from specs import ZooError
from zoo.generation.translator import Translator
from zoo.training.run import Run


def _state() -> dict[str, object]:
    """What our backends, or what they stand on, would like to change."""
    return {
        "float32 products": torch.backends.mkldnn.matmul.fp32_precision,
        "precision": torch.get_float32_matmul_precision(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "recompilations": torch._dynamo.config.recompile_limit,
        "random numbers": torch.get_rng_state().tolist(),
        "default type": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        # Where torch.compile keeps its own cache it notes there itself.
        "environment": {n: value for n, value in os.environ.items() if "INDUCTOR" not in n},
        "logging": logging.root.manager.disable,
        "warnings": list(warnings.filters),
        "signals": (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)),
        "folder": Path.cwd(),
    }


@pytest.mark.parametrize(
    "backend", ["eager", "native", pytest.param("inductor", marks=pytest.mark.slow), "onnx", "ctranslate2"]
)
def test_it_leaves_torch_as_it_was(trained: Callable[..., Run], backend: str) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    run = trained()
    torch.set_num_threads(3)
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        before = _state()
        translator = zoo.load(str(run.folder), backend=backend)
        assert translator.translate(["the old dog", "she knows"])
        assert translator.score(["the old dog"], ["der alte Hund"])[0] < 0
        assert {name: value for name, value in _state().items() if value != before[name]} == {}
    finally:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_a_pickle_opens_the_same_again(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, too, and holds no weights."""
    run = trained("runs/one")
    one = zoo.load(str(run.folder), backend="eager", precision="bfloat16", max_batch_tokens=77)
    expected = one.translate(["the old dog", "she knows"])
    kept = [pickle.dumps(each) for each in (one, type(one).ensemble([one, one]))]
    assert max(map(len, kept)) < 2000
    monkeypatch.chdir("/")
    for text in kept:
        again = pickle.loads(text)
        assert again.translate(["the old dog", "she knows"]) == expected
        assert again.tokens == 77
    assert (pickle.loads(kept[0]).program.backend, pickle.loads(kept[0]).program.precision) == ("eager", "bfloat16")


def test_what_was_opened_from_nothing_has_no_pickle(trained: Callable[..., Run]) -> None:
    one = zoo.load(str(trained().folder), backend="eager")
    made = Translator(one.program, one.vocabulary, one.spec)
    for each in (made, Translator.ensemble([one, made])):
        with pytest.raises(ZooError, match="made of a program, and not opened from a folder"):
            pickle.dumps(each)
