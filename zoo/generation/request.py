"""How a translation is wanted: what the caller leaves open, the spec decides."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self, TypedDict

from specs import Spec, ZooError
from specs.decoding import (
    MAX_ALPHA,
    MAX_BEAM,
    MAX_N_BEST,
    MAX_SEED,
    MAX_TEMPERATURE,
    MAX_TOKENS,
    MAX_TOP_K,
    MAX_WORKERS,
)
from specs.notation import quote
from zoo.generation.beam import Beam, StoppingRule
from zoo.generation.constraint import Constraint
from zoo.generation.hypothesis import LengthPenalty
from zoo.generation.sample import Sample
from zoo.generation.suppressed_tokens import SuppressedTokens

TOKENS = 4096
"""Source tokens of one batch, EOS and padding counted, where the caller does not say."""
_TINY = sys.float_info.min
_WHOLE = {
    "beam": (1, MAX_BEAM),
    "n_best": (1, MAX_N_BEST),
    "top_k": (0, MAX_TOP_K),
    "seed": (0, MAX_SEED),
    "tokens": (1, MAX_TOKENS),
    "workers": (1, MAX_WORKERS),
}
"""The least and the most of whole numbers."""


class Choice(TypedDict, total=False):
    """What a caller may choose; what is left out, or None, the spec decides.

    `tokens` is the budget of one batch, and `seed` where samples start from: the spec's `training.seed` if not given.
    """

    search: str | None
    beam: int | None
    alpha: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    tokens: int | None
    workers: int | Literal["auto"] | None


@dataclass(frozen=True, slots=True)
class Request:
    """A choice that is complete, how many hypotheses are wanted of each sentence, and what bounds them.

    What belongs to the model and is nobody's choice is as its spec says.
    """

    search: str
    beam: int
    alpha: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    tokens: int
    workers: int | Literal["auto"]
    n_best: int = 1
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    stopping_rule: StoppingRule = "admissible"
    suppressed_tokens: SuppressedTokens | None = None

    @classmethod
    def of(cls, spec: Spec, choice: Choice, n_best: int | None = None) -> Self:
        """Raises ZooError for a value out of range, and for one that the search has no use for."""
        known = {name: getattr(spec.decoding, name) for name in Choice.__annotations__ if hasattr(spec.decoding, name)}
        known |= {"tokens": TOKENS, "seed": spec.training.seed}
        chosen = {name: value for name, value in choice.items() if value is not None}
        if strange := sorted(chosen.keys() - known):
            raise TypeError(f"`{strange[0]}` is no choice: it is one of {', '.join(known)}")
        decoding, size, least = spec.decoding, spec.vocabulary.sizes[1], spec.decoding.min_length
        request = cls(
            **{**known, **chosen},
            n_best=1 if n_best is None else n_best,
            length_penalty=decoding.length_penalty,
            stopping_rule=decoding.stopping_rule,
            suppressed_tokens=SuppressedTokens(decoding.suppressed_tokens, size, least=least)
            if decoding.suppressed_tokens or least
            else None,
        )
        request._check(chosen.keys())
        return request

    def chooser(self) -> Beam | Sample:
        """What chooses tokens as it is wanted."""
        bounds = (
            self.constraint
            if self.suppressed_tokens is None
            else replace(self.suppressed_tokens, other=self.constraint)
        )
        if self.search == "beam":
            return Beam(self.beam, self.alpha, self.n_best, bounds, self.length_penalty, self.stopping_rule)
        top = (self.temperature, self.top_k, self.top_p)
        return Sample(self.n_best, self.alpha, *top, self.seed, bounds, self.length_penalty)

    def _check(self, chosen: Iterable[str]) -> None:
        if self.search not in ("beam", "sample"):
            raise ZooError(f"`search` is {self.search!r}", hint="it is `beam` or `sample`")
        for name in _WHOLE:
            if (name, value := getattr(self, name)) != ("workers", "auto"):
                _whole(name, value)
        _number("alpha", self.alpha, 0.0, MAX_ALPHA, f"a number from 0 to {MAX_ALPHA}")
        _number(
            "temperature",
            self.temperature,
            _TINY,
            MAX_TEMPERATURE,
            f"a number above 0 and at most {MAX_TEMPERATURE:,.0f}",
        )
        _number("top_p", self.top_p, _TINY, 1.0, "a number above 0 and at most 1")
        self._check_use(chosen)

    def _check_use(self, chosen: Iterable[str]) -> None:
        if self.search == "beam" and self.n_best > self.beam:
            raise ZooError(
                f"`n_best` is {self.n_best}, but a beam of {self.beam} finds only {self.beam}",
                hint=f"widen the beam to {self.n_best}, or ask for {self.beam} at most",
            )
        idle = ("beam",) if self.search == "sample" else ("temperature", "top_k", "top_p", "seed")
        for name in idle:
            if name in chosen:
                other = "beam" if self.search == "sample" else "sample"
                raise ZooError(
                    f"`{name}` is given, and the search is `{self.search}`, which has no use for it",
                    hint=f"leave it out, or say that the search is `{other}`",
                )


def budget(tokens: int | None) -> int:
    """The tokens of a batch. Raises ZooError unless they are a whole number within bounds."""
    if tokens is None:
        return TOKENS
    _whole("tokens", tokens)
    return tokens


def _number(name: str, value: object, least: float, most: float, words: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ZooError(f"`{name}` is {_quoted(value)}: it must be {words}")


def _whole(name: str, value: object) -> None:
    least, most = _WHOLE[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ZooError(f"`{name}` is {_quoted(value)}: it must be a whole number from {least} to {most:,}")


def _quoted(value: object) -> str:
    """As Python writes it, unless that is long."""
    return quote(value)[1:-1] if isinstance(value, int) and not isinstance(value, bool) else repr(value)[:100]
