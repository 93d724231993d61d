"""What a translator makes of a set of sentences: what metrics are computed from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Unpack

from specs import ZooError
from zoo.generation.config import GenerationOptions
from zoo.generation.scoring import TokenScores
from zoo.generation.translator import Translator
from zoo.report import Report


class Answers:
    """Each kind of answer is asked for when a metric first wants it, and once; progress goes to `report`.

    Raises ZooError where there are not as many references as sources, or none.
    """

    def __init__(
        self,
        translator: Translator,
        sources: Sequence[str],
        references: Sequence[str],
        report: Report | None = None,
        **choice: Unpack[GenerationOptions],
    ) -> None:
        if len(sources) != len(references):
            raise ZooError(
                f"there are {len(sources):,} sources and {len(references):,} references",
                hint="line n of the references belongs to line n of the sources: both need as many lines",
            )
        if not sources:
            raise ZooError("there is nothing to evaluate: no sentence")
        self.sources, self.references = sources, references
        self._translator, self._report, self._choice = translator, report or Report(), choice

    @property
    def language(self) -> str:
        """That the outputs are in; a code such as de."""
        return self._translator.spec.corpus.target

    @property
    def outputs(self) -> list[str]:
        """The best output of each source: a translation, or a parser's tree in brackets."""
        return self._timed[0]

    @property
    def seconds(self) -> float:
        """That the outputs took."""
        return self._timed[1]

    @cached_property
    def _timed(self) -> tuple[list[str], float]:
        start = time.perf_counter()
        found = self._translator.hypotheses(self.sources, report=self._report, **self._choice)
        seconds = time.perf_counter() - start
        return [best.text for best, *_ in found], seconds

    @cached_property
    def forced(self) -> list[TokenScores]:
        """The probabilities of the references, token by token."""
        tokens = self._choice.get("tokens")
        return self._translator.score_tokens(self.sources, self.references, tokens=tokens, report=self._report)
