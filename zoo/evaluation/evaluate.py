"""Evaluate models and ensembles on the dev or test set of their corpus, and outputs in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from compiler.options import BackendOptions
from specs import HeldOut, Spec, ZooError
from specs.corpus import Split
from specs.corpus_paths import language_suffix
from specs.sections import OUTPUT
from zoo.data.corpus import CorpusReader
from zoo.data.prepare import prepare
from zoo.evaluation.metrics import MACHINE_KEY, Scores, compute_scores, get_metric
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs, format_examples, save_outputs
from zoo.evaluation.text_metrics import (
    TRANSCRIPT_METRICS,
    TRANSLATION_METRICS,
    Tokenization,
    moses_languages,
    read_aligned,
    text_metric,
)
from zoo.files.atomic import write_json
from zoo.generation.confidence import CALIBRATION_KEY, ERROR_KEY, GOOD_CHRF, Calibration, calibration_error
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder
from zoo.models.weights import known_digest
from zoo.report import SILENT, Report
from zoo.system.processors import device_name
from zoo.text.vocabulary import Vocabulary

_LANGUAGE_CODE = re.compile("[a-z]{2,3}")


class MissingSetError(ZooError):
    """Error for a corpus without a dev or test set."""


def evaluate_models(
    folders: Sequence[Path],
    split: Split,
    *,
    max_batch_tokens: int | None = None,
    report: Report = SILENT,
    show: bool = False,
    **options: Unpack[BackendOptions],
) -> Scores:
    """Score a training run, a published model or an ensemble, with the decoding settings in the first model's spec.

    For a training run in float32, the scores are saved in `scores.json`, and the outputs in a separate file. Nothing is
    saved if the run's weights have changed during the evaluation.

    Args:
        folders: Folder of the training run or published model. Several folders form an ensemble.
        split: "dev" or "test".
        max_batch_tokens: Maximum number of source tokens in a batch. None for the default.
        report: Receives messages.
        show: Whether to report some example outputs.
        **options: Device, precision and backend.

    Raises:
        ZooError: A folder has no valid model, the first model's corpus does not contain the set, or the models of an
            ensemble have different vocabularies or different sets.
    """
    runs, is_ensemble = [ModelFolder(folder) for folder in folders], len(folders) > 1
    digest = known_digest(runs[0].weights)
    models = [open_model(run.folder, max_batch_tokens=max_batch_tokens, report=report, **options) for run in runs]
    model = Translator.ensemble(models)
    outputs = ModelOutputs(model, texts := _common_set(runs, models, split, report), report)
    if show and model.spec.task.reads:
        report.info(format_examples(texts.sources, texts.references, outputs.texts))
    scores = compute_scores(outputs, model.spec)
    if is_ensemble:
        return scores
    precision = options.get("precision") or model.spec.compilation.precision
    scores |= _confidence_scores(outputs, model, split)
    scores[MACHINE_KEY] = f"{device_name(str(model.device))}, {model.backend}, {precision}"
    if precision != "float32" or runs[0].published:
        return scores
    if known_digest(runs[0].weights) != digest:
        problem = f"the weights of `{runs[0].folder}` changed during the evaluation"
        report.warn(f"{problem}, so the scores are not saved: evaluate again")
        return scores
    if model.spec.task.reads:
        save_outputs(runs[0].answers(split), outputs)
    write_json(runs[0].scores, {**runs[0].known_scores, split: scores})
    return scores


def _confidence_scores(outputs: ModelOutputs, model: Translator, split: Split) -> Scores:
    """Return the calibration error of a model's confidence. On the dev set, also fit and return the calibration."""
    if model.spec.task.kind != "translation":
        return {}
    chrf, texts = text_metric("chrf"), outputs.evaluation_set
    good = chrf.scores(chrf.statistics(outputs.texts, texts.references)) >= GOOD_CHRF
    translations = [
        (source, best.text, best.log_probability)
        for source, best in zip(texts.sources, outputs.translations, strict=True)
    ]
    calibration = Calibration.fit(translations, good) if split == "dev" else model.calibration
    if calibration is None:
        return {}
    error = calibration_error([calibration.confidence(*each) for each in translations], good)
    return {ERROR_KEY: error, **({CALIBRATION_KEY: asdict(calibration)} if split == "dev" else {})}


def read_split(spec: Spec, split: Split, report: Report, vocabulary: Vocabulary | None = None) -> EvaluationSet:
    """Read the texts in the dev or test set, and the languages of each example.

    If the set is held out from the training text (`held_out` in the spec), the whole corpus is prepared first.
    Otherwise, only the files of the set are read.

    Raises:
        MissingSetError: The corpus does not contain the dev or test set.
        ZooError: The set cannot be read or downloaded.
    """
    parts = getattr(spec.corpus, split)
    if not parts:
        other = "dev" if split == "test" else "test"
        hint = f"to score the {other} set, use `--set {other}`; " if getattr(spec.corpus, other) else ""
        hint += (
            f"for a training run, set `corpus.{split}` in its spec; to score existing translations, use "
            "`zoo evaluate --hypotheses FILE --references FILE`"
        )
        raise MissingSetError(f"the corpus of `{spec.name}` has no {split} set", hint=hint)
    if any(isinstance(part, HeldOut) for part in parts):
        prepared = prepare(spec, report, vocabulary)
        streams, directions = prepared.texts(split), prepared.directions(split) if spec.languages else []
    else:
        scored = CorpusReader(spec, report).scored_examples(split)
        streams = {name: [example[name] for example, _ in scored] for name in spec.task.streams}
        directions = [direction for _, direction in scored]
    return EvaluationSet(streams, directions if spec.languages else [spec.default_direction] * len(streams[OUTPUT]))


def _common_set(
    runs: Sequence[ModelFolder], models: Sequence[Translator], split: Split, report: Report
) -> EvaluationSet:
    """Return the dev or test set of the models, which must be the same for all models.

    Raises:
        ZooError: The models have different sets. Then one model may have been trained on another model's test set.
    """
    first, *others = (read_split(each.spec, split, report, each.vocabulary) for each in models)
    for other, run in zip(others, runs[1:], strict=True):
        if other != first:
            hint = f"use models with the same `corpus.{split}` in their specs: an ensemble is scored on one set"
            raise ZooError(f"the {split} sets of `{runs[0].folder}` and `{run.folder}` differ", hint=hint)
    return first


def evaluate_files(
    outputs: Path | str,
    references: Path | str,
    *,
    language: str | None = None,
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
    transcripts: bool = False,
) -> Scores:
    """Score a file with one output per line.

    Args:
        outputs: File with one output per line.
        references: File with one reference per line.
        language: Language code for the paper's BLEU. If None, the suffix of the reference file is used, such as `de`.
            If the suffix is not a language, the paper's BLEU is not computed.
        tokenize: Tokenisation for sacreBLEU's BLEU.
        lowercase: Whether BLEU, chrF, WER and CER ignore case.
        transcripts: Whether to compute WER and CER instead of the metrics for translations.

    Returns:
        The score and the signature of each metric, and the number of sentences.

    Raises:
        ZooError: A file cannot be read or is not UTF-8, the files have different numbers of lines, or an option is not
            valid.
    """
    texts, targets = read_aligned(outputs, references)
    code = resolve_language(language, references)
    scores: Scores = {}
    for name in TRANSCRIPT_METRICS if transcripts else TRANSLATION_METRICS:
        if name != "paper_bleu" or code is not None:
            metric = text_metric(name, code, tokenize=tokenize, lowercase=lowercase)
            scores[name] = metric.score(texts, targets)
            scores[get_metric(name).signature] = metric.signature()
    return scores | {"sentences": len(targets)}


def resolve_language(given: str | None, references: Path | str) -> str | None:
    """Determine the language code for the paper's BLEU.

    Args:
        given: The code that the user gave, if any.
        references: File with the references. If `given` is None, the suffix of the file name is used, such as `de`.

    Returns:
        The code. None if the suffix is not a language for which the Moses tokeniser has rules.

    Raises:
        ZooError: `given` is not a language code. Moses would treat it as English without a warning.
    """
    if given is None:
        code = language_suffix(references)
        return code if code and code in moses_languages() else None
    if not _LANGUAGE_CODE.fullmatch(given):
        raise ZooError(f"`{given}` is not a language code", hint="use two or three lower-case letters, such as de")
    return given
