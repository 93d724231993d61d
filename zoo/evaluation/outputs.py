"""Outputs of a model on a set of sentences: computed on demand, saved per sentence, and shown as examples."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from pydantic import ConfigDict, PositiveInt
from pydantic.dataclasses import dataclass

from specs import ZooError
from specs.corpus import Direction
from specs.sections import OUTPUT
from zoo.evaluation.text_metrics import TRANSCRIPT_METRICS
from zoo.files.atomic import atomic_file
from zoo.files.reading import read_bytes
from zoo.generation.config import GenerationOptions
from zoo.generation.scoring import TokenScores
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.report import SILENT, Report

EXAMPLES = 3
"""Number of sentences that `format_examples` shows."""
_MAX_FILE_BYTES = 1_000_000_000  # enough for millions of sentences


class EvaluationSet(NamedTuple):
    """Texts of a dev or test set, keyed by stream, such as `source`."""

    streams: Mapping[str, Sequence[str]]
    directions: Sequence[Direction]
    """Source and target language of each example."""

    @property
    def sources(self) -> Sequence[str]:
        """The texts that the model reads."""
        return self.streams["source"]

    @property
    def references(self) -> Sequence[str]:
        """The reference outputs."""
        return self.streams[OUTPUT]

    @property
    def rows_by_direction(self) -> dict[Direction, list[int]]:
        """The indices of the examples in each translation direction, in ascending order."""
        rows: dict[Direction, list[int]] = {}
        for row, direction in enumerate(self.directions):
            rows.setdefault(direction, []).append(row)
        return rows

    def texts_to_score(self, metric: str, outputs: Sequence[str]) -> Iterator[tuple[Direction, list[str], list[str]]]:
        """Yield each translation direction that a metric in `TEXT_METRICS` scores, with its outputs and references.

        If a model both transcribes and translates, error rates are computed only for its transcripts, and the other
        metrics only for its translations.
        """
        directions, transcripts = self.rows_by_direction, metric in TRANSCRIPT_METRICS
        does_both = len({source == target for source, target in directions}) > 1
        for (source, target), rows in directions.items():
            if not does_both or (source == target) is transcripts:
                yield (source, target), [outputs[row] for row in rows], [self.references[row] for row in rows]


class ModelOutputs:
    """Outputs of a translator for a set of sentences. Texts and scores are computed when they are first needed."""

    def __init__(
        self,
        translator: Translator,
        texts: EvaluationSet,
        report: Report = SILENT,
        **options: Unpack[GenerationOptions],
    ) -> None:
        """Prepare to run a translator on an evaluation set.

        Args:
            translator: Model that produces the outputs.
            texts: The texts to translate or parse, and their references.
            report: Receives the progress.
            **options: Generation options. Defaults come from the spec.
        """
        self.evaluation_set = texts
        self._translator, self._report, self._options = translator, report, options

    @property
    def texts(self) -> list[str]:
        """The best output for each source: a translation, or a parser's bracketed tree."""
        return [best.text for best in self.translations]

    @property
    def translations(self) -> list[Translation]:
        """The best output for each source, with its log-probability."""
        return self._timed_outputs[0]

    @property
    def seconds(self) -> float:
        """The time to generate `texts`, in seconds."""
        return self._timed_outputs[1]

    @cached_property
    def _timed_outputs(self) -> tuple[list[Translation], float]:
        start = time.perf_counter()
        translate = partial(self._translator.hypotheses, split=False, protect=False, **self._options)
        hypotheses = self._in_each_direction(translate, [self.evaluation_set.sources])
        return [best for best, *_ in hypotheses], time.perf_counter() - start

    @cached_property
    def reference_scores(self) -> list[TokenScores]:
        """The log-probabilities of the tokens in each reference."""
        score = partial(self._translator.score_tokens, max_batch_tokens=self._options.get("max_batch_tokens"))
        return self._in_each_direction(score, self.evaluation_set.streams.values())

    def _in_each_direction(
        self, compute: Callable[..., Sequence[Any]], streams: Collection[Sequence[str]]
    ) -> list[Any]:
        """Call `compute` once for each translation direction, and return all results in the order of the examples.

        Args:
            compute: Function that receives the texts of each stream in one direction.
            streams: The texts of each stream, in all directions.
        """
        results: dict[int, Any] = {}
        for (source, target), rows in self.evaluation_set.rows_by_direction.items():
            texts = ([lines[row] for row in rows] for lines in streams)
            results |= zip(rows, compute(*texts, source=source, target=target, report=self._report), strict=True)
        return [results[row] for row in range(len(self.evaluation_set.references))]


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class SavedOutput:
    """Output of a training run for one sentence, saved as one line of JSON.

    Attributes:
        output: The best translation, or a parser's bracketed tree.
        log_probability: Natural log-probability of the reference, including EOS.
        tokens: Number of tokens in the reference, including EOS.
    """

    output: str
    log_probability: float
    tokens: PositiveInt


def save_outputs(file: Path, outputs: ModelOutputs) -> None:
    """Save a model's outputs in a file, so that models can be compared later without their weights."""
    saved = [
        SavedOutput(output, scores.log_probability, scores.tokens)
        for output, scores in zip(outputs.texts, outputs.reference_scores, strict=True)
    ]
    with atomic_file(file) as partial:
        partial.write_text("".join(f"{json.dumps(asdict(line))}\n" for line in saved), encoding="utf-8")


def load_outputs(file: Path) -> Sequence[SavedOutput]:
    """Load the outputs that `save_outputs` wrote, in the order of the sentences.

    Raises:
        ZooError: The file is missing or damaged.
    """
    try:
        return [SavedOutput(**json.loads(line)) for line in read_bytes(file, _MAX_FILE_BYTES).splitlines()]
    except (ValueError, TypeError):
        hint = "remove the file, and run `zoo evaluate --model RUN --set SET` to write it again"
        raise ZooError(f"`{file}` is damaged: a line is not a valid output", hint=hint, exit_code=1) from None


def format_examples(sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> str:
    """Format the first `EXAMPLES` non-empty sentences for display, each with its reference and the model's output."""
    rows = [row for row in zip(sources, references, outputs, strict=True) if row[0].strip()][:EXAMPLES]
    blocks = (f"\n  source     {row[0]}\n  reference  {row[1]}\n  output     {row[2]}" for row in rows)
    return "\n".join(blocks).removeprefix("\n")
