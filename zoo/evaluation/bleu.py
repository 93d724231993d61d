"""Corpus BLEU with sacreBLEU's signature, which says what exactly was computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specs import ZooError
from zoo.evaluation.overlap import overlap

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
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    smooth_method: str = "exp",
) -> Bleu:
    """BLEU of a corpus against one reference a sentence.

    Raises ZooError where there are not as many hypotheses as references, or none, or for a tokenisation
    that is not one of TOKENIZATIONS.
    """
    choices = chosen(tokenize, lowercase) | {"smooth_method": smooth_method}
    score, result, signature = overlap("BLEU", hypotheses, references, **choices)
    return Bleu(
        score=score,
        signature=signature,
        precisions=tuple(float(precision) for precision in result.precisions),
        brevity_penalty=float(result.bp),
        hypothesis_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def chosen(tokenize: str, lowercase: bool) -> dict[str, Any]:
    """sacreBLEU's words for it. Raises ZooError for a tokenisation that is not one of TOKENIZATIONS."""
    if tokenize not in TOKENIZATIONS:
        raise ZooError(f"`{tokenize}` is not a tokenisation", hint=f"one of {', '.join(TOKENIZATIONS)}")
    # force: text that looks tokenised gets no lecture on the terminal; the signature tells what was done.
    return {"tokenize": tokenize, "lowercase": lowercase, "force": True}


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it."""
    found = bleu(answers.outputs, answers.references)
    return {"bleu": found.score, "signature": found.signature}
