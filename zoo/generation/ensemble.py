"""Several programs as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from compiler.program import TopK, TranslationModel, top_k
from specs import ZooError
from zoo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from zoo.generation.translator import Translator

States = tuple[Any, ...]


class Ensemble:
    """A program whose probabilities are the mean of those of its `programs`, which have one vocabulary and device."""


    def __init__(self, programs: Sequence[TranslationModel]) -> None:
        """Raises ZooError for one that searches by itself."""
        self.programs: list[TranslationModel] = []
        for program in programs:
            self.programs.append(program)

    @property
    def concurrent(self) -> bool:
        """Whether several threads may use it."""
        return all(program.concurrent for program in self.programs)

    def encode(self, source: Int[Tensor, "sentences source"]) -> States:
        return tuple(program.encode(source) for program in self.programs)

    def decode_step(self, state: States, token: Int[Tensor, " rows"]) -> tuple[Float32[Tensor, "rows V"], States]:
        each = [program.decode_step(part, token) for program, part in zip(self.programs, state, strict=True)]
        return self._mean([log_probabilities for log_probabilities, _ in each]), tuple(part for _, part in each)

    def top_k(
        self, state: States, token: Int[Tensor, " rows"], count: int, allowed: Bool[Tensor, "#rows V"] | None = None
    ) -> tuple[TopK, States]:
        log_probabilities, state = self.decode_step(state, token)
        return top_k(log_probabilities, count, allowed), state

    def select(self, state: States, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> States:
        return tuple(p.select(part, sentences, parents) for p, part in zip(self.programs, state, strict=True))

    def join(self, first: States, second: States) -> States:
        return tuple(p.join(*parts) for p, *parts in zip(self.programs, first, second, strict=True))

    def score(
        self, source: Int[Tensor, "rows source"], target: Int[Tensor, "rows 1+target"]
    ) -> Float32[Tensor, "rows target"]:
        return self._mean([program.score(source, target) for program in self.programs])

    def _mean(self, log_probabilities: Sequence[Float[Tensor, "rows some"]]) -> Float32[Tensor, "rows some"]:
        """log((e^a + e^b + ...) / n), in float32."""
        if len(log_probabilities) == 1:
            return log_probabilities[0].float()
        together = torch.stack([each.float() for each in log_probabilities])
        return together.logsumexp(0) - math.log(len(log_probabilities))


def check_together(translators: Sequence[Translator]) -> None:
    """Raises ZooError unless they are some, have one vocabulary and stand on one device."""
    if not translators:
        raise ZooError("an ensemble of no model", hint="name one at least")
    for other in translators[1:]:
        first = translators[0]
        if not _same(first.vocabulary, other.vocabulary):
            raise ZooError(
                f"`{first.spec.name}` and `{other.spec.name}` have different vocabularies: their probabilities have no "
                "mean",
                hint="an ensemble is of models that were trained with the same vocabulary files",
            )
        if other.device != first.device:
            problem = f"an ensemble is on one device, not on {first.device} and {other.device}"
            raise ZooError(problem, hint="open all its models with the same `device`")


def _same(first: Vocabulary, second: Vocabulary) -> bool:
    if first is second:
        return True
    return first.digest == second.digest
