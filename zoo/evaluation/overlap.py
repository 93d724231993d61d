"""Scores of text by what it shares with references, by sacreBLEU and with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from specs import ZooError


class Overlap(NamedTuple):
    """A score in points, sacreBLEU's own result, and the signature that says what exactly was computed."""

    score: float
    result: Any
    signature: str


def overlap(kind: str, hypotheses: Sequence[str], references: Sequence[str], **choices: Any) -> Overlap:
    """sacreBLEU's metric of this kind (BLEU, CHRF, TER) over a corpus, against one reference a sentence.

    Raises ZooError where there are not as many hypotheses as references, or none.
    """
    require_alike(hypotheses, references)
    metric = made(kind, **choices)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Overlap(float(result.score), result, str(metric.get_signature()))


def made(kind: str, **choices: Any) -> Any:
    """sacreBLEU's metric itself."""
    # A tenth of a second, for which those who only ask how a score is called do not wait.
    return getattr(import_module(f"sacrebleu.metrics.{kind.lower()}"), kind)(**choices)


def require_alike(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises ZooError unless there is one reference for each hypothesis, and one at least."""
    if len(hypotheses) != len(references):
        raise ZooError(
            f"there are {len(hypotheses):,} hypotheses and {len(references):,} references",
            hint=lines_hint(len(hypotheses), len(references)),
        )
    if not references:
        raise ZooError("there is nothing to score: no hypothesis and no reference")


def lines_hint(*counts: int) -> str:
    """What to do where two files do not go together."""
    told = "line n of the one is compared with line n of the other: both need as many lines"
    return f"{_NEWSTEST}: {_WHOLE}" if {*counts} == {_FILTERED, 3_003} else told


def doubt(lines: int) -> str | None:
    """What whoever scores a set of so many lines should know, if anything."""
    return f"if this is newstest2014: {_NEWSTEST}; {_WHOLE}" if lines == _FILTERED else None


_FILTERED = 2_737
_NEWSTEST = "newstest2014 has 3,003 lines, and 2,737 in the filtered form of the evaluation of 2014"
_WHOLE = "take the whole for both, which is sacreBLEU's `wmt14/full`"
