"""A model on the dev or test set of its own corpus."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Unpack

from specs import Grammar, HeldOut, Parsing, Spec, ZooError
from zoo.data.kept_set import kept_set
from zoo.data.parallel import Pair, ParallelText, Split
from zoo.data.prepare import prepare
from zoo.evaluation.answers import Answers
from zoo.evaluation.evaluate import scored
from zoo.evaluation.kept_answers import keep
from zoo.evaluation.samples import samples
from zoo.evaluation.scores import MACHINE, Scores
from zoo.files.atomic import write_json
from zoo.generation.opening import How, open_model
from zoo.models.folder import ModelFolder
from zoo.models.weights import known_digest
from zoo.report import Report
from zoo.system.called import called
from zoo.text.lines import clean
from zoo.text.vocabulary import Vocabulary

_SPLITS: dict[str, Split] = {"dev": "dev", "test": "test"}


def evaluate_model(
    folder: Path,
    split: str,
    *,
    tokens: int | None = None,
    report: Report | None = None,
    show: bool = False,
    **how: Unpack[How],
) -> Scores:
    """Scores of the model in a run's or a bundle's folder on "dev" or "test", by the beam and penalty of its spec.

    Those of a run in float32 are kept in its `scores.json`, and beside it what it said to each sentence, unless its
    weights have changed meanwhile; with `show`, `report` hears of some translations, too.
    Raises ZooError where the folder has no such model, or its corpus no such set or none that can be had.
    """
    known, report = split_named(split), report or Report()
    of = ModelFolder(folder)
    digest = known_digest(of.weights)
    translator = open_model(folder, tokens=tokens, report=report, **how)
    sources, references = texts(translator.spec, known, report, translator.vocabulary)
    answers = Answers(translator, sources, references, report)
    if show:
        report.say(samples(sources, references, answers.outputs))
    scores = scored(answers, translator.spec.task)
    precision = how.get("precision") or translator.spec.compilation.precision
    scores[MACHINE] = f"{called(str(translator.device))}, {translator.backend}, {precision}"
    if precision == "float32" and not of.published and unchanged(of, digest, report):
        keep(of.answers(split), answers)
        write_json(of.scores, {**of.known_scores, split: scores})
    return scores


def unchanged(of: ModelFolder, digest: str | None, report: Report) -> bool:
    """Whether the weights still are those that were scored; if not, that is said. Scores go with their weights."""
    if known_digest(of.weights) == digest:
        return True
    report.warn(f"the weights of `{of.folder}` have been written anew meanwhile: scores of those before are not kept")
    return False


def split_named(name: str) -> Split:
    """Raises ZooError for what is neither dev nor test."""
    if name not in _SPLITS:
        raise ZooError(f"`{name}` is not a set to evaluate on", hint="it is `dev` or `test`")
    return _SPLITS[name]


def texts(
    spec: Spec, split: Split, report: Report, vocabulary: Vocabulary | None = None
) -> tuple[list[str], list[str]]:
    """Sources and references of a set, without what training alone needs unless they are held out of it."""
    parts = getattr(spec.corpus, split)
    if not parts:
        hint = (
            f"`corpus.{split}` of a run's spec names one; what any model wrote is scored by "
            "`zoo evaluate --hypotheses FILE --references FILE`"
        )
        raise ZooError(f"the corpus of `{spec.name}` has no {split} set", hint=hint)
    if any(isinstance(part, HeldOut) for part in parts):
        return prepare(spec, report, vocabulary).texts(split)
    pairs: list[Pair] = []
    with closing(ParallelText(spec, report)) as text:
        for number, part in enumerate(parts):
            own = (
                kept_set(split, part, trees=isinstance(spec.task, Parsing))
                if isinstance(part, Grammar)
                else text.pairs_of(split, number)
            )
            pairs += [(clean(source), clean(target)) for source, target in own]
    return [source for source, _ in pairs], [target for _, target in pairs]
