"""Table 1: complexity, sequential operations and path length of each type of layer (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log2

from compiler.complexity import SubLayer, complexity
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from zoo.paper.claims import Claim, holds, timing

Sizes = Mapping[str, int]
"""Values of Table 1's variables: n positions, d features, kernel width k and neighbourhood r."""
TOLERANCE = 0.15
"""Largest accepted difference between the exponent of a measured growth and the exponent of the formula."""
SIZES: Sizes = {"n": 64, "d": 64, "k": 4, "r": 8}
"""Sizes at which sequential operations and path lengths are counted."""
_LARGE: Sizes = {"n": 1024, "d": 512, "k": 16, "r": 64}


@dataclass(frozen=True)
class LayerType:
    """Row of Table 1: its formulas, as printed and as functions, and the kind of sub-layer that they describe."""

    key: str
    name: str
    complexity: str
    sequential: str
    path: str
    operations: Callable[[float, float, float, float], float]
    """Function of n, d, k and r that computes the expression inside the O of `complexity`."""
    sublayer: Callable[[int, int], SubLayer]
    """Function that returns the sub-layer for given k and r."""
    steps: Callable[[Sizes], int]
    """Function that returns the exact number of sequential operations of a causal layer."""
    furthest: Callable[[Sizes], int]
    """Function that returns the exact maximum path length of a causal layer."""
    projected: bool = False
    """Whether the layer also has linear projections at each position, which Table 1 does not count."""

    def formula(self, sizes: Sizes) -> float:
        """Return the number of operations by Table 1's formula: the value of the expression inside the O."""
        return self.operations(sizes["n"], sizes["d"], sizes["k"], sizes["r"])

    def flops(self, sizes: Sizes) -> int:
        """Count the FLOPs in the layer's graph, without those that Table 1 ignores. A multiply-add counts as two."""
        measured = complexity(self.sublayer(sizes["k"], sizes["r"]), 16, sizes["d"], causal=True)
        return (measured.mixing_flops if self.projected else measured.flops)(batch=1, source=sizes["n"])

    def counted(self, sizes: Sizes) -> tuple[int, int]:
        """Count the sequential operations and the maximum path length in the layer's graph. Return both numbers."""
        measured = complexity(self.sublayer(sizes["k"], sizes["r"]), sizes["n"], sizes["d"], causal=True)
        return measured.sequential_operations, measured.max_path_length


def _one(sizes: Sizes) -> int:
    return 1


def _all_positions(sizes: Sizes) -> int:
    return sizes["n"]


def _contiguous(sizes: Sizes) -> int:
    return ceil((sizes["n"] - 1) / (sizes["k"] - 1))


def _dilated(sizes: Sizes) -> int:
    """Return log_k(n), rounded up. It is computed with integers, to avoid rounding errors of logarithms."""
    layers = 0
    while sizes["k"] ** layers < sizes["n"]:
        layers += 1
    return layers


def _restricted(sizes: Sizes) -> int:
    return ceil((sizes["n"] - 1) / sizes["r"])


def _convolution(dilated: bool) -> Callable[[int, int], SubLayer]:
    return lambda k, r: Convolution(kind="convolution", kernel=k, dilated=dilated)


SELF_ATTENTION = LayerType(
    *("self-attention", "Self-attention", "O(n²·d)", "O(1)", "O(1)", lambda n, d, k, r: n * n * d),
    *(lambda k, r: SelfAttention(kind="self_attention"), _one, _one, True),
)
LSTM = LayerType(
    *("lstm", "Recurrent (LSTM)", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    *(lambda k, r: Lstm(kind="lstm"), _all_positions, _all_positions),
)
SSRU = LayerType(
    *("ssru", "Recurrent (SSRU)", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    *(lambda k, r: Ssru(kind="ssru"), _all_positions, _all_positions),
)
CONTIGUOUS = LayerType(
    *("convolution", "Convolutional (contiguous)", "O(k·n·d²)", "O(1)", "O(n/k)", lambda n, d, k, r: k * n * d * d),
    *(_convolution(False), _one, _contiguous),
)
DILATED = LayerType(
    *("dilated", "Convolutional (dilated)", "O(k·n·d²)", "O(1)", "O(log_k n)", lambda n, d, k, r: k * n * d * d),
    *(_convolution(True), _one, _dilated),
)
RESTRICTED = LayerType(
    *("restricted", "Self-attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)", lambda n, d, k, r: r * n * d),
    *(lambda k, r: RestrictedAttention(kind="restricted_attention", radius=r), _one, _restricted, True),
)
SEPARABLE = LayerType(
    *("separable", "Separable convolution", "O(k·n·d + n·d²)", "O(1)", "O(n/k)"),
    lambda n, d, k, r: k * n * d + n * d * d,
    *(lambda k, r: SeparableConvolution(kind="separable_convolution", kernel=k), _one, _contiguous),
)
LAYERS = (SELF_ATTENTION, LSTM, SSRU, CONTIGUOUS, DILATED, RESTRICTED, SEPARABLE)
_N, _D = 27, 512
"""Typical length of an English sentence of newstest2014 in tokens, and d_model of `base`."""


def claims() -> Iterator[Claim]:
    """Yield the claims of Table 1 and of section 4."""
    for layer in LAYERS:
        for key, says, decide in (
            ("operations", f"operations grow as {layer.complexity}", _grows(layer)),
            ("steps", f"{layer.sequential} sequential operations", _sequential(layer)),
            ("path", f"maximum path length {layer.path}", _path(layer)),
        ):
            yield Claim(f"table1.{layer.key}.{key}", "Table 1", f"{layer.name}: {says}", holds(decide))
        says = f"{layer.name}: time grows with the length as {layer.complexity}"
        yield Claim(f"table1.{layer.key}.time", "Table 1", says, timing(layer.key, TOLERANCE))
    yield from (Claim(f"table1.{key}", "4", says, holds(decide)) for key, says, decide in _SENTENCES)


def exponents(layer: LayerType) -> dict[str, tuple[float, float]]:
    """Return the exponents with which the cost of a layer grows with n, d, k and r.

    Returns:
        For each of these sizes, two exponents: that of the FLOPs in the layer's graph, and that of Table 1's formula.
        Both are measured by doubling the size.
    """
    result = {}
    for name in _LARGE:
        doubled = {**_LARGE, name: 2 * _LARGE[name]}
        graph = layer.flops(doubled) / layer.flops(_LARGE)
        result[name] = log2(graph), log2(layer.formula(doubled) / layer.formula(_LARGE))
    return result


def _grows(layer: LayerType) -> Callable[[], tuple[bool, str]]:
    def decide() -> tuple[bool, str]:
        pairs = exponents(layer)
        words = ", ".join(f"{name}^{graph:.2f}" for name, (graph, formula) in pairs.items() if graph or formula)
        return all(abs(graph - formula) <= TOLERANCE for graph, formula in pairs.values()), f"by the graph: {words}"

    return decide


def _sequential(layer: LayerType) -> Callable[[], tuple[bool, str]]:
    return lambda: _same(layer.counted(SIZES)[0], layer.steps(SIZES))


def _path(layer: LayerType) -> Callable[[], tuple[bool, str]]:
    return lambda: _same(layer.counted(SIZES)[1], layer.furthest(SIZES))


def _same(graph: int, formula: int) -> tuple[bool, str]:
    sizes = ", ".join(f"{name} = {SIZES[name]}" for name in ("n", "k", "r"))
    return graph == formula, f"{graph} by the graph, exactly {formula} expected, with {sizes}"


def _faster() -> tuple[bool, str]:
    attention, recurrent = (layer.operations(_N, _D, 3, 16) for layer in (SELF_ATTENTION, LSTM))
    return attention < recurrent, f"n = {_N}, d = {_D}: {attention:,.0f} and {recurrent:,.0f}, equal at n = {_D}"


def _k_times() -> tuple[bool, str]:
    sizes = {**_LARGE, "k": 3}
    ratio = CONTIGUOUS.formula(sizes) / LSTM.formula(sizes)
    return ratio == 3, f"k = 3: {ratio:g} times the operations of a recurrent layer"


def _separable() -> tuple[bool, str]:
    whole = SEPARABLE.operations(_N, _D, _N, 16)
    both = SELF_ATTENTION.operations(_N, _D, 3, 16) + _N * _D * _D
    return whole == both, f"k = n = {_N}, d = {_D}: {whole:,.0f} and {both:,.0f}"


_SENTENCES = (
    ("faster", "self-attention is faster than recurrence if n is smaller than d", _faster),
    ("k-times", "convolutions cost more than recurrence, by a factor of k", _k_times),
    ("separable", "with k = n a separable convolution costs as much as self-attention plus feed-forward", _separable),
)
