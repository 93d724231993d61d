"""Functions for a training loop of your own: the batches of a spec, and a run with the trained weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

import specs
from compiler import EmittedProgram
from specs import Spec, ZooError
from zoo.data.batches import Batch
from zoo.data.store import longest_input
from zoo.data.training_set import TrainingSet
from zoo.models.weights import Weights
from zoo.report import LibraryReport, Report
from zoo.system.processors import device_name
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run, RunIdentity
from zoo.version import __version__


def batches(spec: Spec | str | os.PathLike[str]) -> Iterator[Batch]:
    """Yield the training batches of a spec endlessly, epoch after epoch, in the order of `zoo train`.

    The corpus is prepared first, unless that has been done before.

    Args:
        spec: A spec, or its name or path.

    Yields:
        Padded token IDs: `batch.source` is a `zoo.PaddedBatch`, and `batch.target.values` a tensor
        `[batch, target + 1]`.

    Raises:
        ZooError: The corpus is missing or cannot be used.
    """
    loaded = spec if isinstance(spec, Spec) else specs.load(spec)
    data = TrainingSet.from_prepared(loaded, prepare_corpus(loaded, LibraryReport()))
    for examples, _ in data.batches_from(0):
        yield examples.to_batch()


def save(model: EmittedProgram, run: str | os.PathLike[str], *, steps: int) -> Run:
    """Write the spec, the vocabulary and the weights of a module from `zoo.model` to the folder of a run.

    `zoo.load` and all commands that take a run accept the folder. Scores of earlier weights are removed.

    Args:
        model: The trained module.
        run: Folder of the run. It is created if it does not exist.
        steps: Number of training steps of the module, which the model card will contain.

    Raises:
        ZooError: The folder contains other files, or a run with another spec, or a weight is not a finite number.
    """
    spec, chosen, tensors = model.spec, Run(Path(run)), model.weights()
    if broken := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        hint = "save the model before its training diverges, or lower the learning rate"
        raise ZooError(f"the weights `{broken[0]}` are not finite numbers", hint=hint)
    chosen.check(spec)
    prepared = prepare_corpus(spec, Report())
    longest = longest_input(prepared.store("train"))
    identity = RunIdentity(prepared.fingerprint, longest, model.backend, torch.get_num_threads(), processes=1)
    software, machine = f"zoo {__version__} and torch {torch.__version__}", device_name(str(model.device))
    with chosen.locked():
        chosen.start(spec, replace(identity, software=software, named=spec.has_own_name, machine=machine), Report())
        prepared.vocabulary.save(chosen.folder)
        for file in (chosen.scores, chosen.answers("dev"), chosen.answers("test")):
            file.unlink(missing_ok=True)
        Weights(tensors, {"steps": str(steps), "longest_source": str(longest)}).write(chosen.weights)
    return chosen
