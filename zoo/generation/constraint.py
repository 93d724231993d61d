"""What may be produced: which tokens may come next, of every hypothesis of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.generation.source import Source


class Bounds(Protocol):
    """What a constraint knows of the hypotheses of a batch: a row each, as in the state of a program.

    All in tensors, of which a device is never asked. Rows that are no hypothesis any more take any token, and any may
    be allowed to them. Bounds that were handed to a verb are used up.
    """

    def allowed(self) -> Bool[Tensor, "#rows V"]:
        """Which tokens may come next: at least one of each hypothesis, and EOS at its limit."""

    def after(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> Self:
        """Goes on from these rows, each with its token; from all as they stand where there are no `rows`."""

    def joined(self, other: Self) -> Self:
        """Those of both, those of the other behind."""


class Constraint(Protocol):
    """What bounds a search. It keeps nothing of any sentence, so that all workers share one.

    What is suppressed is no candidate; what is left keeps the model's own log-probabilities, and they count as ever. PAD
    and BOS are suppressed by the search itself. Prefixes are not written as a constraint: their tokens need no choice, so
    that a sentence has one row for as long as it reads its own, and not a beam of them.
    """

    def begun(self, sources: Sequence[Source], device: torch.device) -> Bounds:
        """Before the first token, be it of a prefix; a row a sentence. Raises ValueError where nothing can be found."""
