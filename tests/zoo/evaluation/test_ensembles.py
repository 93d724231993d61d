"""Several runs scored as one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specs import ZooError
from zoo.evaluation import evaluate as module
from zoo.evaluation.evaluate import ENSEMBLES, ensembles, evaluate_models
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.publishing.publish import publish
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
    read = weights.read(run / "weights.safetensors")
    Weights({name: tensor * 0.9 for name, tensor in read.tensors.items()}, read.metadata).write(
        run / "weights.safetensors"
    )


def test_ensemble_scores_are_saved(two: tuple[Path, Path]) -> None:
    found = evaluate_models(two, "test", device="cpu")
    single = [evaluate_models([each], "test", device="cpu")["perplexity"] for each in two]
    assert found["perplexity"] not in single
    (kept,) = ensembles(two[0])
    assert kept.members == two
    assert kept.scores == {"test": found}
    assert not list(ensembles(two[1]))
    assert Run(two[0]).foreign_files() == []


def test_an_ensemble_of_equal_models_scores_like_one(two: tuple[Path, Path]) -> None:
    alone = evaluate_models([two[0]], "test", device="cpu")
    assert evaluate_models((two[0], two[0]), "test", device="cpu")["perplexity"] == pytest.approx(alone["perplexity"])


def test_sets_are_saved_side_by_side_and_changed_weights_make_another_ensemble(two: tuple[Path, Path]) -> None:
    for split in ("test", "dev", "test"):
        evaluate_models(two, split, device="cpu")
    (kept,) = ensembles(two[0])
    assert set(kept.scores) == {"dev", "test"}
    other(two[1])
    assert not list(ensembles(two[0]))
    evaluate_models(two, "test", device="cpu")
    (kept,) = ensembles(two[0])
    assert set(kept.scores) == {"test"}
    shutil.rmtree(two[1])
    assert not list(ensembles(two[0]))


def test_scores_of_weights_that_change_meanwhile_are_not_saved(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = module.compute_scores
    monkeypatch.setattr(module, "compute_scores", lambda *given: (other(two[1]), scored(*given))[1])
    evaluate_models(two, "test", device="cpu")
    assert not (two[0] / ENSEMBLES).exists()


def test_bfloat16_and_bundles_are_not_saved(two: tuple[Path, Path]) -> None:
    evaluate_models(two, "test", device="cpu", precision="bfloat16")
    evaluate_models((publish(two[0]), two[1]), "test", device="cpu")
    assert not list(two[0].parent.rglob(ENSEMBLES))


def test_models_of_different_sets_are_refused(two: tuple[Path, Path], trained: Callable[..., Run]) -> None:
    """By their sentences: the same file elsewhere is the same set."""
    file = two[1] / "spec.yaml"
    file.write_text(file.read_text("utf-8").replace("pairs.de", "others.de"), encoding="utf-8")
    lines = Path("pairs.de").read_text(encoding="utf-8")
    Path("others.de").write_text(lines, encoding="utf-8")
    evaluate_models(two, "test", device="cpu")
    Path("others.de").write_text(lines.replace("alte", "junge"), encoding="utf-8")
    with pytest.raises(ZooError, match=r"the test sets of .* differ"):
        evaluate_models(two, "test", device="cpu")


@pytest.mark.parametrize("text", ["{}", '{"ensembles": [{}]}', '{"ensembles": 1}', '{"ensembles": [{"members": 1}]}'])
def test_a_damaged_file_is_an_error(two: tuple[Path, Path], text: str) -> None:
    (two[0] / ENSEMBLES).write_text(text, encoding="utf-8")
    with pytest.raises(ZooError, match="is damaged"):
        list(ensembles(two[0]))
