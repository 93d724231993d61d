"""Evaluation of ensembles of runs. The scores are saved in the folder of the first run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from specs import ZooError
from zoo.data.corpus import Split
from zoo.evaluation.evaluate import check_split, read_split, weights_unchanged
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.evaluation.scores import Scores, compute_scores
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
    """Scores of an ensemble that are saved in the folder of its first run.

    Attributes:
        members: Folders of the runs, in the order in which they were named.
        scores: Name of a set ("dev" or "test") -> the scores on it.
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

    If all models are runs, scores computed in float32 are saved in the folder of the first run.

    Args:
        folders: Folders of the models.
        split: "dev" or "test".
        max_batch_tokens: Source tokens of a batch. None for the default.
        report: Where messages go.
        **options: Device, precision and backend.

    Raises:
        ZooError: The models differ in vocabulary or in this set, or a folder has no valid model.
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
    """Yield the saved ensembles of a run. Skip an ensemble if the weights of a member have changed since.

    Raises:
        ZooError: The file is damaged.
    """
    for saved in _read(folder / FILE):
        members = [Path(os.path.normpath(folder / member["run"])) for member in saved["members"]]
        digests = [known_digest(ModelFolder(member).weights) for member in members]
        if digests == [member["digest"] for member in saved["members"]]:
            yield SavedEnsemble(tuple(members), saved["scores"])


def _common_set(
    runs: Sequence[ModelFolder], models: Sequence[Translator], split: Split, report: Report
) -> EvaluationSet:
    """Return the set that all models have in common.

    Raises:
        ZooError: The models' sets differ. One model's test set could then be in another model's training data.
    """
    first, *others = models
    sentences = read_split(first.spec, split, report, first.vocabulary)
    for other, run in zip(others, runs[1:], strict=True):
        if read_split(other.spec, split, report, other.vocabulary) != sentences:
            raise ZooError(
                f"the {split} sets of `{runs[0].folder}` and `{run.folder}` differ",
                hint=f"an ensemble is scored on the common set of its models: check `corpus.{split}` in their specs",
            )
    return sentences


def _save(runs: Sequence[ModelFolder], digests: Sequence[str | None], split: str, scores: Scores) -> None:
    """Save the scores of one set in the first run's folder.

    Earlier scores of these members on the same set are replaced. If the weights of a member have changed since, its
    earlier scores on all sets are removed.
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
    """Return the entries of a file: `members`, each with `run` and `digest`, and `scores`. Return [] for no file."""
    try:
        entries = list(read_json(file)["ensembles"]) if file_exists(file) else []
        if all({"run", "digest"} == set(member) for each in entries if each["scores"] for member in each["members"]):
            return entries
    except (KeyError, TypeError, ValueError):
        pass
    hint = "remove it: `zoo evaluate --model RUN --model RUN` writes it again"
    raise ZooError(f"`{file}` is damaged: an entry is incomplete", hint=hint, exit_code=1)
