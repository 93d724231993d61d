"""What chooses the next tokens of all hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jaxtyping import Bool, Float32, Int
from torch import Tensor

from compiler.program import State, StepwiseDecoder
from zoo.generation.constraint import Constraint
from zoo.generation.history import History
from zoo.generation.source import Source


class Chosen(NamedTuple):
    """What a step leads to, a row a sentence. -inf marks a place where there is nothing."""

    totals: Float32[Tensor, "sentences candidates"]
    """Log-probabilities of the candidates, from the first token on."""
    parents: Int[Tensor, "sentences candidates"]
    """The row of the sentence that each goes on from."""
    tokens: Int[Tensor, "sentences candidates"]
    live: Int[Tensor, "sentences rows"]
    """Which candidates are the rows of the next step."""
    live_totals: Float32[Tensor, "sentences rows"]
    """Their log-probabilities; -inf where they have ended."""


class Chooser(Protocol):
    """A way to search. It keeps nothing of any sentence, so that all workers share one."""

    @property
    def constraint(self) -> Constraint | None:
        """What bounds the search."""

    @property
    def moves(self) -> bool:
        """Whether rows change their places from step to step."""

    def history(self, source: Source) -> History:
        """The history of a sentence that is about to start."""

    def step(
        self,
        program: StepwiseDecoder[State],
        state: State,
        token: Int[Tensor, " rows"],
        totals: Float32[Tensor, "sentences rows"],
        histories: Sequence[History],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> tuple[Chosen, State]:
        """One token on, that is allowed. At first a sentence has one row, later as many as were chosen to live."""
