"""Starting from a model: its weights and its tokens, a fresh optimiser, and what does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

import specs
from specs import Spec, ZooError
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.text.vocabulary import Vocabulary
from zoo.training import checkpoints, initial_model
from zoo.training.checkpoints import list_checkpoints
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run
from zoo.training.train import train
from zoo.training.trainer import Trainer

World = Callable[..., Spec]
OTHER_TEXT = "corpus.train=[{grammar: 200}]"


def test_a_training_starts_with_the_weights_and_pieces_of_another(
    world: World, monkeypatch: pytest.MonkeyPatch, words: Any
) -> None:
    first = train(world("training.steps=8"), run="first")
    begun: list[dict[str, torch.Tensor]] = []
    steps = Trainer.train

    def watched(trainer: Trainer, stopped: Callable[[], bool]) -> bool:
        begun.append({name: tensor.clone() for name, tensor in trainer.program.weights().items()})
        return steps(trainer, stopped)

    monkeypatch.setattr(Trainer, "train", watched)
    keys = ["training.start_from=first", OTHER_TEXT, "architecture.dropout=0.3", "training.steps=6"]
    second = train(world(*keys), run="second")
    expected = load_file(first.weights)
    assert all(torch.equal(begun[0][name], tensor) for name, tensor in expected.items())
    tokens = [(run.folder / "vocabulary.model").read_bytes() for run in (first, second)]
    assert tokens[0] == tokens[1]
    # It is resumed where the other one is gone, and not started again from it.
    shutil.rmtree(first.folder)
    longer = train(world(*keys[:-1], "training.steps=9"), run="second", report=words)
    assert "resuming at step 6" in words.said
    assert list_checkpoints(longer)[-1].step == 9


def test_the_same_text_with_other_pieces_is_another_corpus(world: World, words: Any) -> None:
    train(world("training.steps=2"), run="first")
    learned = prepare_corpus(world(OTHER_TEXT), words)
    taken = prepare_corpus(world(OTHER_TEXT, "training.start_from=first"), words)
    assert learned.fingerprint != taken.fingerprint
    assert taken.vocabulary.digest == prepare_corpus(world(), words).vocabulary.digest != learned.vocabulary.digest


def test_another_architecture_or_vocabulary_is_told_with_its_keys(world: World) -> None:
    train(world("training.steps=2"), run="first")
    with pytest.raises(ZooError, match=r"architecture\.d_ff: 24 there, 32 here") as caught:
        train(world("training.start_from=first", "architecture.d_ff=32", "vocabulary.size=190"), run="second")
    assert "vocabulary.size: 200 there, 190 here" in str(caught.value)
    assert not Path("second/spec.yaml").exists()


@pytest.mark.parametrize(
    ("other", "overrides", "told"),
    [
        ("parsing/tiny", ["task.constrained=false"], None),
        ("parsing/tiny", ["task.linearisation=vinyals"], "task.linearisation: tensor2tensor there, vinyals here"),
        ("tiny", [], "task.kind: translation there, parsing here"),
    ],
)
def test_another_task_is_told(
    monkeypatch: pytest.MonkeyPatch, other: str, overrides: list[str], told: str | None
) -> None:
    model = Model(specs.load(other), cast(Vocabulary, None), cast(Weights, None))
    monkeypatch.setattr(initial_model.find, "model", lambda name, report: Path(name))
    monkeypatch.setattr(initial_model, "read_model", lambda folder: model)
    spec = specs.load("parsing/tiny", ["training.start_from=first", *overrides])
    if told is None:
        assert initial_model.initial_model(spec) is model
        return
    with pytest.raises(ZooError) as caught:
        initial_model.initial_model(spec)
    assert told in str(caught.value)


def test_a_model_that_is_not_there(world: World) -> None:
    with pytest.raises(ZooError, match="there is no model `nowhere`"):
        train(world("training.start_from=nowhere"))


def test_one_that_was_killed_before_its_first_checkpoint_starts_from_it_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(world("training.steps=8"), run="first")
    keys = ["training.start_from=first", OTHER_TEXT, "training.steps=6"]
    whole = train(world(*keys), run="whole")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "writing_folder", _full)
        with pytest.raises(OSError, match="no space"):
            train(world(*keys), run="second")
    assert Run(Path("second")).checkpoints.is_dir()
    again = train(world(*keys), run="second")
    ours, theirs = load_file(again.weights), load_file(whole.weights)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def _full(folder: Path) -> None:
    raise OSError("no space left")
