"""Score a model on the dev set during training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name

import torch

from compiler import TRANSLATE, Purpose
from specs import Spec, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.metrics import get_metric, metrics_for
from zoo.evaluation.outputs import ModelOutputs, format_examples
from zoo.generation.compilation import build_with_message
from zoo.generation.config import DEFAULT_MAX_BATCH_TOKENS
from zoo.generation.preprocessing import Preprocessor
from zoo.report import Report
from zoo.system.memory import MEMORY_ERRORS, is_out_of_memory
from zoo.text.languages import LanguagePair
from zoo.text.vocabulary import Vocabulary

_MAX_LOGITS = 2**23
"""Maximum number of logits to compute at a time, so that scoring does not need more memory than training."""


class DevSet:
    """Dev set on which the model is scored during training.

    The scores are computed in float32, with the metric `training.dev_score`. They do not affect the training steps: the
    weights are only read, and the random numbers of a step do not depend on earlier random numbers.
    """

    def __init__(self, spec: Spec, vocabulary: Vocabulary, device: str, report: Report) -> None:
        self.spec, self.vocabulary, self.device, self.report = spec, vocabulary, device, report
        self.texts = read_split(spec, "dev", Report(), vocabulary)
        self.metric = get_metric(spec.training.dev_score) if spec.training.dev_score else metrics_for(spec)[0]
        self.samples = ""
        """Some outputs from the last call to `score`, as text. Empty if the metric needs no outputs."""

    def score(self, weights: Mapping[str, torch.Tensor]) -> float:
        """Return a model's score on the dev set. `weights` has the names and shapes of a weights file."""
        self.samples = ""
        outputs = self._outputs(weights)
        score = self.metric.score(outputs)
        if not self.metric.uses_probabilities:
            self.samples = format_examples(self.texts.sources, self.texts.references, outputs.texts)
        return score

    def _outputs(self, weights: Mapping[str, torch.Tensor]) -> ModelOutputs:
        """Return a model's outputs for the dev set. If the metric uses only log-probabilities, no text is generated."""
        forced = self.metric.uses_probabilities
        purposes, backend = ([Purpose.SCORE], "eager") if forced else (TRANSLATE, None)
        program = build_with_message(
            self.spec, purposes, self.report, weights=weights, device=self.device, precision="float32", backend=backend
        )
        self.report = Report()  # report only the first build
        translator = resolve_name(self.spec.task.translator)(program, self.vocabulary, self.spec, device=self.device)
        tokens = max(1, min(DEFAULT_MAX_BATCH_TOKENS, _MAX_LOGITS // self.spec.vocabulary.sizes[1])) if forced else None
        return ModelOutputs(translator, self.texts, max_batch_tokens=tokens, shortlist=False)


@contextmanager
def continue_without_score(report: Report, when: str = "") -> Iterator[None]:
    """Convert errors in the `with` block, which computes a dev score, to warnings, so that training continues."""
    try:
        yield
    except (ZooError, *MEMORY_ERRORS) as error:
        if not isinstance(error, ZooError) and not is_out_of_memory(error):
            raise
        cause = error.summary if isinstance(error, ZooError) else error
        report.warn(f"the model could not be scored on the dev set{when}: {cause}")


def require_scorable_dev_set(spec: Spec, vocabulary: Vocabulary) -> None:
    """Raise ZooError if a sentence in the dev set is longer than the model's table of learned position embeddings."""
    positions = spec.architecture.max_positions
    if not spec.corpus.dev or positions is None:
        return
    texts = read_split(spec, "dev", Report(), vocabulary)
    languages = LanguagePair.of(spec, vocabulary, spec.default_direction)
    preprocessor = Preprocessor(vocabulary, spec, positions, None, languages)
    try:
        for side in spec.task.token_streams:
            preprocessor.encode_pairs_side(texts.streams[side], "source" if side == "source" else "target")
    except ZooError as error:
        hint = "raise `architecture.positions.rows`, remove such sentences from `corpus.dev`, or train with "
        hint += "`positions: {kind: sinusoidal}`"
        raise ZooError(f"the model cannot be scored on the dev set: {error.summary}", hint=hint) from None
