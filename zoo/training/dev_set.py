"""Scores of the dev set during training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from compiler import TRANSLATE, Purpose
from specs import Spec, ZooError
from zoo.evaluation.answers import Answers
from zoo.evaluation.metric import metrics_of, named
from zoo.evaluation.own_sets import texts
from zoo.evaluation.samples import samples
from zoo.generation.building import built
from zoo.generation.intake import Intake
from zoo.generation.opening import kind
from zoo.generation.request import TOKENS
from zoo.report import Report
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory
from zoo.text.vocabulary import Vocabulary

_MAX_LOGITS = 2**23
"""Logits that are computed at a time, so that scoring does not need more memory than training."""


class DevSet:
    """Dev set of a spec, scored by the metric of `training.dev_score`, in float32.

    Scoring does not affect training: the weights are only read, and the random numbers of a step do not depend on
    numbers drawn before.
    """

    def __init__(self, spec: Spec, vocabulary: Vocabulary, device: str, report: Report) -> None:
        self.spec, self.vocabulary, self.device, self.report = spec, vocabulary, device, report
        self.sources, self.references = texts(spec, "dev", Report(), vocabulary)
        first, *_ = metrics_of(spec.task)
        self.metric = named(spec.training.dev_score) if spec.training.dev_score else first
        self.samples = ""
        """Some outputs of the weights that were scored last. Empty if the metric needs no outputs."""

    def score(self, weights: Mapping[str, torch.Tensor]) -> float:
        """Return the score of the tensors of a weights file."""
        self.samples = ""
        answers = self.answers(weights)
        score = self.metric.score(answers)
        if not self.metric.forced:
            self.samples = samples(self.sources, self.references, answers.outputs)
        return score

    def answers(self, weights: Mapping[str, torch.Tensor]) -> Answers:
        """Return the outputs or the log-probabilities of the weights, depending on what the metric needs."""
        forced = self.metric.forced
        purposes, backend = ([Purpose.SCORE], "eager") if forced else (TRANSLATE, None)
        program = built(
            self.spec, purposes, weights, self.report, device=self.device, precision="float32", backend=backend
        )
        self.report = Report()  # report only the first build
        translator = kind(self.spec.task)(program, self.vocabulary, self.spec, device=self.device)
        tokens = max(1, min(TOKENS, _MAX_LOGITS // self.spec.vocabulary.sizes[1])) if forced else None
        return Answers(translator, self.sources, self.references, tokens=tokens)


@contextmanager
def continue_without_score(report: Report, when: str = "") -> Iterator[None]:
    """Report a failure to score the dev set as a warning, so that training continues."""
    try:
        yield
    except (ZooError, *MEMORY_ERRORS) as error:
        if not isinstance(error, ZooError) and not is_out_of_memory(error):
            raise
        cause = error.summary if isinstance(error, ZooError) else error
        report.warn(f"the dev set has no score{when}: {cause}")


def dev_set_problem(spec: Spec, vocabulary: Vocabulary) -> ZooError | None:
    """Return an error if sentences of the dev set are longer than the model's learned positions, else None."""
    architecture = spec.architecture
    if not spec.corpus.dev or architecture.positional_encoding != "learned":
        return None
    intake = Intake(vocabulary, spec, architecture.max_positions, None, Report())
    sources, references = texts(spec, "dev", Report(), vocabulary)
    errors = []
    for pair in zip(sources, references, strict=True):
        try:
            intake.rows(pair[:1], "source")
            intake.rows(pair[1:], "target")
        except ZooError as error:
            errors.append(error)
    if not errors:
        return None
    problem = f"{len(errors):,} of the dev set's {len(sources):,} sentence pairs cannot be scored: {errors[0]}"
    hint = "raise `architecture.max_positions`, remove these pairs from `corpus.dev`, or train with "
    return ZooError(problem, hint=f"{hint}`positional_encoding: sinusoidal`")
