"""Published models that translate with packed weights from the cache, without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import zoo
from compiler.artefact import Artefact
from compiler.backends.native import NativeProgram
from tests.paths import ROOT
from tests.refusals import refused
from tests.zoo.generation.conftest import require_backend
from zoo.files import storage
from zoo.generation import compilation, loading
from zoo.generation.compilation import PackedProgram
from zoo.models.weights import Weights
from zoo.publishing.publish import publish
from zoo.training.run import Run

pytestmark = pytest.mark.integration
TEXTS = ["the old dog sees a small house", "we read", "", "she knows"]


@pytest.fixture
def name(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> str:
    require_backend("native")
    monkeypatch.setattr("zoo.generation.compilation.may_have_gpu", lambda: False)
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
    assert first.score(TEXTS, TEXTS) == pytest.approx(second.score(TEXTS, TEXTS))
    assert isinstance(second.program.complete, NativeProgram), "other methods use the complete program"
    sampled = {"search": "sample", "n_best": 3, "seed": 5}
    assert second.translate(TEXTS, **sampled) == first.translate(TEXTS, **sampled)
    assert len(second.attention(TEXTS[0]).cross) == len(first.attention(TEXTS[0]).cross)
    assert second.align(TEXTS, TEXTS) == first.align(TEXTS, TEXTS)
    with pytest.raises(AttributeError):
        second.program.unknown  # noqa: B018


def test_options_have_packed_weights_of_their_own(name: str) -> None:
    opened(name)
    for options, is_packed in (({"backend": "eager"}, False), ({"precision": "int8"}, False), ({}, True)):
        assert isinstance(opened(name, **options).program, PackedProgram) is is_packed
    assert isinstance(opened(name, precision="float32").program, PackedProgram)


def test_a_new_revision_is_packed_again(name: str, trained: Callable[..., Run]) -> None:
    """A model that was opened before still translates, but cannot be completed."""
    opened(name)
    before = opened(name)
    assert type(before.program) is PackedProgram
    publish(other(trained).folder, name=name, replace=True)
    assert [type(opened(name).program) for _ in range(2)] == [NativeProgram, PackedProgram]
    assert len([*storage.compiled().glob("packed-*")]) == 1
    assert before.translate("we read")
    refused("was replaced", before.score, "we read", "wir lesen")


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


def test_a_model_that_is_replaced_while_it_is_opened_is_opened_again(
    name: str, trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, folder = loading.read_weights, other(trained).folder

    def replace(opening: Path) -> Weights:
        monkeypatch.setattr(loading, "read_weights", read)
        publish(folder, name=name, replace=True)
        return read(opening)

    monkeypatch.setattr(loading, "read_weights", replace)
    translator = opened(name)
    assert translator.hypotheses(TEXTS) == opened(folder).hypotheses(TEXTS)


def test_a_cache_that_is_removed_while_it_is_read_is_written_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(name)
    use = Artefact.use

    def remove(stored: Artefact) -> bool:
        used = use(stored)
        if stored.folder.name.startswith("packed"):
            monkeypatch.setattr(Artefact, "use", use)
            shutil.rmtree(stored.folder)
        return used

    monkeypatch.setattr(Artefact, "use", remove)
    assert [type(opened(name).program) for _ in range(2)] == [NativeProgram, PackedProgram]


def test_threads_share_the_complete_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(name)
    build = Mock(wraps=loading.build_with_message)
    monkeypatch.setattr(loading, "build_with_message", build)
    program = opened(name).program
    with ThreadPoolExecutor(8) as threads:
        assert len({id(each) for each in threads.map(lambda _: program.complete, range(8))}) == 1
    assert build.call_count == 1
    assert program.complete.model is program.model


def test_without_a_compiler_auto_is_eager_and_native_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert opened(name, backend="auto").backend == "eager"
    refused(r"hint: .*g\+\+", opened, name)


def test_packed_weights_are_used_beside_a_gpu_on_request_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(name)
    assert type(opened(name).program) is PackedProgram
    monkeypatch.setattr(compilation, "may_have_gpu", lambda: True)
    assert type(opened(name).program) is NativeProgram
    assert type(opened(name, device="cpu").program) is PackedProgram


def test_translating_does_not_import_torch(name: str) -> None:
    code = (
        "import sys; from cli.app import run; "
        f"status = run(['decode', '--model', {name!r}, '--device', 'cpu', '--backend', 'native']); "
        "heavy = {'torch', 'sacrebleu', 'rich', 'jaxtyping', 'compiler.graph'} & sys.modules.keys(); "
        "print(heavy, file=sys.stderr); sys.exit(status)"
    )
    command, env = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": str(ROOT)}
    for imported in (True, False):  # the first process packs the model
        process = subprocess.run(command, input="we read\n", capture_output=True, text=True, env=env, check=False)
        assert (process.returncode, process.stdout.count("\n")) == (0, 1), process.stderr
        assert ("torch" in process.stderr) is imported, process.stderr
        assert imported or process.stderr == "set()\n"


def test_an_edited_source_file_packs_a_model_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.py"
    monkeypatch.setattr(compilation.weights, "__file__", str(file))
    versions = set()
    for text, time in (("old", 1), ("new", 2), ("longer", 2)):
        file.write_text(text, encoding="utf-8")
        os.utime(file, (time, time))
        versions.add(compilation._code_version.__wrapped__())
    assert len(versions) == 3
