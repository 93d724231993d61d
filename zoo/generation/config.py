"""Generation options: what a caller may set, completed by the model's spec."""

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
from zoo.generation.beam_search import BeamSearch, StoppingRule
from zoo.generation.constraints import Constraint, SuppressedTokens
from zoo.generation.hypotheses import LengthPenalty
from zoo.generation.sampling import Sampling

DEFAULT_MAX_BATCH_TOKENS = 4096
"""Source tokens of a batch, counting EOS and padding, unless the caller sets another number."""
_SMALLEST = sys.float_info.min
_INTEGER_RANGES = {
    "beam": (1, MAX_BEAM),
    "n_best": (1, MAX_N_BEST),
    "top_k": (0, MAX_TOP_K),
    "seed": (0, MAX_SEED),
    "max_batch_tokens": (1, MAX_TOKENS),
    "workers": (1, MAX_WORKERS),
}


class GenerationOptions(TypedDict, total=False):
    """Options that a caller may set. The spec's `decoding` section gives what is left out or None.

    The default of `seed` is the spec's `training.seed`, that of `max_batch_tokens` is `DEFAULT_MAX_BATCH_TOKENS`.
    """

    search: str | None
    beam: int | None
    alpha: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    max_batch_tokens: int | None
    workers: int | Literal["auto"] | None


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Complete options of a search.

    Attributes:
        search: "beam" or "sample".
        beam: Number of live hypotheses of beam search.
        alpha: Strength of the length penalty.
        temperature: Divisor of the log-probabilities in sampling.
        top_k: Number of most probable tokens to sample from; 0 means all.
        top_p: Probability mass of the tokens to sample from.
        seed: Seed of sampling.
        max_batch_tokens: Source tokens of a batch, counting EOS and padding.
        workers: Number of worker threads, or "auto".
        n_best: Number of hypotheses per sentence.
        constraint: Constraint on the outputs, if any.
        length_penalty: Kind of length penalty, from the spec.
        stopping_rule: Stopping rule of beam search, from the spec.
        suppressed_tokens: Tokens that outputs never contain, and their minimum length, from the spec.
    """

    search: str
    beam: int
    alpha: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    max_batch_tokens: int
    workers: int | Literal["auto"]
    n_best: int = 1
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    stopping_rule: StoppingRule = "admissible"
    suppressed_tokens: SuppressedTokens | None = None

    @classmethod
    def from_spec(cls, spec: Spec, options: GenerationOptions, n_best: int | None = None) -> Self:
        """Complete the options with the defaults of a spec.

        Raises:
            ZooError: A value is out of range, or the kind of search does not use an option.
            TypeError: There is no such option.
        """
        decoding, vocabulary_size = spec.decoding, spec.vocabulary.sizes[1]
        defaults = {
            name: getattr(decoding, name) for name in GenerationOptions.__annotations__ if hasattr(decoding, name)
        }
        defaults |= {"max_batch_tokens": DEFAULT_MAX_BATCH_TOKENS, "seed": spec.training.seed}
        given = {name: value for name, value in options.items() if value is not None}
        if unknown := sorted(given.keys() - defaults):
            raise TypeError(f"`{unknown[0]}` is not a generation option; the options are {', '.join(defaults)}")
        suppressed = SuppressedTokens(decoding.suppressed_tokens, vocabulary_size, min_length=decoding.min_length)
        config = cls(
            **{**defaults, **given},
            n_best=1 if n_best is None else n_best,
            length_penalty=decoding.length_penalty,
            stopping_rule=decoding.stopping_rule,
            suppressed_tokens=suppressed if decoding.suppressed_tokens or decoding.min_length else None,
        )
        config._check_ranges()
        config._check_use(given)
        return config

    def strategy(self) -> BeamSearch | Sampling:
        """Return the search strategy that these options describe."""
        constraint = self.constraint
        if self.suppressed_tokens is not None:
            constraint = replace(self.suppressed_tokens, inner=constraint)
        if self.search == "beam":
            return BeamSearch(self.beam, self.alpha, self.n_best, constraint, self.length_penalty, self.stopping_rule)
        distribution = (self.temperature, self.top_k, self.top_p)
        return Sampling(self.n_best, self.alpha, *distribution, self.seed, constraint, self.length_penalty)

    def _check_ranges(self) -> None:
        if self.search not in ("beam", "sample"):
            raise ZooError(f"`search` is {self.search!r}", hint="set it to `beam` or `sample`")
        for name in _INTEGER_RANGES:
            if (name, value := getattr(self, name)) != ("workers", "auto"):
                _check_integer(name, value)
        _check_number("alpha", self.alpha, 0.0, MAX_ALPHA, f"a number from 0 to {MAX_ALPHA}")
        limits = f"a number above 0 and at most {MAX_TEMPERATURE:,.0f}"
        _check_number("temperature", self.temperature, _SMALLEST, MAX_TEMPERATURE, limits)
        _check_number("top_p", self.top_p, _SMALLEST, 1.0, "a number above 0 and at most 1")

    def _check_use(self, given: Iterable[str]) -> None:
        if self.search == "beam" and self.n_best > self.beam:
            raise ZooError(
                f"`n_best` is {self.n_best}, but a beam of {self.beam} finds only {self.beam}",
                hint=f"set the beam to {self.n_best}, or `n_best` to at most {self.beam}",
            )
        other = "beam" if self.search == "sample" else "sample"
        unused = ("beam",) if self.search == "sample" else ("temperature", "top_k", "top_p", "seed")
        for name in unused:
            if name in given:
                raise ZooError(
                    f"`{name}` has no effect when `search` is `{self.search}`",
                    hint=f"leave `{name}` out, or set `search` to `{other}`",
                )


def check_max_batch_tokens(max_batch_tokens: int | None) -> int:
    """Return the number of source tokens of a batch, or the default for None.

    Raises:
        ZooError: It is not a whole number within its range.
    """
    if max_batch_tokens is None:
        return DEFAULT_MAX_BATCH_TOKENS
    _check_integer("max_batch_tokens", max_batch_tokens)
    return max_batch_tokens


def _check_number(name: str, value: object, minimum: float, maximum: float, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
        raise ZooError(f"`{name}` is {_format_value(value)}: it must be {expected}")


def _check_integer(name: str, value: object) -> None:
    minimum, maximum = _INTEGER_RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        expected = f"a whole number from {minimum} to {maximum:,}"
        raise ZooError(f"`{name}` is {_format_value(value)}: it must be {expected}")


def _format_value(value: object) -> str:
    """Return the value in Python notation, shortened."""
    return quote(value)[1:-1] if isinstance(value, int) and not isinstance(value, bool) else repr(value)[:100]
