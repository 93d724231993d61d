"""Published models that translate with packed weights from the cache, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo
from compiler.artefact import Artefact
from compiler.backends import BACKENDS
from compiler.backends.native import NativeProgram
from specs import ZooError
from zoo.files import storage
from zoo.generation import packed
from zoo.generation.packed import PackedProgram
from zoo.publishing.publish import publish
from zoo.training.run import Run

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
TEXTS = ["the old dog sees a small house", "we read", "", "she knows"]


@pytest.fixture
def name(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> str:
    if problem := BACKENDS["native"].unavailable_reason():
        pytest.skip(problem)
    monkeypatch.setattr("zoo.generation.packed.may_have_gpu", lambda: False)
    return publish(trained().folder).name


def other(trained: Callable[..., Run]) -> Run:
    """Return a run with other weights."""
    return trained("runs/other", **{"training.seed": 2})


def opened(name: str, **options: Any) -> Any:
    return zoo.load(name, **{"backend": "native", **options})


def test_the_second_opening_uses_packed_weights_with_equal_results(name: str) -> None:
    first, second = opened(name), opened(name)
    assert type(first.program) is NativeProgram
    assert type(second.program) is PackedProgram
    for options in ({}, {"beam": 1}, {"n_best": 3, "beam": 3}, {"prefixes": ["wir", "wir", "", ""]}):
        assert second.hypotheses(TEXTS, **options) == first.hypotheses(TEXTS, **options)
    assert "complete" not in vars(second.program)


def test_other_methods_use_the_complete_program(name: str) -> None:
    first, second = opened(name), opened(name)
    translation = first.translate(TEXTS[0])
    assert second.score(TEXTS[0], translation) == pytest.approx(first.score(TEXTS[0], translation))
    assert isinstance(second.program.complete, NativeProgram)
    sampled = {"search": "sample", "n_best": 3, "seed": 5}
    assert second.translate(TEXTS, **sampled) == first.translate(TEXTS, **sampled)
    assert len(second.attention(TEXTS[0]).cross) == len(first.attention(TEXTS[0]).cross)
    assert second.align([TEXTS[0]], [translation]) == first.align([TEXTS[0]], [translation])
    with pytest.raises(AttributeError):
        second.program.unknown  # noqa: B018


@pytest.mark.parametrize("options", [{"backend": "eager"}, {"precision": "int8"}, {"precision": "float32"}, {}])
def test_options_have_packed_weights_of_their_own(name: str, options: dict[str, str]) -> None:
    opened(name)
    program = opened(name, **options).program
    assert isinstance(program, PackedProgram) == (options in ({}, {"precision": "float32"}))


def test_a_new_revision_is_packed_again(name: str, trained: Callable[..., Run]) -> None:
    opened(name)
    assert type(opened(name).program) is PackedProgram
    publish(other(trained).folder, name=name, replace=True)
    assert type(opened(name).program) is NativeProgram


def test_damaged_packed_weights_are_packed_again(name: str) -> None:
    expected = opened(name).translate(TEXTS)
    (folder,) = storage.compiled().glob("packed-*")
    weights = (folder / "weights.bin").read_bytes()
    for damaged in (weights[:-1], weights[:100] + b"x" + weights[101:], b""):
        (folder / "weights.bin").write_bytes(damaged)
        translator = opened(name)
        assert type(translator.program) is NativeProgram
        assert translator.translate(TEXTS) == expected
        assert (folder / "weights.bin").read_bytes() == weights
    assert type(opened(name).program) is PackedProgram


def test_a_model_translates_if_the_disk_is_full(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Artefact.make

    def refuse(stored: Artefact, write: Callable[[Path], None], **options: Any) -> Path:
        if stored.folder.name.startswith("packed"):
            raise OSError(28, "No space left on device")
        return make(stored, write, **options)

    monkeypatch.setattr(Artefact, "make", refuse)
    assert opened(name).translate(TEXTS) == opened(name).translate(TEXTS)
    assert type(opened(name).program) is NativeProgram


def test_a_model_that_was_replaced_does_not_score(name: str, trained: Callable[..., Run]) -> None:
    opened(name)
    translator = opened(name)
    publish(other(trained).folder, name=name, replace=True)
    assert translator.translate("we read")
    with pytest.raises(ZooError, match="was replaced"):
        translator.score("we read", "wir lesen")


def test_a_machine_with_a_gpu_uses_packed_weights_on_request_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(name)
    monkeypatch.setattr(packed, "may_have_gpu", lambda: True)
    assert type(opened(name).program) is NativeProgram
    assert type(opened(name, device="cpu").program) is PackedProgram


def test_translating_does_not_import_torch(name: str) -> None:
    opened(name, device="cpu")
    code = (
        "import sys; from cli.app import run; "
        f"status = run(['decode', '--model', {name!r}, '--device', 'cpu', '--backend', 'native']); "
        "heavy = {'torch', 'sacrebleu', 'rich', 'jaxtyping', 'compiler.graph'} & sys.modules.keys(); "
        "print(heavy, file=sys.stderr); sys.exit(status or bool(heavy))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", code], input="we read\n", capture_output=True, text=True, env=environment, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("\n") == 1
