"""Scores over sets drawn anew from the sentences of a set: how much of a score is the sentences' (Koehn 2004).

Each set has as many sentences, drawn with replacement; the same ones for all systems, so that differences are paired.
The sets are those that sacreBLEU draws by its default seed; the interval of one system is by quantiles, that of a
difference by its deviation, and what a difference proves is asked of signed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zoo.evaluation.answers import Answers
from zoo.evaluation.bleu import chosen
from zoo.evaluation.overlap import made, require_alike
from zoo.evaluation.paper_bleu import tokens_of

SAMPLES = 1_000
"""So many sets are drawn."""
SEED = 12_345
Drawn = npt.NDArray[np.float64]
"""How often each sentence is in each set, [SAMPLES, sentences]; or a score for each set, [SAMPLES]."""


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
    drawn = np.empty((SAMPLES, sentences))
    for counted, places in zip(drawn, np.random.default_rng(SEED).choice(sentences, drawn.shape), strict=True):
        counted[:] = np.bincount(places, minlength=sentences)
    return drawn


def half_interval(scores: Drawn) -> float:
    """Half the width of the interval that holds 95 of 100 of these."""
    least, most = np.quantile(scores, (0.025, 0.975))
    return float(most - least) / 2


def probability(difference: float, drawn: Drawn) -> float:
    """How probable a difference so large, either way, would be if there was none; `drawn` are those of the sets.

    What scatters about the difference would scatter about 0 then.
    """
    as_large = np.abs(drawn - drawn.mean()) >= abs(difference)
    return float(1 + as_large.sum()) / (1 + len(drawn))


def bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str]) -> Drawn:
    """sacreBLEU's BLEU in points, for each set. Raises ZooError where these are not alike in number."""
    return _bleu_by(drawn, outputs, references, **chosen("13a", False), smooth_method="exp")


def paper_bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str], language: str) -> Drawn:
    """The paper's, of translations into `language`, for each set. Raises ZooError as `bleu_by` does."""
    tokens = tokens_of(language)
    split = [[tokens(text) for text in texts] for texts in (outputs, references)]
    return _bleu_by(drawn, *split, **chosen("none", False), smooth_method="none")


def _bleu_by(drawn: Drawn, outputs: Sequence[str], references: Sequence[str], **choices: Any) -> Drawn:
    metric = made("BLEU", **choices)
    return scores(metric, drawn @ counts(metric, outputs, references))


def counts(metric: Any, outputs: Sequence[str], references: Sequence[str]) -> Drawn:
    """What a metric of sacreBLEU adds up over the sentences of a corpus, [sentences, counts].

    Raises ZooError where these are not alike in number.
    """
    require_alike(outputs, references)
    return np.array(metric._extract_corpus_statistics([*outputs], [[*references]]), dtype=np.float64)


def scores(metric: Any, sums: Drawn) -> Drawn:
    """A metric's score of each of these sums of counts, [sets, counts]."""
    return np.array([metric._compute_score_from_stats(row).score for row in sums])


def log_perplexity_by(drawn: Drawn, log_probabilities: Sequence[float], tokens: Sequence[int]) -> Drawn:
    """The natural logarithm of the perplexity a token, for each set."""
    found: Drawn = -(drawn @ np.array(log_probabilities)) / (drawn @ np.array(tokens, dtype=np.float64))
    return found
