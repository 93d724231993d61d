"""Word and character error rates for transcripts, as a metric with sacreBLEU's interface. jiwer counts the edits."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal

from sacrebleu.metrics.base import Metric, Score, Signature

from specs import ZooError, install_hint


class ErrorRate(Metric):
    """Number of edits per 100 words or characters in the references.

    The edits are the substitutions, deletions and insertions that turn the reference into the output. White space
    between words counts as one character. If all references are empty, the rate is 100, as in sacreBLEU's TER, or 0 if
    all outputs are also empty.
    """

    def __init__(self, unit: Literal["words", "characters"], *, lowercase: bool = False) -> None:
        """Create a metric.

        Args:
            unit: Whether to count edits of words or of characters.
            lowercase: Whether to ignore upper and lower case.

        Raises:
            ZooError: jiwer is not installed.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.unit, self.lowercase = unit, lowercase
        try:
            self._count_edits = getattr(import_module("jiwer"), f"process_{unit}")
        except ImportError:
            problem = f"the {unit.removesuffix('s')} error rate cannot be computed: `jiwer` is not installed"
            raise ZooError(problem, hint=install_hint("speech")) from None

    def get_signature(self) -> Signature:
        """Return sacreBLEU's signature of this metric, including the metric's options and the version of jiwer."""
        signature = super().get_signature()
        case = "lc" if self.lowercase else "mixed"
        signature.info |= {"case": case, "unit": self.unit, "version": f"jiwer-{version('jiwer')}"}
        return signature

    def _preprocess_segment(self, sent: str) -> str:
        text = " ".join(sent.split())
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, str]:
        return {"reference": refs[0]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, str]) -> list[int]:
        """Return two counts for one sentence: edits, and words or characters in the reference."""
        found = self._count_edits(ref_kwargs["reference"], hypothesis)
        of_reference = found.hits + found.substitutions + found.deletions
        return [found.substitutions + found.deletions + found.insertions, of_reference]

    def _aggregate_and_compute(self, stats: list[list[Any]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[Any]) -> Score:
        edits, of_reference = stats
        if of_reference:
            return Score(self.unit, 100 * edits / of_reference)
        return Score(self.unit, 100.0 if edits else 0.0)
