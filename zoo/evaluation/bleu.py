"""Corpus BLEU with sacreBLEU's signature, which says what exactly was computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from specs import ZooError

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers

# The other tokenisations of sacreBLEU fetch models or need further packages.
TOKENIZATIONS = ("13a", "intl", "char", "zh", "none")


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU in points (0 to 100) and what it is made of; lengths are in tokens, precisions in points."""

    score: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> Bleu:
    """BLEU of a corpus against one reference a sentence.

    Raises ZooError where there are not as many hypotheses as references, or none, or for a tokenisation
    that is not one of TOKENIZATIONS.
    """
    if tokenize not in TOKENIZATIONS:
        raise ZooError(f"`{tokenize}` is not a tokenisation", hint=f"one of {', '.join(TOKENIZATIONS)}")
    if len(hypotheses) != len(references):
        raise ZooError(
            f"there are {len(hypotheses):,} hypotheses and {len(references):,} references",
            hint="line n of the one is compared with line n of the other: both need as many lines",
        )
    if not references:
        raise ZooError("there is nothing to score: no hypothesis and no reference")
    # A tenth of a second, for which those who only ask how a score is called do not wait.
    sacrebleu = import_module("sacrebleu.metrics.bleu")
    # force: text that looks tokenised gets no lecture on the terminal; the signature tells what was done.
    metric = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(
        score=float(result.score),
        signature=str(metric.get_signature()),
        precisions=tuple(float(precision) for precision in result.precisions),
        brevity_penalty=float(result.bp),
        hypothesis_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it."""
    found = bleu(answers.outputs, answers.references)
    return {"bleu": found.score, "signature": found.signature}
