"""Symbolic sizes: polynomials with integer coefficients in `batch`, `source`, `target` and other symbols.

Shapes, FLOPs and bytes are symbolic, so that one graph gives the costs of any batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import mul
from typing import Any, Self

Monomial = tuple[str, ...]
Polynomial = tuple[tuple[Monomial, int], ...]
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Size:
    """Symbolic size: a polynomial. `terms` pairs each monomial (a tuple of sorted symbols) with its coefficient."""

    terms: Polynomial = ()

    @staticmethod
    def of(value: int | Size) -> Size:
        """Convert a number to a size. A size is returned unchanged."""
        return value if isinstance(value, Size) else _number(value)

    @staticmethod
    def symbol(name: str) -> Size:
        """Return the size that consists of one symbol, such as `batch`."""
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
        """Evaluate the polynomial, given a value for each symbol.

        Raises:
            KeyError: A symbol has no value.
        """
        return sum(c * reduce(mul, (_value(s, values) for s in m), 1) for m, c in self.terms)

    def divided(self, divisor: int) -> Size:
        """Return this size divided by a number. Raise ValueError if the number does not divide all coefficients."""
        if any(coefficient % divisor for _, coefficient in self.terms):
            raise ValueError(f"{self} is not a multiple of {divisor}")
        return Size(tuple((monomial, coefficient // divisor) for monomial, coefficient in self.terms))

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the size depends on."""
        return frozenset(
            name for m, _ in self.terms for s in m for name in (s.size.symbols if isinstance(s, _RoundedUp) else (s,))
        )

    @property
    def constant(self) -> int:
        """The value of a size without symbols. Raises ValueError if the size has symbols."""
        match self.terms:
            case ():
                return 0
            case (((), number),):
                return number
        raise ValueError(f"{self} is not a constant")

    def __str__(self) -> str:
        text = " + ".join(_format_term(m, c) for m, c in sorted(self.terms, key=lambda t: (-len(t[0]), t[0])))
        return text.replace("+ -", "- ") or "0"


_cached = lru_cache(maxsize=4096)
"""Decorator that caches arithmetic on sizes. A graph has a few dozen sizes, but thousands of operations on them."""


@_cached
def _number(value: int) -> Size:
    return Size._from({(): value})


@_cached
def _sum(first: Polynomial, second: Polynomial) -> Size:
    total: Counter[Monomial] = Counter(dict(first))
    for monomial, coefficient in second:
        total[monomial] += coefficient
    return Size._from(total)


@_cached
def _product(first: Polynomial, second: Polynomial) -> Size:
    total: Counter[Monomial] = Counter()
    for a, x in first:
        for b, y in second:
            total[tuple(sorted(a + b))] += x * y
    return Size._from(total)


class _RoundedUp(str):
    """Symbol for `size`, rounded up to a multiple of `multiple`."""

    size: Size
    multiple: int

    def __new__(cls, size: Size, multiple: int) -> Self:
        symbol = super().__new__(cls, f"⌈{size}⌉{str(multiple).translate(_SUBSCRIPT)}")
        symbol.size, symbol.multiple = size, multiple
        return symbol

    def __reduce__(self) -> tuple[Any, ...]:  # for copies and pickles
        return _RoundedUp, (self.size, self.multiple)


def _value(symbol: str, values: Mapping[str, int]) -> int:
    if isinstance(symbol, _RoundedUp):
        return -(-symbol.size(**values) // symbol.multiple) * symbol.multiple
    return values[symbol]


def rounded_up(size: Size, multiple: int) -> Size:
    """Round a size up to a multiple of `multiple`, such as a block size."""
    if not size.symbols:
        return Size.of(-(-size.constant // multiple) * multiple)
    return Size.symbol(_RoundedUp(size, multiple))


def product(sizes: tuple[Size, ...]) -> Size:
    """Return the product of sizes, or 1 if there are no sizes."""
    return reduce(mul, sizes, Size.of(1))


def _format_term(monomial: Monomial, coefficient: int) -> str:
    powers = [s + (str(n).translate(_SUPERSCRIPT) if n > 1 else "") for s, n in Counter(monomial).items()]
    number = [] if abs(coefficient) == 1 and powers else [f"{abs(coefficient):,}"]
    return ("-" if coefficient < 0 else "") + "·".join(number + powers)


ONE = Size.of(1)
BATCH, SOURCE, TARGET = (Size.symbol(name) for name in ("batch", "source", "target"))
BEAMS, PAST, NEW, CAPACITY = (Size.symbol(name) for name in ("beams", "past", "new", "capacity"))
"""Sizes of a decoder step: hypotheses per sentence, earlier positions, new positions, and entries of a cache."""
