"""Evaluation of models and ensembles on the dev or test set of their corpus, and the saved scores of ensembles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

from specs import HeldOut, Spec, ZooError
from zoo.data.corpus import CorpusReader, Split
from zoo.data.prepare import prepare
from zoo.evaluation.metrics import MACHINE_KEY, Scores, compute_scores
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs, format_examples, save_outputs
from zoo.evaluation.text_metrics import text_metric
from zoo.files.atomic import write_json
from zoo.files.reading import file_exists, read_json
from zoo.generation.compilation import BackendOptions
from zoo.generation.confidence import CALIBRATION_KEY, ERROR_KEY, GOOD_CHRF, Calibration, calibration_error
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder
from zoo.models.weights import known_digest
from zoo.report import Report
from zoo.system.processors import device_name
from zoo.text.vocabulary import Vocabulary

ENSEMBLES = "ensembles.json"
"""File with the scores of an ensemble, in the folder of the ensemble's first run."""


class MissingSetError(ZooError):
    """Error because the corpus of a spec has no dev or test set."""


@dataclass(frozen=True)
class SavedEnsemble:
    """Scores of an ensemble that are saved in the folder of its first training run.

    Attributes:
        members: Folders of the training runs, in the order that the user gave.
        scores: The scores on each set, by the name of the set ("dev" or "test").
    """

    members: tuple[Path, ...]
    scores: Mapping[str, Any]


def evaluate_models(
    folders: Sequence[Path],
    split: str,
    *,
    max_batch_tokens: int | None = None,
    report: Report | None = None,
    show: bool = False,
    **options: Unpack[BackendOptions],
) -> Scores:
    """Score a training run, a published model or an ensemble, with the decoding settings in its (first) spec.

    For training runs in float32, the scores are saved. For a single run, they are saved in `scores.json`, and the
    outputs in a separate file. For an ensemble, the scores are saved in the folder of its first run. Nothing is saved
    if a run's weights have changed during the evaluation.

    Args:
        folders: Folder of the training run or published model. Several folders make an ensemble.
        split: "dev" or "test".
        max_batch_tokens: Maximum number of source tokens in a batch. None for the default.
        report: Receives messages.
        show: Whether to report some example outputs.
        **options: Device, precision and backend.

    Raises:
        ZooError: A folder has no valid model, the corpus of the first model has no such set, or the models of an
            ensemble have different vocabularies or different sets.
    """
    known_split, report = check_split(split), report or Report()
    runs, is_ensemble = [ModelFolder(folder) for folder in folders], len(folders) > 1
    if is_ensemble:
        _read(runs[0].folder / ENSEMBLES)  # report a damaged file before the work starts
    digests = [known_digest(run.weights) for run in runs]
    models = [open_model(run.folder, max_batch_tokens=max_batch_tokens, report=report, **options) for run in runs]
    model = type(models[0]).ensemble(models) if is_ensemble else models[0]
    outputs = ModelOutputs(model, _common_set(runs, models, known_split, report), report)
    if show and model.spec.task.reads:
        report.info(format_examples(outputs.sources, outputs.references, outputs.texts))
    scores = compute_scores(outputs, model.spec.task)
    precisions = [options.get("precision") or each.spec.compilation.precision for each in models]
    if not is_ensemble:
        scores |= _confidence_scores(outputs, model, known_split)
        scores[MACHINE_KEY] = f"{device_name(str(model.device))}, {model.backend}, {precisions[0]}"
    if {*precisions} != {"float32"} or any(run.published for run in runs):
        return scores
    if all(_weights_unchanged(run, digest, report) for run, digest in zip(runs, digests, strict=True)):
        if is_ensemble:
            _save_ensemble(runs, digests, known_split, scores)
            return scores
        if model.spec.task.reads:
            save_outputs(runs[0].answers(split), outputs)
        write_json(runs[0].scores, {**runs[0].known_scores, split: scores})
    return scores


def _confidence_scores(outputs: ModelOutputs, model: Translator, split: Split) -> Scores:
    """Return the calibration error of the confidence. On the dev set, also fit the calibration, and return it."""
    if model.spec.task.kind != "translation":
        return {}
    chrf = text_metric("chrf")
    good = chrf.scores(chrf.statistics(outputs.texts, outputs.references)) >= GOOD_CHRF
    translations = [
        (source, best.text, best.log_probability)
        for source, best in zip(outputs.sources, outputs.translations, strict=True)
    ]
    calibration = Calibration.fit(translations, good) if split == "dev" else model.calibration
    if calibration is None:
        return {}
    error = calibration_error([calibration.confidence(*each) for each in translations], good)
    return {ERROR_KEY: error, **({CALIBRATION_KEY: asdict(calibration)} if split == "dev" else {})}


def _weights_unchanged(folder: ModelFolder, digest: str | None, report: Report) -> bool:
    """Return whether a model's weights still have this digest. If not, warn that the scores are not saved."""
    if known_digest(folder.weights) == digest:
        return True
    report.warn(
        f"the weights of `{folder.folder}` changed during the evaluation, so the scores are not saved: evaluate again"
    )
    return False


def check_split(name: str) -> Split:
    """Check the name of a set to evaluate on, and return it.

    Raises:
        ZooError: The name is neither "dev" nor "test".
    """
    splits: dict[str, Split] = {"dev": "dev", "test": "test"}
    if name not in splits:
        raise ZooError(f"`{name}` is not a set to evaluate on", hint="use `dev` or `test`")
    return splits[name]


def read_split(spec: Spec, split: Split, report: Report, vocabulary: Vocabulary | None = None) -> EvaluationSet:
    """Read the streams of the dev or test set and, for multilingual models, the languages of each example.

    If the set is held out from the training text (`held_out` in the spec), the whole corpus is prepared first.
    Otherwise, only the files of the set are read.

    Raises:
        MissingSetError: The corpus has no such set.
        ZooError: The set cannot be read or downloaded.
    """
    parts = getattr(spec.corpus, split)
    if not parts:
        hint = (
            f"for a training run, set `corpus.{split}` in its spec; to score existing translations, use "
            "`zoo evaluate --hypotheses FILE --references FILE`"
        )
        raise MissingSetError(f"the corpus of `{spec.name}` has no {split} set", hint=hint)
    if any(isinstance(part, HeldOut) for part in parts):
        prepared = prepare(spec, report, vocabulary)
        return EvaluationSet(prepared.texts(split), prepared.directions(split) if spec.languages else None)
    scored = CorpusReader(spec, report).scored_examples(split)
    streams = {name: [example[name] for example, _ in scored] for name in spec.task.streams}
    return EvaluationSet(streams, [direction for _, direction in scored] if spec.languages else None)


def ensembles(folder: Path) -> Iterator[SavedEnsemble]:
    """Yield the ensembles that are saved in the folder of a training run.

    Skip an ensemble if the weights of a member have changed since the ensemble was scored.

    Raises:
        ZooError: The file of saved ensembles is damaged.
    """
    for saved in _read(folder / ENSEMBLES):
        members = [Path(os.path.normpath(folder / member["run"])) for member in saved["members"]]
        digests = [known_digest(ModelFolder(member).weights) for member in members]
        if digests == [member["digest"] for member in saved["members"]]:
            yield SavedEnsemble(tuple(members), saved["scores"])


def _common_set(
    runs: Sequence[ModelFolder], models: Sequence[Translator], split: Split, report: Report
) -> EvaluationSet:
    """Return the dev or test set of the models, which must be the same for all models.

    Raises:
        ZooError: The models have different sets. Then one model may have been trained on another model's test set.
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


def _save_ensemble(runs: Sequence[ModelFolder], digests: Sequence[str | None], split: str, scores: Scores) -> None:
    """Save the scores of an ensemble on one set in the folder of its first run.

    Earlier scores of the same ensemble on this set are replaced. If a member's weights have changed since the ensemble
    was scored, all earlier scores of the ensemble are removed.
    """
    file = runs[0].folder / ENSEMBLES
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
    """Read the saved ensembles in a file, or return [] if the file does not exist.

    Each ensemble is a dict with `members` and `scores`. Each member is a dict with `run` (the path of the folder) and
    `digest` (the digest of the weights).
    """
    try:
        entries = list(read_json(file)["ensembles"]) if file_exists(file) else []
        if all({"run", "digest"} == set(member) for each in entries if each["scores"] for member in each["members"]):
            return entries
    except (KeyError, TypeError, ValueError):
        pass
    hint = "remove the file, and score the ensemble again: `zoo evaluate --model RUN --model RUN`"
    raise ZooError(f"`{file}` is damaged: the record of an ensemble is incomplete", hint=hint, exit_code=1)
