"""Several runs scored as one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.refusals import refused
from zoo.evaluation import evaluate as module
from zoo.evaluation.evaluate import evaluate_models
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.training.run import Run


@pytest.fixture
def two(trained: Callable[..., Run]) -> tuple[Path, Path]:
    """Runs of one vocabulary with other weights."""
    first = trained().folder
    second = first.with_name("second")
    shutil.copytree(first, second)
    other(second)
    return first, second


def other(run: Path) -> None:
    file = run / "weights.safetensors"
    read = weights.read(file)
    Weights({name: tensor * 0.9 for name, tensor in read.tensors.items()}, read.metadata).write(file)


def test_an_ensemble_has_scores_of_its_own_unless_its_models_are_equal(two: tuple[Path, Path]) -> None:
    found, equal = (evaluate_models(each, "test", device="cpu")["perplexity"] for each in (two, (two[0], two[0])))
    single = [evaluate_models([each], "test", device="cpu")["perplexity"] for each in two]
    assert found not in single
    assert equal == pytest.approx(single[0])
    assert Run(two[0]).foreign_files() == []


def test_scores_in_bfloat16_and_of_weights_that_change_meanwhile_are_not_saved(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = Run(two[0]).scores
    scores.unlink(missing_ok=True)
    evaluate_models(two[:1], "test", device="cpu", precision="bfloat16")
    scored = module.compute_scores
    monkeypatch.setattr(module, "compute_scores", lambda *given: (other(two[0]), scored(*given))[1])
    evaluate_models(two[:1], "test", device="cpu")
    assert not scores.exists()


def test_models_of_different_sets_are_refused(two: tuple[Path, Path], trained: Callable[..., Run]) -> None:
    """By their sentences: the same file elsewhere is the same set."""
    file = two[1] / "spec.yaml"
    file.write_text(file.read_text("utf-8").replace("pairs.de", "others.de"), encoding="utf-8")
    lines = Path("pairs.de").read_text(encoding="utf-8")
    Path("others.de").write_text(lines, encoding="utf-8")
    evaluate_models(two, "test", device="cpu")
    Path("others.de").write_text(lines.replace("alte", "junge"), encoding="utf-8")
    refused("the test sets of .* differ", evaluate_models, two, "test", device="cpu")
