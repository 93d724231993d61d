"""Symbolic sizes: polynomials with integer coefficients in `batch`, `source`, `target` and the like.

A graph is lowered once and costed for any batch, so shapes, FLOPs and bytes are polynomials rather than numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import mul

Monomial = tuple[str, ...]
Polynomial = tuple[tuple[Monomial, int], ...]
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Size:
    """A polynomial. `terms` maps each monomial (its symbols, sorted) to a coefficient that is not zero."""

    terms: Polynomial = ()

    @staticmethod
    def of(value: int | Size) -> Size:
        return value if isinstance(value, Size) else _number(value)

    @staticmethod
    def symbol(name: str) -> Size:
        return Size._from({(name,): 1})

    @staticmethod
    def _from(terms: Mapping[Monomial, int]) -> Size:
        return Size(tuple(sorted((m, c) for m, c in terms.items() if c)))

    def __add__(self, other: int | Size) -> Size:
        return _sum(self.terms, Size.of(other).terms)

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: int | Size) -> Size:
        return self + -Size.of(other)

    def __mul__(self, other: int | Size) -> Size:
        return _product(self.terms, Size.of(other).terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __call__(self, **values: int) -> int:
        """The number it is at these sizes. Raises KeyError for a symbol without a value."""
        return sum(c * reduce(mul, (_value(s, values) for s in m), 1) for m, c in self.terms)

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(
            name for m, _ in self.terms for s in m for name in (s.of.symbols if isinstance(s, _Up) else (s,))
        )

    @property
    def constant(self) -> int:
        """The number it is whatever the symbols. Raises ValueError where it depends on one."""
        match self.terms:
            case ():
                return 0
            case (((), number),):
                return number
        raise ValueError(f"{self} is not a constant")

    def __str__(self) -> str:
        text = " + ".join(_term(m, c) for m, c in sorted(self.terms, key=lambda t: (-len(t[0]), t[0])))
        return text.replace("+ -", "- ") or "0"


_remembered = lru_cache(maxsize=4096)
"""A graph has a few dozen sizes, which its passes, its checks and its costs work out thousands of times."""


@_remembered
def _number(value: int) -> Size:
    return Size._from({(): value})


@_remembered
def _sum(one: Polynomial, other: Polynomial) -> Size:
    total: Counter[Monomial] = Counter(dict(one))
    for monomial, coefficient in other:
        total[monomial] += coefficient
    return Size._from(total)


@_remembered
def _product(one: Polynomial, other: Polynomial) -> Size:
    total: Counter[Monomial] = Counter()
    for a, x in one:
        for b, y in other:
            total[tuple(sorted(a + b))] += x * y
    return Size._from(total)


class _Up(str):
    """A symbol for another size, rounded up to a multiple: what is computed in blocks counts by whole ones."""

    of: Size
    multiple: int


def _value(symbol: str, values: Mapping[str, int]) -> int:
    if isinstance(symbol, _Up):
        return -(-symbol.of(**values) // symbol.multiple) * symbol.multiple
    return values[symbol]


def rounded_up(size: Size, multiple: int) -> Size:
    """The least multiple that is not below the size, whatever the size is."""
    if not size.symbols:
        return Size.of(-(-size.constant // multiple) * multiple)
    symbol = _Up(f"⌈{size}⌉{str(multiple).translate(_SUBSCRIPT)}")
    symbol.of, symbol.multiple = size, multiple
    return Size.symbol(symbol)


def product(sizes: tuple[Size, ...]) -> Size:
    return reduce(mul, sizes, Size.of(1))


def _term(monomial: Monomial, coefficient: int) -> str:
    powers = [s + (str(n).translate(_SUPERSCRIPT) if n > 1 else "") for s, n in Counter(monomial).items()]
    number = [] if abs(coefficient) == 1 and powers else [f"{abs(coefficient):,}"]
    return ("-" if coefficient < 0 else "") + "·".join(number + powers)


ONE = Size.of(1)
BATCH, SOURCE, TARGET = (Size.symbol(name) for name in ("batch", "source", "target"))
BEAMS, READ, NEW, ROOM = (Size.symbol(name) for name in ("beams", "read", "new", "room"))
"""Of a decoder's step: the hypotheses of a sentence, the positions that were read before and those that are new, and
the positions for which caches are made where they do not grow."""
