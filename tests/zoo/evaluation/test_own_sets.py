"""A model on its own dev or test set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo
from specs import ZooError
from zoo.data.prepare import prepare
from zoo.evaluation import scores
from zoo.evaluation.evaluate import evaluate_model, evaluate_translator, read_split
from zoo.files import storage
from zoo.files.reading import read_json
from zoo.models import weights
from zoo.publishing.publish import publish
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.system.processors import device_name
from zoo.training.run import Run

HELD_OUT = {
    "train": [{"source": "pairs.en", "target": "pairs.de"}],
    "dev": [{"held_out": 1}],
    "test": [{"source": "pairs.en", "target": "pairs.de"}],
}


def test_the_scores_are_those_of_its_texts_and_are_kept_with_the_run(trained: Callable[..., Run]) -> None:
    run = trained()
    found = evaluate_model(run.folder, "test", device="cpu")
    sources, references = read_split(run.spec, "test", Report())
    wanted = evaluate_translator(zoo.load(str(run.folder), device="cpu"), sources, references, Report())
    same = ("bleu", "signature", "perplexity", "sentences")
    assert [found[name] for name in same] == [wanted[name] for name in same]
    assert found["sentences"] == 4
    assert found["machine"] == f"{device_name('cpu')}, {run.spec.compilation.backend}, float32".replace(
        "auto", "native"
    )
    kept = read_json(run.scores)
    assert kept["test"] == found
    assert kept["dev"]["bleu"] == 12.345


def test_scores_of_weights_that_are_gone_are_not_kept(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained()
    scored = scores.compute_scores

    def slowly(*given: Any) -> Any:
        before = weights.read(run.weights)
        weights.Weights({name: tensor * 0.9 for name, tensor in before.tensors.items()}, before.facts).write(
            run.weights
        )
        return scored(*given)

    monkeypatch.setattr(scores, "compute_scores", slowly)
    evaluate_model(run.folder, "test", device="cpu")
    assert "test" not in read_json(run.scores)
    assert not run.answers("test").exists()


def test_a_bundle_stays_as_it_was_published(trained: Callable[..., Run]) -> None:
    bundle = publish(trained().folder)
    evaluate_model(bundle, "test", device="cpu")
    verify(bundle.name)


def test_bfloat16_does_not_stand_in_for_float32(trained: Callable[..., Run]) -> None:
    run = trained()
    evaluate_model(run.folder, "test", device="cpu", precision="bfloat16")
    assert "test" not in read_json(run.scores)


def test_a_set_of_its_own_files_needs_no_training_text(trained: Callable[..., Run]) -> None:
    missing = [{"source": "gone.en", "target": "gone.de"}]
    part = [{"source": "pairs.en", "target": "pairs.de"}]
    spec = trained(corpus={"train": missing, "dev": part, "test": part}).spec
    sources, references = read_split(spec, "dev", Report())
    assert sources[1] == "we read two books today"
    assert references[1] == "heute lesen wir zwei Bücher"
    assert not storage.prepared().exists()


def test_what_is_held_out_is_as_in_training(trained: Callable[..., Run]) -> None:
    spec = trained(corpus=HELD_OUT, vocabulary={"size": 90}).spec
    (source,), (reference,) = read_split(spec, "dev", Report())
    prepared = prepare(spec, Report())
    train, decode = prepared.store("train"), prepared.vocabulary.decode
    trained_on = {decode(train.source(index).tolist(), "source") for index in range(len(train))}
    sources, references = (Path(f"pairs.{language}").read_text("utf-8").splitlines() for language in ("en", "de"))
    assert trained_on == {*sources} - {source}
    assert reference == references[sources.index(source)]


def test_no_such_set(trained: Callable[..., Run]) -> None:
    run = trained()
    with pytest.raises(ZooError, match="`train` is not a set"):
        evaluate_model(run.folder, "train", device="cpu")
    spec = run.spec.model_copy(update={"corpus": run.spec.corpus.model_copy(update={"test": ()})})
    with pytest.raises(ZooError, match="has no test set"):
        read_split(spec, "test", Report())
