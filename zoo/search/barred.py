"""Pieces that no translation has, whatever else bounds a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.search.constraint import Bounds, Constraint
from zoo.search.source import Source


@dataclass(frozen=True, slots=True)
class Barred:
    """These of a target vocabulary of `size`, and what another constraint bars."""

    pieces: tuple[int, ...]
    size: int
    other: Constraint | None = None

    def begun(self, sources: Sequence[Source], device: torch.device) -> _Rest:
        """Before the first piece."""
        left = torch.ones(1, self.size, dtype=torch.bool)
        left[:, list(self.pieces)] = False
        return _Rest(left.to(device), None if self.other is None else self.other.begun(sources, device))


class _Rest:
    """One mask for all rows, and the bounds of the other constraint."""

    def __init__(self, left: Bool[Tensor, "1 V"], other: Bounds | None) -> None:
        self._left, self._other = left, other

    def allowed(self) -> Bool[Tensor, "#rows V"]:
        """Which pieces may come next."""
        return self._left if self._other is None else self._other.allowed() & self._left

    def after(self, rows: Int[Tensor, " rows"] | None, pieces: Int[Tensor, " rows"]) -> _Rest:
        """Goes on from these rows, each with its piece."""
        return self if self._other is None else _Rest(self._left, self._other.after(rows, pieces))

    def joined(self, other: _Rest) -> _Rest:
        """Those of both."""
        if self._other is None or other._other is None:
            return self
        return _Rest(self._left, self._other.joined(other._other))
