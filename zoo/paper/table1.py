"""Table 1: what a layer of each kind costs, how many of its operations wait for one another, how far signals go (4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log2

from compiler.complexity import SubLayer, complexity
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from zoo.paper.checks import holds, timing
from zoo.paper.claim import Claim

Sizes = Mapping[str, int]
"""n positions, d features, k wide, r near."""
NEAR = 0.15
"""How far an exponent may be from the formula's."""
AT: Sizes = {"n": 64, "d": 64, "k": 4, "r": 8}
"""Where steps and paths are counted."""
_LARGE: Sizes = {"n": 1024, "d": 512, "k": 16, "r": 64}


@dataclass(frozen=True)
class Kind:
    """A row as printed, the formulas as functions of the sizes, and the sub-layer that is held against them."""

    key: str
    name: str
    complexity: str
    sequential: str
    path: str
    operations: Callable[[float, float, float, float], float]
    """Within the O of `complexity`, of n, d, k and r."""
    sublayer: Callable[[int, int], SubLayer]
    """Of k and r."""
    steps: Callable[[Sizes], int]
    """Exactly, of one that sees nothing after a position, as a decoder's."""
    furthest: Callable[[Sizes], int]
    projected: bool = False
    """Whether Table 1 leaves its projections out, which read no other position."""

    def formula(self, sizes: Sizes) -> float:
        """What `complexity` comes to."""
        return self.operations(sizes["n"], sizes["d"], sizes["k"], sizes["r"])

    def flops(self, sizes: Sizes) -> int:
        """By its graph, a multiply-add counted as two: what Table 1 counts."""
        found = complexity(self.sublayer(sizes["k"], sizes["r"]), 16, sizes["d"], causal=True)
        return (found.mixing_flops if self.projected else found.flops)(batch=1, source=sizes["n"])

    def counted(self, sizes: Sizes) -> tuple[int, int]:
        """By its graph: sequential steps, and the longest path."""
        found = complexity(self.sublayer(sizes["k"], sizes["r"]), sizes["n"], sizes["d"], causal=True)
        return found.sequential_operations, found.max_path_length


def _one(sizes: Sizes) -> int:
    return 1


def _all(sizes: Sizes) -> int:
    return sizes["n"]


def _contiguous(sizes: Sizes) -> int:
    return ceil((sizes["n"] - 1) / (sizes["k"] - 1))


def _dilated(sizes: Sizes) -> int:
    """The logarithm of n to the base k, rounded up, in whole numbers."""
    layers = 0
    while sizes["k"] ** layers < sizes["n"]:
        layers += 1
    return layers


def _restricted(sizes: Sizes) -> int:
    return ceil((sizes["n"] - 1) / sizes["r"])


def _convolution(dilated: bool) -> Callable[[int, int], SubLayer]:
    return lambda k, r: Convolution(kind="convolution", kernel=k, dilated=dilated)


SELF_ATTENTION = Kind(
    *("self-attention", "Self-attention", "O(n²·d)", "O(1)", "O(1)", lambda n, d, k, r: n * n * d),
    *(lambda k, r: SelfAttention(kind="self_attention"), _one, _one, True),
)
LSTM = Kind(
    *("lstm", "Recurrent (LSTM)", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    *(lambda k, r: Lstm(kind="lstm"), _all, _all),
)
SSRU = Kind(
    *("ssru", "Recurrent (SSRU)", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    *(lambda k, r: Ssru(kind="ssru"), _all, _all),
)
CONTIGUOUS = Kind(
    *("convolution", "Convolutional (contiguous)", "O(k·n·d²)", "O(1)", "O(n/k)", lambda n, d, k, r: k * n * d * d),
    *(_convolution(False), _one, _contiguous),
)
DILATED = Kind(
    *("dilated", "Convolutional (dilated)", "O(k·n·d²)", "O(1)", "O(log_k n)", lambda n, d, k, r: k * n * d * d),
    *(_convolution(True), _one, _dilated),
)
RESTRICTED = Kind(
    *("restricted", "Self-attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)", lambda n, d, k, r: r * n * d),
    *(lambda k, r: RestrictedAttention(kind="restricted_attention", radius=r), _one, _restricted, True),
)
SEPARABLE = Kind(
    *("separable", "Separable convolution", "O(k·n·d + n·d²)", "O(1)", "O(n/k)"),
    lambda n, d, k, r: k * n * d + n * d * d,
    *(lambda k, r: SeparableConvolution(kind="separable_convolution", kernel=k), _one, _contiguous),
)
ALL = (SELF_ATTENTION, LSTM, SSRU, CONTIGUOUS, DILATED, RESTRICTED, SEPARABLE)
_N, _D = 27, 512
"""An English sentence of newstest2014 and base's features."""


def claims() -> Iterator[Claim]:
    for kind in ALL:
        for key, says, decide in (
            ("operations", f"operations grow as {kind.complexity}", _grows(kind)),
            ("steps", f"{kind.sequential} sequential operations", _waits(kind)),
            ("path", f"a longest path of {kind.path}", _reaches(kind)),
        ):
            yield Claim(f"table1.{kind.key}.{key}", "Table 1", f"{kind.name}: {says}", holds(decide))
        says = f"{kind.name}: time over length, as {kind.complexity}"
        yield Claim(f"table1.{kind.key}.time", "Table 1", says, timing(kind.key, NEAR))
    yield from (Claim(f"table1.{key}", "4", says, holds(decide)) for key, says, decide in _SENTENCES)


def exponents(kind: Kind) -> dict[str, tuple[float, float]]:
    """Of each size: the one by the graph, and the formula's, where it is doubled."""
    found = {}
    for name in _LARGE:
        twice = {**_LARGE, name: 2 * _LARGE[name]}
        graph, formula = kind.flops(twice) / kind.flops(_LARGE), kind.formula(twice) / kind.formula(_LARGE)
        found[name] = log2(graph), log2(formula)
    return found


def _grows(kind: Kind) -> Callable[[], tuple[bool, str]]:
    def decide() -> tuple[bool, str]:
        both = exponents(kind)
        told = ", ".join(f"{name}^{graph:.2f}" for name, (graph, formula) in both.items() if graph or formula)
        return all(abs(graph - formula) <= NEAR for graph, formula in both.values()), f"by the graph: {told}"

    return decide


def _waits(kind: Kind) -> Callable[[], tuple[bool, str]]:
    return lambda: _same(kind.counted(AT)[0], kind.steps(AT))


def _reaches(kind: Kind) -> Callable[[], tuple[bool, str]]:
    return lambda: _same(kind.counted(AT)[1], kind.furthest(AT))


def _same(graph: int, formula: int) -> tuple[bool, str]:
    sizes = ", ".join(f"{name} = {AT[name]}" for name in ("n", "k", "r"))
    return graph == formula, f"{graph} by the graph, {formula} by the formula, at {sizes}"


def _faster() -> tuple[bool, str]:
    attention, recurrent = (kind.operations(_N, _D, 3, 16) for kind in (SELF_ATTENTION, LSTM))
    return attention < recurrent, f"n = {_N}, d = {_D}: {attention:,.0f} and {recurrent:,.0f}, to equal n = {_D}"


def _k_times() -> tuple[bool, str]:
    sizes = {**_LARGE, "k": 3}
    ratio = CONTIGUOUS.formula(sizes) / LSTM.formula(sizes)
    return ratio == 3, f"k = 3: {ratio:g} times as many as of a recurrent layer"


def _separable() -> tuple[bool, str]:
    whole = SEPARABLE.operations(_N, _D, _N, 16)
    both = SELF_ATTENTION.operations(_N, _D, 3, 16) + _N * _D * _D
    return whole == both, f"k = n = {_N}, d = {_D}: {whole:,.0f} and {both:,.0f}"


_SENTENCES = (
    ("faster", "self-attention is faster than recurrence where n is smaller than d", _faster),
    ("k-times", "convolutions cost more than recurrence, by a factor of k", _k_times),
    ("separable", "with k = n a separable convolution costs as self-attention and feed-forward together", _separable),
)
