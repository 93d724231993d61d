"""Evaluation of ensembles of training runs. The scores are saved in the folder of the first run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from specs import ZooError
from zoo.data.corpus import Split
from zoo.evaluation.evaluate import check_split, read_split, weights_unchanged
from zoo.evaluation.metrics import Scores, compute_scores
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.files.atomic import write_json
from zoo.files.reading import file_exists, read_json
from zoo.generation.compilation import BackendOptions
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder
from zoo.models.weights import known_digest
from zoo.report import Report

FILE = "ensembles.json"


@dataclass(frozen=True)
class SavedEnsemble:
    """Saved scores of an ensemble. The folder of its first training run contains them.

    Attributes:
        members: Folders of the training runs, in the order that the user gave.
        scores: The scores on each set, by the name of the set ("dev" or "test").
    """

    members: tuple[Path, ...]
    scores: Mapping[str, Any]


def evaluate_ensemble(
    folders: Sequence[Path],
    split: str,
    *,
    max_batch_tokens: int | None = None,
    report: Report | None = None,
    **options: Unpack[BackendOptions],
) -> Scores:
    """Score an ensemble on the dev or test set of its first model, with that model's beam and length penalty.

    If all models are training runs, float32 scores are saved in the folder of the first run.

    Args:
        folders: Folders of the models.
        split: "dev" or "test".
        max_batch_tokens: Largest number of source tokens per batch. None for the default.
        report: Receives messages.
        **options: Device, precision and backend.

    Raises:
        ZooError: The models have different vocabularies or different sets, or a folder has no valid model.
    """
    known_split, report = check_split(split), report or Report()
    runs = [ModelFolder(folder) for folder in folders]
    _read(runs[0].folder / FILE)  # report a damaged file before the work starts
    digests = [known_digest(run.weights) for run in runs]
    models = [open_model(run.folder, max_batch_tokens=max_batch_tokens, report=report, **options) for run in runs]
    ensemble = type(models[0]).ensemble(models)
    texts = _common_set(runs, models, known_split, report)
    scores = compute_scores(ModelOutputs(ensemble, texts, report), ensemble.spec.task)
    exact = all((options.get("precision") or model.spec.compilation.precision) == "float32" for model in models)
    unchanged = (weights_unchanged(run, digest, report) for run, digest in zip(runs, digests, strict=True))
    if exact and not any(run.published for run in runs) and all(unchanged):
        _save(runs, digests, known_split, scores)
    return scores


def ensembles(folder: Path) -> Iterator[SavedEnsemble]:
    """Yield the ensembles that are saved in the folder of a training run.

    Skip ensembles whose members have new weights since they were scored.

    Raises:
        ZooError: The file of saved ensembles is damaged.
    """
    for saved in _read(folder / FILE):
        members = [Path(os.path.normpath(folder / member["run"])) for member in saved["members"]]
        digests = [known_digest(ModelFolder(member).weights) for member in members]
        if digests == [member["digest"] for member in saved["members"]]:
            yield SavedEnsemble(tuple(members), saved["scores"])


def _common_set(
    runs: Sequence[ModelFolder], models: Sequence[Translator], split: Split, report: Report
) -> EvaluationSet:
    """Return the dev or test set of the models, which must be the same for all of them.

    Raises:
        ZooError: The models have different sets. One model could then have been trained on another model's test set.
    """
    first, *others = models
    sentences = read_split(first.spec, split, report, first.vocabulary)
    for other, run in zip(others, runs[1:], strict=True):
        if read_split(other.spec, split, report, other.vocabulary) != sentences:
            raise ZooError(
                f"the {split} sets of `{runs[0].folder}` and `{run.folder}` differ",
                hint=f"use models with the same `corpus.{split}` in their specs: an ensemble is scored on one set",
            )
    return sentences


def _save(runs: Sequence[ModelFolder], digests: Sequence[str | None], split: str, scores: Scores) -> None:
    """Save the scores of an ensemble on one set in the folder of its first run.

    Earlier scores of the same ensemble on this set are replaced. If a member's weights have changed since the ensemble
    was scored, all earlier scores of the ensemble are removed.
    """
    file = runs[0].folder / FILE
    members = [
        {"run": Path(os.path.relpath(run.folder, runs[0].folder)).as_posix(), "digest": digest}
        for run, digest in zip(runs, digests, strict=True)
    ]
    saved = _read(file)
    known: dict[str, Any] = next((entry["scores"] for entry in saved if entry["members"] == members), {})
    paths = [member["run"] for member in members]
    others = [entry for entry in saved if [member["run"] for member in entry["members"]] != paths]
    write_json(file, {"ensembles": [*others, {"members": members, "scores": {**known, split: scores}}]})


def _read(file: Path) -> list[dict[str, Any]]:
    """Return the ensembles in a file as dicts with `members` and `scores`, or [] if the file does not exist.

    Each of the `members` is a dict with `run` (path of the folder) and `digest` (of the weights).
    """
    try:
        entries = list(read_json(file)["ensembles"]) if file_exists(file) else []
        if all({"run", "digest"} == set(member) for each in entries if each["scores"] for member in each["members"]):
            return entries
    except (KeyError, TypeError, ValueError):
        pass
    hint = "remove the file, and score the ensemble again: `zoo evaluate --model RUN --model RUN`"
    raise ZooError(f"`{file}` is damaged: the record of an ensemble is incomplete", hint=hint, exit_code=1)
