"""Derivations for the claims of Table 1 and section 4: complexity, sequential operations and path length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log2

from compiler.costs import SubLayer, complexity
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru

Sizes = Mapping[str, int]
"""Values of Table 1's variables: n positions, d features, kernel width k and neighbourhood size r."""
Formula = Callable[..., float]
"""Function of n, d, k and r."""
SIZES: Sizes = {"n": 64, "d": 64, "k": 4, "r": 8}
"""Values of the variables for counting sequential operations and path lengths."""
TOLERANCE = 0.15
"""Maximum difference between the exponent of the growth in the graph and the exponent in the formula."""
_LARGE: Sizes = {"n": 1024, "d": 512, "k": 16, "r": 64}


def _dilated(n: int, d: int, k: int, r: int) -> int:
    """Return the maximum path length of a dilated convolution: log_k(n), rounded up.

    The computation uses integers, to avoid rounding errors in logarithms.
    """
    layers = 0
    while k**layers < n:
        layers += 1
    return layers


@dataclass(frozen=True)
class LayerType:
    """Row of Table 1: its formulas as functions, and the kind of sub-layer that the formulas describe."""

    operations: Formula
    """Expression inside the O of the complexity."""
    sublayer: Callable[[int, int], SubLayer]
    """Function that returns the sub-layer for given k and r."""
    steps: Formula = lambda n, d, k, r: 1
    """Exact number of sequential operations in a causal layer."""
    path: Formula = lambda n, d, k, r: 1
    """Exact maximum path length of a causal layer."""
    projected: bool = False
    """Whether the layer also has linear projections at each position, which Table 1 does not count."""

    def flops(self, sizes: Sizes) -> int:
        """Count the FLOPs in the layer's graph, except FLOPs that Table 1 ignores. A multiply-add counts as two."""
        measured = complexity(self.sublayer(sizes["k"], sizes["r"]), 16, sizes["d"], causal=True)
        return (measured.mixing_flops if self.projected else measured.flops)(batch=1, source=sizes["n"])

    def counted(self, sizes: Sizes) -> tuple[int, int]:
        """Return the number of sequential operations and the maximum path length in the layer's graph."""
        measured = complexity(self.sublayer(sizes["k"], sizes["r"]), sizes["n"], sizes["d"], causal=True)
        return measured.sequential_operations, measured.max_path_length


def _recurrent(sublayer: SubLayer) -> LayerType:
    def positions(n: int, d: int, k: int, r: int) -> int:
        return n

    return LayerType(lambda n, d, k, r: n * d * d, lambda k, r: sublayer, steps=positions, path=positions)


def _convolution(path: Formula, *, dilated: bool) -> LayerType:
    return LayerType(
        lambda n, d, k, r: k * n * d * d,
        lambda k, r: Convolution(kind="convolution", kernel=k, dilated=dilated),
        path=path,
    )


LAYERS: Mapping[str, LayerType] = {
    "self-attention": LayerType(
        lambda n, d, k, r: n * n * d, lambda k, r: SelfAttention(kind="self_attention"), projected=True
    ),
    "lstm": _recurrent(Lstm(kind="lstm")),
    "ssru": _recurrent(Ssru(kind="ssru")),
    "convolution": _convolution(lambda n, d, k, r: ceil((n - 1) / (k - 1)), dilated=False),
    "dilated": _convolution(_dilated, dilated=True),
    "restricted": LayerType(
        lambda n, d, k, r: r * n * d,
        lambda k, r: RestrictedAttention(kind="restricted_attention", radius=r),
        path=lambda n, d, k, r: ceil((n - 1) / r),
        projected=True,
    ),
    "separable": LayerType(
        lambda n, d, k, r: k * n * d + n * d * d,
        lambda k, r: SeparableConvolution(kind="separable_convolution", kernel=k),
        path=lambda n, d, k, r: ceil((n - 1) / (k - 1)),
    ),
}
"""Types of layers in Table 1, keyed by the names of their rows in `claims.yaml`."""
_N, _D = 27, 512
"""Typical length of an English sentence in newstest2014, in tokens, and d_model of `base`."""


def exponents(layer: LayerType) -> dict[str, tuple[float, float]]:
    """Measure the exponents by which the cost of a layer grows with n, d, k and r.

    Returns:
        Two exponents for each of n, d, k and r: for the FLOPs in the layer's graph, and for Table 1's formula.
        Each exponent is measured by doubling the variable.
    """
    result = {}
    for name in _LARGE:
        doubled = {**_LARGE, name: 2 * _LARGE[name]}
        graph = layer.flops(doubled) / layer.flops(_LARGE)
        result[name] = log2(graph), log2(layer.operations(**doubled) / layer.operations(**_LARGE))
    return result


def operations(layer: str) -> tuple[bool, str]:
    """Check whether the FLOPs in a layer's graph grow as Table 1's formula predicts.

    Return the result and an explanation.
    """
    pairs = exponents(LAYERS[layer])
    words = ", ".join(f"{name}^{graph:.2f}" for name, (graph, formula) in pairs.items() if graph or formula)
    return all(abs(graph - formula) <= TOLERANCE for graph, formula in pairs.values()), f"in the graph: {words}"


def steps(layer: str) -> tuple[bool, str]:
    """Check whether a layer's graph has as many sequential operations as Table 1's formula predicts.

    Return the result and an explanation.
    """
    return _same(LAYERS[layer].counted(SIZES)[0], LAYERS[layer].steps(**SIZES))


def path(layer: str) -> tuple[bool, str]:
    """Check whether a layer's graph has the maximum path length that Table 1's formula predicts.

    Return the result and an explanation.
    """
    return _same(LAYERS[layer].counted(SIZES)[1], LAYERS[layer].path(**SIZES))


def _same(graph: int, formula: float) -> tuple[bool, str]:
    sizes = ", ".join(f"{name} = {SIZES[name]}" for name in ("n", "k", "r"))
    return graph == formula, f"{graph} in the graph, exactly {formula} expected, with {sizes}"


def faster_than_recurrence() -> tuple[bool, str]:
    """Check whether self-attention needs fewer operations than a recurrent layer for a typical sentence length.

    Return the result and an explanation.
    """
    attention, recurrent = (LAYERS[name].operations(_N, _D, 3, 16) for name in ("self-attention", "lstm"))
    return attention < recurrent, f"n = {_N}, d = {_D}: {attention:,.0f} and {recurrent:,.0f}, equal at n = {_D}"


def convolution_cost() -> tuple[bool, str]:
    """Check whether a convolution with k = 3 needs exactly three times as many operations as a recurrent layer.

    Return the result and an explanation.
    """
    sizes = {**_LARGE, "k": 3}
    ratio = LAYERS["convolution"].operations(**sizes) / LAYERS["lstm"].operations(**sizes)
    return ratio == 3, f"k = 3: {ratio:g} times the operations of a recurrent layer"


def separable_cost() -> tuple[bool, str]:
    """Check whether a separable convolution with k = n costs as much as self-attention plus a position-wise layer.

    Return the result and an explanation.
    """
    whole = LAYERS["separable"].operations(_N, _D, _N, 16)
    both = LAYERS["self-attention"].operations(_N, _D, 3, 16) + _N * _D * _D
    return whole == both, f"k = n = {_N}, d = {_D}: {whole:,.0f} and {both:,.0f}"
