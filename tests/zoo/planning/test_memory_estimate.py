"""Specs that do not fit in memory are refused before any of it is allocated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import specs
import zoo
from specs import Spec, ZooError
from tests.refusals import refused
from zoo.planning.memory_estimate import (
    max_sentences,
    require_memory_to_train,
    require_memory_to_translate,
    update_bytes,
    weight_bytes,
)
from zoo.system import memory
from zoo.system.memory import memory_limit
from zoo.training.benchmarks import benchmark_decoding, benchmark_training
from zoo.training.train import train


@pytest.fixture
def huge() -> Spec:
    architecture = {"N": 8, "d_model": 65_536, "d_ff": 262_144}
    return specs.load("tiny", {"architecture": architecture, "compilation": {"backend": "eager"}})


@pytest.mark.parametrize(
    "use", [zoo.model, partial(benchmark_decoding, batch=1, sentences=1, rounds=1), benchmark_training]
)
def test_error_says_how_much_is_needed_and_available(huge: Spec, use: Callable[[Spec], object]) -> None:
    message = r"needs \S+ TB of memory, but this machine has .*\s+hint: "
    with memory_limit(500_000_000), pytest.raises(ZooError, match=message):
        use(huge)


def test_training_is_refused_before_anything_is_written(huge: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.training.train.require_space", lambda *given: None)
    refused("training `transformer-tiny-ende` needs", train, huge, device="cpu")
    assert not Path("runs").exists()


def test_several_processes_share_the_state(small: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small()
    weights = weight_bytes(spec)
    monkeypatch.setattr(memory, "available_memory", lambda device: 2 * weights)
    require_memory_to_translate(spec, "cpu")
    require_memory_to_train(spec, "cpu", processes=2)
    refused(r"needs .*\s+hint: .*torchrun", require_memory_to_train, spec, "cpu")


SIZES = {"N": {"encoder": 8, "decoder": 3}, "d_model": 256, "d_ff": 1024, "h": 4, "d_k": 64, "d_v": 64}
DECODER = [{"kind": "ssru"}, {"kind": "cross_attention"}, {"kind": "feed_forward"}]
SSRU = {**SIZES, "decoder": DECODER, "norm": {"placement": "pre"}}
ON_GPU = {"precision": "bfloat16", "source_tokens": 25_000, "target_tokens": 25_000}


MEASURED = [("base", {}, 8.2e9), ("tiny", {"architecture": SSRU, "vocabulary": {"size": 12_000}}, 3.31e9)]


@pytest.mark.parametrize(("name", "sections", "measured"), MEASURED)
def test_estimate_of_an_update_is_near_the_memory_of_a_gpu(name: str, sections: Any, measured: float) -> None:
    spec = specs.load(name, {**sections, "training": ON_GPU})
    assert update_bytes(spec) == pytest.approx(measured, rel=0.2)
    assert update_bytes(spec, processes=4) < 0.5 * update_bytes(spec)


def test_more_hypotheses_allow_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, cpu = specs.load("base"), torch.device("cpu")
    monkeypatch.setattr(memory, "available_memory", lambda device: 8_000_000_000)
    sentences = [max_sentences(spec, hypotheses, cpu) for hypotheses in (4, 64, 1024)]
    assert sentences == sorted(sentences, reverse=True)
    assert sentences[0] * 16 > 4096, "usual settings are not limited"
    assert 16 * sentences[-1] * 1024 * 37_000 <= 4_000_000_000
    monkeypatch.setattr(memory, "available_memory", lambda device: 100_000_000)
    refused("decoding one sentence with 1,024 hypotheses needs 606 MB", max_sentences, spec, 1024, cpu)
