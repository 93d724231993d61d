"""The dev set during training: the weights of now, as they would translate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from compiler import TRANSLATE, Purpose
from specs import Spec, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.metrics import get_metric, metrics_for
from zoo.evaluation.outputs import ModelOutputs, format_examples
from zoo.generation.compilation import build_with_message
from zoo.generation.config import DEFAULT_MAX_BATCH_TOKENS
from zoo.generation.loading import translator_class
from zoo.generation.preprocessing import Preprocessor
from zoo.report import Report
from zoo.system.ram import FAILURES, is_short
from zoo.text.vocabulary import Vocabulary

_LOGITS = 2**23
"""That are computed at a time: scoring is not to need more memory than training does."""


class DevSet:
    """Scores by the metric of `training.dev_score`, in float32, through the backend that translates.

    It leaves no trace in training: nothing writes to the weights, and no random number of a step depends on what was
    drawn before.
    """

    def __init__(self, spec: Spec, vocabulary: Vocabulary, device: str, report: Report) -> None:
        self.spec, self.vocabulary, self.device, self.report = spec, vocabulary, device, report
        self.sources, self.references = read_split(spec, "dev", Report(), vocabulary)
        first, *_ = metrics_for(spec.task)
        self.metric = get_metric(spec.training.dev_score) if spec.training.dev_score else first
        self.samples = ""
        """Some outputs of the weights that were scored last, where the score is made from outputs."""

    def score(self, weights: Mapping[str, torch.Tensor]) -> float:
        """Of the tensors of a weights file."""
        self.samples = ""
        answers = self.answers(weights)
        score = self.metric.score(answers)
        if not self.metric.uses_probabilities:
            self.samples = format_examples(self.sources, self.references, answers.texts)
        return score

    def answers(self, weights: Mapping[str, torch.Tensor]) -> ModelOutputs:
        """Theirs, to what the metric asks."""
        forced = self.metric.uses_probabilities
        purposes, backend = ([Purpose.SCORE], "eager") if forced else (TRANSLATE, None)
        program = build_with_message(
            self.spec, purposes, weights, self.report, device=self.device, precision="float32", backend=backend
        )
        self.report = Report()  # said once
        translator = translator_class(self.spec.task)(program, self.vocabulary, self.spec, device=self.device)
        tokens = max(1, min(DEFAULT_MAX_BATCH_TOKENS, _LOGITS // self.spec.vocabulary.sizes[1])) if forced else None
        return ModelOutputs(translator, self.sources, self.references, max_batch_tokens=tokens)


@contextmanager
def unscored(report: Report, when: str = "") -> Iterator[None]:
    """While it lasts, what keeps the dev set from being scored is told: it is not worth the training."""
    try:
        yield
    except (ZooError, *FAILURES) as error:
        if not isinstance(error, ZooError) and not is_short(error):
            raise
        said = error.summary if isinstance(error, ZooError) else error
        report.warn(f"the dev set has no score{when}: {said}")


def too_long(spec: Spec, vocabulary: Vocabulary) -> ZooError | None:
    """Why the dev set cannot be scored: sentences that outgrow learned positions, as `zoo decode` says it."""
    architecture = spec.architecture
    if not spec.corpus.dev or architecture.positional_encoding != "learned":
        return None
    intake = Preprocessor(vocabulary, spec, architecture.max_positions, None, Report())
    sources, references = read_split(spec, "dev", Report(), vocabulary)
    refused = []
    for pair in zip(sources, references, strict=True):
        try:
            intake.encode_pairs_side(pair[:1], "source")
            intake.encode_pairs_side(pair[1:], "target")
        except ZooError as error:
            refused.append(error)
    if not refused:
        return None
    problem = f"of the dev set's {len(sources):,} pairs, {len(refused):,} cannot be scored: {refused[0]}"
    hint = "raise `architecture.max_positions`, take them out of `corpus.dev`, or train with `positional_encoding: "
    return ZooError(problem, hint=f"{hint}sinusoidal`")
