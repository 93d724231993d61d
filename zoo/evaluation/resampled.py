"""Scores over sets drawn anew from the sentences of a set: how much of a score is the sentences' (Koehn 2004).

Each set has as many sentences, drawn with replacement; the same ones for all systems, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from zoo.evaluation.answers import Answers
from zoo.evaluation.bleu import chosen
from zoo.evaluation.compare import SAMPLES
from zoo.evaluation.overlap import made, require_alike
from zoo.evaluation.paper_bleu import tokens_of

Drawn = npt.NDArray[np.float64]
"""How often each sentence is in each set, [SAMPLES, sentences]; or a score for each set, [SAMPLES]."""
_SEED = 12_345


def resampled(metric: str, answers: Answers) -> Drawn | None:
    """A metric's score for each set, of perplexity its logarithm; None of one that is not drawn anew here."""
    drawn = draws(len(answers.sources))
    match metric:
        case "bleu":
            return bleu_by(drawn, answers.outputs, answers.references)
        case "paper_bleu":
            return paper_bleu_by(drawn, answers.outputs, answers.references, answers.language)
        case "perplexity":
            forced = answers.forced
            return log_perplexity_by(drawn, [each.log_probability for each in forced], [each.tokens for each in forced])
        case _:
            return None


def half_width(metric: str, score: float, first: Drawn | None, second: Drawn | None) -> float | None:
    """Half the interval of 95 % of what the second system, whose score this is, has more than the first."""
    if first is None or second is None:
        return None
    half = 1.96 * float(np.std(second - first, ddof=1))
    return score * half if metric == "perplexity" else half


def draws(sentences: int) -> Drawn:
    """Always the same for as many sentences."""
    chance = np.full(sentences, 1 / sentences)
    return np.random.default_rng(_SEED).multinomial(sentences, chance, size=SAMPLES).astype(np.float64)


def bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str]) -> Drawn:
    """sacreBLEU's BLEU in points, for each set. Raises ZooError where these are not alike in number."""
    return _bleu_by(drawn, outputs, references, **chosen("13a", False), smooth_method="exp")


def paper_bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str], language: str) -> Drawn:
    """The paper's, of translations into `language`, for each set. Raises ZooError as `bleu_by` does."""
    tokens = tokens_of(language)
    split = [[tokens(text) for text in texts] for texts in (outputs, references)]
    return _bleu_by(drawn, *split, **chosen("none", False), smooth_method="none")


def _bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str], **choices: Any) -> Drawn:
    require_alike(outputs, references)
    metric = made("BLEU", **choices)
    each = [metric.corpus_score([output], [[wanted]]) for output, wanted in zip(outputs, references, strict=True)]
    counted = drawn @ np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in each], dtype=np.float64)
    of = import_module("sacrebleu.metrics.bleu").BLEU.compute_bleu
    orders = len(each[0].counts)
    scores = [
        of([*map(int, row[:orders])], [*map(int, row[orders:-2])], int(row[-2]), int(row[-1]), choices["smooth_method"])
        for row in counted
    ]
    return np.array([score.score for score in scores])


def log_perplexity_by(drawn: Drawn, log_probabilities: Sequence[float], pieces: Sequence[int]) -> Drawn:
    """The natural logarithm of the perplexity a piece, for each set."""
    found: Drawn = -(drawn @ np.array(log_probabilities)) / (drawn @ np.array(pieces, dtype=np.float64))
    return found
