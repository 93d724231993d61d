"""Starting from a model: its weights and its tokens, a new optimiser, and models that do not fit the spec."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

import specs
from tests.refusals import refused
from tests.zoo.training.conftest import World, train_steps
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training import checkpoints, initial_model
from zoo.training.checkpoints import list_checkpoints
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run
from zoo.training.trainer import Trainer

OTHER_TEXT = "corpus.train=[{grammar: 200}]"
KEYS = ["training.start_from=runs/tiny", OTHER_TEXT, "architecture.dropout=0.3"]


@pytest.mark.integration
def test_training_starts_with_weights_and_tokens(finished_run: Run, world: World, monkeypatch: Any, words: Any) -> None:
    initial: list[dict[str, torch.Tensor]] = []
    original, second = Trainer.train, Run(Path("second"))

    def watched(trainer: Trainer, stopped: Callable[[], bool]) -> bool:
        initial.append({name: tensor.clone() for name, tensor in trainer.program.weights().items()})
        return original(trainer, stopped)

    monkeypatch.setattr(Trainer, "train", watched)
    with monkeypatch.context() as patch:  # killed before the first checkpoint: it starts from the model again
        patch.setattr(checkpoints, "atomic_folder", Mock(side_effect=OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            train_steps(world(*KEYS, "training.steps=2"), second.folder)
    train_steps(world(*KEYS, "training.steps=2"), second.folder)
    for name, tensor in load_file(finished_run.weights).items():
        assert all(torch.equal(weights[name], tensor) for weights in initial)
    tokens, copied = ((run.folder / "vocabulary.model").read_bytes() for run in (finished_run, second))
    assert tokens == copied
    shutil.rmtree(finished_run.folder)  # from now on the run resumes without the model
    train_steps(world(*KEYS, "training.steps=3"), second.folder, report=words)
    assert "resuming at step 2" in words.said
    assert list_checkpoints(second)[-1].step == 3


@pytest.mark.integration
def test_same_text_with_other_tokens_is_another_corpus(finished_run: Run, world: World, words: Any) -> None:
    learned = prepare_corpus(world(OTHER_TEXT), words)
    given = prepare_corpus(world(OTHER_TEXT, "training.start_from=runs/tiny"), words)
    assert learned.fingerprint != given.fingerprint
    assert given.vocabulary.digest == prepare_corpus(world(), words).vocabulary.digest != learned.vocabulary.digest


def test_other_architecture_or_vocabulary_is_refused(finished_run: Run, world: World) -> None:
    other = world("training.start_from=runs/tiny", "architecture.d_ff=32", "vocabulary.size=190")
    start, problem = initial_model.initial_model, "architecture.d_ff: 24 in the model, 32 in the spec"
    assert "vocabulary.size: 200 in the model, 190 in the spec" in str(refused(problem, start, other, Report()))
    refused("there is no model `nowhere`", start, world("training.start_from=nowhere"), Report())


def test_other_task_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_model.find, "model", lambda name, report: Path(name))

    def start(model: str, *overrides: str, spec: str = "parsing/tiny") -> Model | None:
        loaded = Model(specs.load(model), cast(Vocabulary, None), cast(Weights, None))
        monkeypatch.setattr(initial_model, "read_model", lambda folder: loaded)
        return initial_model.initial_model(specs.load(spec, ["training.start_from=first", *overrides]), Report())

    assert start("parsing/tiny", "task.constrained=false")
    masks, warp = "task.source.time_masks.width=99", "task.source.frequency_warp=0.3"
    assert start("speech/digits", masks, warp, spec="speech/digits")
    wide = "architecture.encoder=[{kind: restricted_attention, radius: 32}, {kind: feed_forward}]"
    assert start("variants/restricted", wide, spec="variants/restricted")
    bins = r"task\.source: .*'bins': 40.* in the model, .*'bins': 80"
    keys = ("task.source.bins=80", "architecture.source.width=80")
    refused(bins, start, "speech/digits", *keys, spec="speech/digits")
    key = "task.linearisation"
    refused(f"{key}: tensor2tensor in the model, vinyals in", start, "parsing/tiny", f"{key}=vinyals")
    refused(r"task\.kind: translation in the model, parsing in the spec", start, "tiny")
