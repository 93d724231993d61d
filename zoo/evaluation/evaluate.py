"""Evaluation of models against references, by default on the dev or test set of their own corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from specs import HeldOut, Spec, ZooError
from zoo.data.corpus import CorpusReader, Split
from zoo.data.prepare import prepare
from zoo.evaluation.metrics import MACHINE_KEY, Scores, compute_scores
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs, format_examples, save_outputs
from zoo.files.atomic import write_json
from zoo.generation.compilation import BackendOptions
from zoo.generation.loading import open_model
from zoo.models.folder import ModelFolder
from zoo.models.weights import known_digest
from zoo.report import Report
from zoo.system.processors import device_name
from zoo.text.vocabulary import Vocabulary


def evaluate_model(
    folder: Path,
    split: str,
    *,
    max_batch_tokens: int | None = None,
    report: Report | None = None,
    show: bool = False,
    **options: Unpack[BackendOptions],
) -> Scores:
    """Score a training run or a published model, with the beam size and length penalty of its spec.

    For a training run in float32, the scores are saved in the run's `scores.json` and the outputs in a separate file.
    Nothing is saved if the run's weights have changed during the evaluation.

    Args:
        folder: Folder of the training run or published model.
        split: "dev" or "test".
        max_batch_tokens: Largest number of source tokens per batch. None for the default.
        report: Receives messages.
        show: Whether to report some example outputs.
        **options: Device, precision and backend.

    Raises:
        ZooError: The folder has no valid model, or the model's corpus has no such set.
    """
    known_split, report = check_split(split), report or Report()
    model_folder = ModelFolder(folder)
    digest = known_digest(model_folder.weights)
    translator = open_model(folder, max_batch_tokens=max_batch_tokens, report=report, **options)
    outputs = ModelOutputs(translator, read_split(translator.spec, known_split, report, translator.vocabulary), report)
    if show and translator.spec.task.reads:
        report.info(format_examples(outputs.sources, outputs.references, outputs.texts))
    scores = compute_scores(outputs, translator.spec.task)
    precision = options.get("precision") or translator.spec.compilation.precision
    scores[MACHINE_KEY] = f"{device_name(str(translator.device))}, {translator.backend}, {precision}"
    is_run = model_folder.trained and not model_folder.published
    if precision == "float32" and is_run and weights_unchanged(model_folder, digest, report):
        if translator.spec.task.reads:
            save_outputs(model_folder.answers(split), outputs)
        write_json(model_folder.scores, {**model_folder.known_scores, split: scores})
    return scores


def weights_unchanged(folder: ModelFolder, digest: str | None, report: Report) -> bool:
    """Return whether the digest of a model's weights is still `digest`. If not, warn that the scores are not saved."""
    if known_digest(folder.weights) == digest:
        return True
    report.warn(
        f"the weights of `{folder.folder}` changed during the evaluation, so the scores are not saved: evaluate again"
    )
    return False


def check_split(name: str) -> Split:
    """Return `name` if it is the name of a set to evaluate on.

    Raises:
        ZooError: The name is neither "dev" nor "test".
    """
    splits: dict[str, Split] = {"dev": "dev", "test": "test"}
    if name not in splits:
        raise ZooError(f"`{name}` is not a set to evaluate on", hint="use `dev` or `test`")
    return splits[name]


def read_split(spec: Spec, split: Split, report: Report, vocabulary: Vocabulary | None = None) -> EvaluationSet:
    """Return the streams of the dev or test set and, for multilingual models, their language codes.

    If the set is split off from the training text (`held_out` in the spec), the whole corpus is prepared first.
    Otherwise, only the files of the set are read.

    Raises:
        ZooError: The corpus has no such set, or the set cannot be read or downloaded.
    """
    parts = getattr(spec.corpus, split)
    if not parts:
        hint = (
            f"for a training run, set `corpus.{split}` in its spec; to score existing translations, use "
            "`zoo evaluate --hypotheses FILE --references FILE`"
        )
        raise ZooError(f"the corpus of `{spec.name}` has no {split} set", hint=hint)
    if any(isinstance(part, HeldOut) for part in parts):
        prepared = prepare(spec, report, vocabulary)
        return EvaluationSet(prepared.texts(split), prepared.directions(split) if spec.languages else None)
    scored = CorpusReader(spec, report).scored_examples(split)
    streams = {name: [example[name] for example, _ in scored] for name in spec.task.streams}
    return EvaluationSet(streams, [direction for _, direction in scored] if spec.languages else None)
