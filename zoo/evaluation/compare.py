"""Two systems on the same sentences: is the one better, or is it the sentences? By paired bootstrap (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack

from specs import Parsing, ZooError
from zoo.evaluation.bleu import chosen
from zoo.evaluation.files import language_meant, together
from zoo.evaluation.metric import named
from zoo.evaluation.overlap import doubt, made, require_alike
from zoo.evaluation.own_sets import split_named, texts
from zoo.evaluation.paper_bleu import signed, tokens_of
from zoo.evaluation.resampled import SEED, counts, draws, half_interval, probability, scores
from zoo.generation.compilation import BackendOptions
from zoo.generation.loading import open_model
from zoo.report import Report

NOISE = 0.05
"""The probability from which on a difference is none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two systems by one metric, in its points."""

    metric: str
    scores: tuple[float, float]
    confidence: tuple[float, float]
    """Half the width of the interval that holds 95 of 100 resampled scores."""
    p: float
    """How probable so large a difference, either way, would be if there was none."""
    signature: str

    @property
    def difference(self) -> float:
        """What the second has more than the first."""
        return self.scores[1] - self.scores[0]

    @property
    def better(self) -> Literal["A", "B"] | None:
        """The first or the second; None where it may be chance."""
        if self.p >= NOISE:
            return None
        return "B" if named(self.metric).better(self.scores[1], self.scores[0]) else "A"


def compare(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], language: str | None
) -> tuple[Compared, ...]:
    """Two systems' translations of the same sentences by BLEU, the paper's BLEU, chrF and TER.

    The sets of sentences are the same for both, and the same each time. Without a language the paper's BLEU is left
    out. Raises ZooError where the systems and the references are not alike in number.
    """
    require_alike(first, references)
    require_alike(second, references)
    of = {"bleu": made("BLEU", **chosen("13a", False)), "chrf": made("CHRF"), "ter": made("TER")}
    found = [_tested(name, metric, first, second, references) for name, metric in of.items()]
    if language is not None:
        tokens = tokens_of(language)
        split = [[tokens(text) for text in each] for each in (first, second, references)]
        paper = _tested("paper_bleu", made("BLEU", **chosen("none", False), smooth_method="none"), *split)
        found.insert(1, replace(paper, signature=signed(paper.signature, language)))
    return tuple(found)


def compare_files(
    first: Path, second: Path, references: Path, *, language: str | None = None, report: Report | None = None
) -> tuple[Compared, ...]:
    """Files of translations, a sentence a line. Raises ZooError as `evaluate_files` does."""
    left, wanted = together(first, references)
    right, _ = together(second, references)
    if told := doubt(len(wanted)):
        (report or Report()).warn(told)
    return compare(left, right, wanted, language_meant(language, references))


def compare_models(
    first: Path, second: Path, split: str, *, tokens: int | None = None, report: Report, **how: Unpack[BackendOptions]
) -> tuple[Compared, ...]:
    """The models in two folders, on the dev or test set that both have, by beams and penalties of their own specs.

    Raises ZooError where their sets are not the same, and as `evaluate_model` does.
    """
    known = split_named(split)
    found: list[list[str]] = []
    sets: list[tuple[list[str], list[str]]] = []
    for folder in (first, second):
        translator = open_model(folder, tokens=tokens, report=report, **how)
        if isinstance(translator.spec.task, Parsing):
            problem = f"`{folder}` is a parser, and translations are compared"
            raise ZooError(problem, hint=f"`zoo evaluate --model {folder}` scores it")
        sets.append(texts(translator.spec, known, report, translator.vocabulary))
        if sets[0] != sets[-1]:
            raise ZooError(
                f"the {split} sets of `{first}` and `{second}` are not the same sentences",
                hint="translate one set by both (`zoo decode --output`), and compare the files with `--references`",
            )
        language = translator.spec.corpus.target
        found.append([best.text for best, *_ in translator.hypotheses(sets[-1][0], report=report)])
    return compare(found[0], found[1], sets[0][1], language)


def _tested(name: str, metric: Any, first: Sequence[str], second: Sequence[str], references: Sequence[str]) -> Compared:
    found = [counts(metric, outputs, references) for outputs in (first, second)]
    one, two = (float(scores(metric, each.sum(0, keepdims=True))[0]) for each in found)
    drawn = draws(len(references))
    ones, twos = (scores(metric, drawn @ each) for each in found)
    signature = metric.get_signature()
    signature.update("seed", SEED)
    signature.update("bs", len(drawn))
    confidence = half_interval(ones), half_interval(twos)
    return Compared(name, (one, two), confidence, probability(two - one, twos - ones), str(signature))
