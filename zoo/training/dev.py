"""The dev set during training: the weights of now, as they would translate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from compiler import TRANSLATE, Purpose, build
from specs import Spec
from zoo.evaluation.bleu import bleu
from zoo.evaluation.own_sets import texts
from zoo.evaluation.perplexity import perplexity
from zoo.report import Report
from zoo.search.request import TOKENS
from zoo.storage import places
from zoo.text.vocabulary import Vocabulary
from zoo.translation.translator import Translator

_LOGITS = 2**23
"""That are computed at a time: scoring is not to need more memory than training does."""


class DevSet:
    """Scores by `training.dev_score`, in float32, through the backend that translates.

    It leaves no trace in training: nothing writes to the weights, and no random number of a step depends on what was
    drawn before.
    """

    def __init__(self, spec: Spec, vocabulary: Vocabulary, device: str) -> None:
        self.spec, self.vocabulary, self.device = spec, vocabulary, device
        self.sources, self.references = texts(spec, "dev", Report(), vocabulary)

    def score(self, weights: Mapping[str, torch.Tensor]) -> float:
        """Of the tensors of a weights file."""
        alone = self.spec.training.dev_score == "perplexity"
        program = build(
            self.spec,
            [Purpose.SCORE] if alone else TRANSLATE,
            weights=weights,
            device=self.device,
            precision="float32",
            backend="eager" if alone else None,
            folder=places.compiled(),
        )
        translator = Translator(
            program, self.vocabulary, self.spec, longest_source=None, report=Report(), device=self.device
        )
        if alone:
            tokens = max(1, min(TOKENS, _LOGITS // self.vocabulary.size))
            return perplexity(translator.forced(self.sources, self.references, tokens=tokens))
        return bleu(translator.translate(self.sources), self.references).score

    def better(self, score: float, than: float | None) -> bool:
        """Whether a score is better than another, or the first one; one that is not finite never is."""
        if than is None or not math.isfinite(score):
            return math.isfinite(score)
        return score < than if self.spec.training.dev_score == "perplexity" else score > than
