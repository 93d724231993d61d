"""Ensembles of compiled models. The search uses an ensemble like a single model with averaged probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from compiler.lazy import decoder, torch
from compiler.padded_batch import PaddedBatch
from compiler.program import DecoderOnly, TopK, TranslationModel
from specs import ZooError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Int
    from torch import Tensor

    from zoo.generation.translator import Translator

States = tuple[Any, ...]


class Ensemble:
    """Ensemble of compiled models, which must share one vocabulary and one device. It averages their probabilities."""

    def __init__(self, programs: Sequence[TranslationModel]) -> None:
        self.programs = list(programs)

    @property
    def concurrent(self) -> bool:
        """Whether several threads can use the ensemble at the same time."""
        return all(program.concurrent for program in self.programs)

    def encode(self, source: PaddedBatch) -> States:
        """Return the decoder state of each model before the first token."""
        return tuple(program.encode(source) for program in self.programs)

    def begin(self, rows: int) -> States:
        """Return the decoder state of each model before the first token, for models without an encoder."""
        return tuple(cast(DecoderOnly, program).begin(rows) for program in self.programs)

    def advance(self, state: States, tokens: Int[Tensor, "rows k"]) -> tuple[Float32[Tensor, "rows k V"], States]:
        """Return the log-probabilities of the next token after each of `tokens`, and the new states."""
        steps = [program.advance(own, tokens) for program, own in zip(self.programs, state, strict=True)]
        return self._mean([log_probabilities for log_probabilities, _ in steps]), tuple(own for _, own in steps)

    def top_k(
        self, state: States, tokens: Int[Tensor, "rows k"], count: int, allowed: Bool[Tensor, "#rows·k V"] | None = None
    ) -> tuple[TopK, States]:
        """Return the `count` most probable next tokens after each of `tokens`, and the new states."""
        log_probabilities, state = self.advance(state, tokens)
        return decoder.top_k(log_probabilities.flatten(0, 1), count, allowed), state

    def select(self, state: States, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> States:
        """Return the states of the given sentences. `parents` contains the index of the old row for each new row."""
        return tuple(p.select(own, sentences, parents) for p, own in zip(self.programs, state, strict=True))

    def join(self, first: States, second: States) -> States:
        """Return the states of a batch with the sentences of `first`, followed by the sentences of `second`."""
        return tuple(p.join(*states) for p, *states in zip(self.programs, first, second, strict=True))

    def score(self, source: PaddedBatch | None, target: Int[Tensor, "rows 1+target"]) -> Float32[Tensor, "rows target"]:
        """Return the log-probability of each target token."""
        return self._mean([program.score(source, target) for program in self.programs])

    def _mean(self, log_probabilities: Sequence[Float[Tensor, "*shape"]]) -> Float32[Tensor, "*shape"]:
        """Average the models' probabilities in float32, and return the logarithm of the mean."""
        stacked = torch.stack([values.float() for values in log_probabilities])
        return stacked.logsumexp(0) - math.log(len(log_probabilities))


def check_compatible(translators: Sequence[Translator]) -> None:
    """Raise ZooError if there are no translators, or if the translators have different vocabularies or devices."""
    if not translators:
        raise ZooError("an ensemble needs at least one model", hint="pass the name of at least one model")
    first = translators[0]
    for other in translators[1:]:
        if first.vocabulary is not other.vocabulary and first.vocabulary.digest != other.vocabulary.digest:
            raise ZooError(
                f"`{first.spec.name}` and `{other.spec.name}` have different vocabularies, so their probabilities "
                "cannot be averaged",
                hint="use models that were trained with the same vocabulary files",
            )
        if other.device != first.device:
            raise ZooError(
                f"the models of an ensemble are on different devices, {first.device} and {other.device}",
                hint="open all models with the same `device`",
            )
