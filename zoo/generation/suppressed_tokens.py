"""Tokens that no translation has, and EOS where it is too short, whatever else bounds a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from specs import EOS
from zoo.generation.constraint import Bounds, Constraint
from zoo.generation.source import Source


@dataclass(frozen=True, slots=True)
class SuppressedTokens:
    """These of a target vocabulary of `size`, what another constraint bars, and EOS before `least` tokens.

    A translation may end all the same at its limit, and where the other allows it and nothing else is left.
    """

    tokens: tuple[int, ...]
    size: int
    other: Constraint | None = None
    least: int = 0

    def begun(self, sources: Sequence[Source], device: torch.device) -> _Rest:
        """Before the first token, be it of a prefix."""
        left = torch.ones(1, self.size, dtype=torch.bool)
        left[:, list(self.tokens)] = False
        lacking = [min(self.least, source.limit) for source in sources]
        other = None if self.other is None else self.other.begun(sources, device)
        return _Rest(left.to(device), torch.tensor(lacking).to(device), max(lacking), other)


class _Rest:
    """What is left of the vocabulary, how many tokens each row lacks before it may end, and the other's bounds."""

    def __init__(
        self, left: Bool[Tensor, "1 V"], lacking: Int[Tensor, " rows"], most: int, other: Bounds | None
    ) -> None:
        """No row lacks more than `most`, which a device need not be asked for."""
        self._left, self._lacking, self._most, self._other = left, lacking, most, other

    def allowed(self) -> Bool[Tensor, "#rows V"]:
        """Which tokens may come next."""
        left = self._left
        if self._most > 0:
            left = left.repeat(len(self._lacking), 1)
            left[:, EOS] = self._lacking <= 0
        if self._other is None:
            return left
        others = self._other.allowed()
        left = others & left
        if self._most > 0:
            left[:, EOS] |= others[:, EOS] & ~left.any(1)  # a tree that is whole
        return left

    def after(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> _Rest:
        """Goes on from these rows, each with its token."""
        lacking = (self._lacking if rows is None else self._lacking[rows]) - 1
        return _Rest(
            self._left, lacking, self._most - 1, None if self._other is None else self._other.after(rows, tokens)
        )

    def joined(self, other: _Rest) -> _Rest:
        """Those of both."""
        both = None if self._other is None or other._other is None else self._other.joined(other._other)
        return _Rest(self._left, torch.cat([self._lacking, other._lacking]), max(self._most, other._most), both)
