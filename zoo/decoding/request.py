"""How a translation is wanted: what the caller leaves open, the spec decides."""

from dataclasses import dataclass
from typing import Self

from specs import Spec, ZooError
from zoo.decoding.beam_search import check

TOKENS = 4096
"""Source tokens of one batch, EOS and padding counted, where the caller does not say."""


@dataclass(frozen=True, slots=True)
class Request:
    """A beam, a length penalty, how many hypotheses of each sentence, and the tokens of a batch."""

    beam: int
    alpha: float
    n_best: int
    tokens: int

    @classmethod
    def of(
        cls,
        spec: Spec,
        *,
        beam: int | None = None,
        alpha: float | None = None,
        n_best: int | None = None,
        tokens: int | None = None,
    ) -> Self:
        """None is what `decoding` of the spec says. Raises ZooError for a value out of range."""
        request = cls(
            beam=spec.decoding.beam if beam is None else beam,
            alpha=spec.decoding.alpha if alpha is None else alpha,
            n_best=1 if n_best is None else n_best,
            tokens=budget(tokens),
        )
        check(request.beam, request.alpha, request.n_best)
        return request


def budget(tokens: int | None) -> int:
    """The tokens of a batch. Raises ZooError unless they are a whole number of at least 1."""
    if tokens is None:
        return TOKENS
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ZooError(f"`tokens` is {tokens!r}: the budget of a batch is a whole number of at least 1")
    return tokens
