"""A sample of a model's test set: taken where its text may be, answered anew by `zoo verify`; by word alone else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specs
from specs import ZooError
from zoo.files import manifest
from zoo.publishing import publish, sample
from zoo.publishing.sample import is_free
from zoo.publishing.verify import verify
from zoo.training.run import Run

GRAMMAR = {"train": [{"grammar": 40}], "dev": [{"grammar": 4}], "test": [{"grammar": 6}]}


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Somebody's sample, in a bundle whose hashes are right."""
    told = json.loads((folder / sample.NAME).read_text())
    change(told)
    (folder / sample.NAME).write_text(json.dumps(told))
    manifest.write(folder)


def test_text_of_the_grammar_goes_along_and_is_answered_anew(trained: Callable[..., Run]) -> None:
    folder = publish.publish(trained(corpus=GRAMMAR).folder)
    told = json.loads((folder / sample.NAME).read_text())
    assert (told["set"], told["sentences"], told["metric"]) == ("test", 6, "bleu")
    assert len(told["sources"]) == len(told["references"]) == len(told["outputs"]) == 6
    found = verify(folder.name).sample
    assert found is not None
    assert (found.identical, found.sentences, found.here) == (6, 6, found.score)
    assert "6 of 6 sentences are in `sample.json`" in (folder / "README.md").read_text(encoding="utf-8")
    publish.publish(trained("runs/other", corpus=GRAMMAR).folder, name="without", with_text=False)
    assert verify("without").sample is None


def test_other_text_goes_along_by_word_alone(trained: Callable[..., Run]) -> None:
    """The proof is then of sentences that anybody may have."""
    run = trained()
    folder = publish.publish(run.folder)
    assert not (folder / sample.NAME).exists()
    assert verify(folder.name).sample is None
    assert publish.publish(run.folder, with_text=True) == folder
    found = verify(folder.name).sample
    assert found is not None
    assert found.set == "test"


def test_a_pair_with_a_line_that_no_sample_holds_is_left_out(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained()
    sources, references = ["the old dog", "two books"], ["x" * 10_001, "zwei Bücher"]
    monkeypatch.setattr(sample, "texts", lambda *_: (sources, references))
    folder = publish.publish(run.folder, with_text=True)
    told = json.loads((folder / sample.NAME).read_text())
    assert (told["sentences"], told["references"]) == (2, references[1:])


def test_whose_text_is_whose() -> None:
    def free(**corpus: object) -> bool:
        return is_free(specs.load("tiny", {f"corpus.{key}": value for key, value in corpus.items()}))

    files = {"source": "a.en", "target": "a.de"}
    held_out = [{"held_out": 5}]
    assert is_free(specs.load("tiny"))
    assert not is_free(specs.load("base"))
    assert free(train=[files])
    assert not free(test=[files])
    assert not free(train=[files], dev=held_out)
    assert free(dev=held_out)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda each: each.update(score=each["score"] + 30), "the score of its sample is"),
        (lambda each: each.update(metric="f1"), "models of its task are by `bleu`"),
        (lambda each: each["references"].pop(), "do not belong together"),
        (lambda each: each.update(sources=[]), r"sample.json` is damaged"),
        (lambda each: each.update(outputs=[1, 2]), r"sample.json` is damaged"),
        (lambda each: each.update(score=None), r"sample.json` is damaged"),
    ],
)
def test_a_sample_that_was_made_up_is_refused(trained: Callable[..., Run], change: Any, told: str) -> None:
    folder = publish.publish(trained(corpus=GRAMMAR).folder)
    edited(folder, change)
    with pytest.raises(ZooError, match=told) as caught:
        verify(folder.name)
    assert caught.value.exit_code == 1


def test_outputs_that_are_others_are_counted(trained: Callable[..., Run]) -> None:
    folder = publish.publish(trained(corpus=GRAMMAR).folder)
    edited(folder, lambda told: told["outputs"].__setitem__(0, "of somebody else"))
    found = verify(folder.name).sample
    assert found is not None
    assert found.identical == 5


@pytest.mark.parametrize("backend", ["native", "auto"])
def test_a_backend_of_this_machine_proves_it_too(trained: Callable[..., Run], backend: str) -> None:
    folder = publish.publish(trained(corpus=GRAMMAR).folder)
    found = verify(folder.name, backend=backend)
    assert found.backend == ("native" if backend == "native" else found.backend)
    assert found.sample is not None
    assert found.sample.here == pytest.approx(found.sample.score, abs=1)
    with pytest.raises(ZooError, match="`nope` is not a backend"):
        verify(folder.name, backend="nope")
