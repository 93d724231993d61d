"""What fits no memory is said before any of it is taken."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import specs
import zoo
from specs import Spec, ZooError
from zoo.generation.compilation import compile_spec
from zoo.planning.capacity import max_sentences, require_memory_to_train, require_memory_to_translate, weight_bytes
from zoo.system import device_memory
from zoo.training.benchmarks import DecodingWork
from zoo.training.benchmarks import benchmark_decoding as measure_decoding
from zoo.training.benchmarks import benchmark_training as measure_training
from zoo.training.train import train

HUGE = {"architecture": {"N": 8, "d_model": 65_536, "d_ff": 262_144}, "compilation": {"backend": "eager"}}


@pytest.fixture
def huge() -> Spec:
    return specs.load("tiny", HUGE)


@pytest.mark.parametrize(
    "take",
    [
        lambda spec: zoo.model(spec),
        lambda spec: compile_spec(spec, device="cpu"),
        lambda spec: measure_decoding(spec, DecodingWork(1, 1, 1), device="cpu"),
        lambda spec: measure_training(spec, device="cpu"),
    ],
)
def test_what_is_needed_and_what_there_is(huge: Spec, take: Callable[[Spec], object]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ZooError, match=r"needs \S+ TB of memory, and this machine has") as told:
        take(huge)
    assert told.value.hint
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_a_training_is_refused_before_anything_is_written(huge: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.training.train.require_space", lambda *given: None)
    with pytest.raises(ZooError, match="to train `transformer-tiny-ende` needs"):
        train(huge, device="cpu")
    assert not Path("runs").exists()


def test_processes_share_what_one_cannot_hold(small: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small()
    takes = weight_bytes(spec)
    monkeypatch.setattr(device_memory, "available_memory", lambda device: 2 * takes)
    require_memory_to_translate(spec, "cpu")
    require_memory_to_train(spec, "cpu", processes=2)
    with pytest.raises(ZooError, match="needs") as told:
        require_memory_to_train(spec, "cpu")
    assert "torchrun" in str(told.value.hint)


def test_the_more_hypotheses_the_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, cpu = specs.load("base"), torch.device("cpu")
    monkeypatch.setattr(device_memory, "available_memory", lambda device: 8_000_000_000)
    found = [max_sentences(spec, rows, cpu) for rows in (4, 64, 1024)]
    assert found == sorted(found, reverse=True)
    assert found[0] * 16 > 4096  # of what is common nothing changes
    assert 16 * found[-1] * 1024 * 37_000 <= 4_000_000_000
    monkeypatch.setattr(device_memory, "available_memory", lambda device: 100_000_000)
    with pytest.raises(ZooError, match="to follow 1,024 hypotheses of one sentence needs 606 MB"):
        max_sentences(spec, 1024, cpu)
