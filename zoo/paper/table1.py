"""Table 1: what a layer of each kind costs, how many of its operations wait for one another, how far signals go (4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zoo.paper.checks import holds
from zoo.paper.claim import Claim


@dataclass(frozen=True)
class Kind:
    """A row as printed, and the sizes in its formulas as functions of them: n positions, d features, k wide, r near."""

    key: str
    name: str
    complexity: str
    sequential: str
    path: str
    operations: Callable[[float, float, float, float], float]
    """Within the O of `complexity`."""


ROWS = (
    Kind("self-attention", "Self-attention", "O(n²·d)", "O(1)", "O(1)", lambda n, d, k, r: n * n * d),
    Kind("recurrent", "Recurrent", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    Kind("convolutional", "Convolutional", "O(k·n·d²)", "O(1)", "O(log_k n)", lambda n, d, k, r: k * n * d * d),
    Kind("restricted", "Self-attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)", lambda n, d, k, r: r * n * d),
)
SEPARABLE = Kind(
    *("separable", "Separable convolution (in the text)", "O(k·n·d + n·d²)", "O(1)", "O(log_k n)"),
    lambda n, d, k, r: k * n * d + n * d * d,
)
ALL = (*ROWS, SEPARABLE)
BY_KEY = {row.key: row for row in ALL}
_N, _D = 27, 512
"""An English sentence of newstest2014 and base's features."""


def claims() -> Iterator[Claim]:
    yield from (Claim(f"table1.{key}", "4", says, holds(decide)) for key, says, decide in _SENTENCES)


def _operations(key: str, n: float, k: float = 3, r: float = 16) -> float:
    return BY_KEY[key].operations(n, _D, k, r)


def _faster() -> tuple[bool, str]:
    attention, recurrent = _operations("self-attention", _N), _operations("recurrent", _N)
    return attention < recurrent, f"n = {_N}, d = {_D}: {attention:,.0f} and {recurrent:,.0f}, to equal n = {_D}"


def _convolution() -> tuple[bool, str]:
    ratio = _operations("convolutional", _N) / _operations("recurrent", _N)
    return ratio == 3, f"k = 3: {ratio:g} times as many as of a recurrent layer"


def _separable() -> tuple[bool, str]:
    whole = _operations("separable", _N, k=_N)
    both = _operations("self-attention", _N) + _N * _D * _D
    return whole == both, f"k = n = {_N}, d = {_D}: {whole:,.0f} and {both:,.0f}"


_SENTENCES = (
    ("faster", "self-attention is faster than recurrence where n is smaller than d", _faster),
    ("k-times", "convolutions cost more than recurrence, by a factor of k", _convolution),
    ("separable", "with k = n a separable convolution costs as self-attention and feed-forward together", _separable),
)
