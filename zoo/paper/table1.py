"""Derivations for the claims of Table 1 and section 4: complexity, sequential operations, path length and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from statistics import linear_regression

import torch
from torch import Tensor

import specs
from compiler import EmittedProgram, Purpose, emit
from compiler.backends.eager import Functions
from compiler.costs import END, LENGTH, START, SubLayer, complexity, sublayer_stack
from compiler.graph import origins
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from zoo.paper.runs import TOLERANCE, LayerTiming
from zoo.system.processors import repeat

Sizes = Mapping[str, int]
"""Values of Table 1's variables: n positions, d features, kernel width k and neighbourhood size r."""
Formula = Callable[..., float]
"""Function of n, d, k and r."""
SIZES: Sizes = {"n": 64, "d": 64, "k": 4, "r": 8}
"""Values of the variables for counting sequential operations and path lengths."""
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
"""Typical length of an English sentence of newstest2014 in tokens, and d_model of `base`."""


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
    """Check whether the FLOPs in a layer's graph grow as Table 1's formula predicts."""
    pairs = exponents(LAYERS[layer])
    words = ", ".join(f"{name}^{graph:.2f}" for name, (graph, formula) in pairs.items() if graph or formula)
    return all(abs(graph - formula) <= TOLERANCE for graph, formula in pairs.values()), f"in the graph: {words}"


def steps(layer: str) -> tuple[bool, str]:
    """Check whether a layer's graph has as many sequential operations as Table 1's formula predicts."""
    return _same(LAYERS[layer].counted(SIZES)[0], LAYERS[layer].steps(**SIZES))


def path(layer: str) -> tuple[bool, str]:
    """Check whether a layer's graph has the maximum path length that Table 1's formula predicts."""
    return _same(LAYERS[layer].counted(SIZES)[1], LAYERS[layer].path(**SIZES))


def _same(graph: int, formula: float) -> tuple[bool, str]:
    sizes = ", ".join(f"{name} = {SIZES[name]}" for name in ("n", "k", "r"))
    return graph == formula, f"{graph} in the graph, exactly {formula} expected, with {sizes}"


def faster_than_recurrence() -> tuple[bool, str]:
    """Check whether self-attention needs fewer operations than a recurrent layer for a typical sentence length."""
    attention, recurrent = (LAYERS[name].operations(_N, _D, 3, 16) for name in ("self-attention", "lstm"))
    return attention < recurrent, f"n = {_N}, d = {_D}: {attention:,.0f} and {recurrent:,.0f}, equal at n = {_D}"


def convolution_cost() -> tuple[bool, str]:
    """Check whether a convolution with k = 3 needs exactly three times as many operations as a recurrent layer."""
    sizes = {**_LARGE, "k": 3}
    ratio = LAYERS["convolution"].operations(**sizes) / LAYERS["lstm"].operations(**sizes)
    return ratio == 3, f"k = 3: {ratio:g} times the operations of a recurrent layer"


def separable_cost() -> tuple[bool, str]:
    """Check whether a separable convolution with k = n costs as much as self-attention plus a position-wise layer."""
    whole = LAYERS["separable"].operations(_N, _D, _N, 16)
    both = LAYERS["self-attention"].operations(_N, _D, 3, 16) + _N * _D * _D
    return whole == both, f"k = n = {_N}, d = {_D}: {whole:,.0f} and {both:,.0f}"


LENGTHS, D_MODEL = (2048, 4096, 8192, 16_384, 32_768), 128
"""Sequence lengths, and the number of features. At these sizes, the operations that Table 1 counts dominate the time.
There are enough lengths that a single outlier hardly changes the exponent."""
MAX_SECONDS = 0.25
"""Maximum time of a layer in seconds. If a layer takes longer at one length, greater lengths are skipped, because
attention would need gigabytes of memory."""
MIN_SECONDS = 0.05
"""Minimum time in seconds for measuring each length in each round, after a first run that is not counted."""


def time_layers(lengths: Sequence[int] = LENGTHS) -> Iterator[LayerTiming]:
    """Time the forward pass of each layer in Table 1, and yield the results. This takes half a minute.

    The layers are causal, as in a decoder.
    """
    for key, layer in LAYERS.items():
        sublayer = layer.sublayer(SIZES["k"], SIZES["r"])
        seconds = time_sublayer(sublayer, lengths, D_MODEL, causal=True, max_seconds=MAX_SECONDS)
        formula = {n: layer.operations(n, D_MODEL, SIZES["k"], SIZES["r"]) for n in seconds}
        yield LayerTiming(key, seconds, growth_exponent(seconds), growth_exponent(formula))


def time_sublayer(
    sublayer: SubLayer,
    lengths: Sequence[int],
    d: int,
    *,
    heads: int = 1,
    causal: bool = False,
    backward: bool = False,
    rounds: int = 5,
    max_seconds: float = math.inf,
) -> dict[int, float]:
    """Time one sub-layer with its residual connection at several sequence lengths, using all PyTorch CPU threads.

    Each round times all lengths, so a temporary slowdown of the machine affects all lengths.

    Args:
        sublayer: The sub-layer.
        lengths: The sequence lengths, in increasing order.
        d: The number of features.
        heads: The number of attention heads.
        causal: Whether a position depends only on itself and earlier positions.
        backward: Whether to include the backward pass.
        rounds: The number of rounds.
        max_seconds: If a length takes longer than this, skip all greater lengths. The first two lengths are always
            timed.

    Returns:
        The shortest time, in seconds, for each length that was not skipped. Other programs affect it the least.
    """
    program, times = _program(sublayer, d, heads, causal), dict.fromkeys(lengths, math.inf)
    for _ in range(rounds):
        for n in list(times):
            if n not in times:
                continue
            inputs = {START: torch.randn(1, n, d, requires_grad=backward), LENGTH: torch.tensor([n])}
            run = partial(_backward if backward else _forward, program, inputs)
            run()
            times[n] = min(times[n], *repeat(run, MIN_SECONDS))
            if times[n] > max_seconds:  # an exponent needs two lengths
                times = {m: seconds for m, seconds in times.items() if m <= n or m in lengths[:2]}
    return times


def growth_exponent(points: Mapping[int, float]) -> float:
    """Fit y = a · x^b to points (x -> y) by least squares on the logarithms, and return the exponent b.

    There must be at least two points. All x and y must be positive.
    """
    return linear_regression(list(map(math.log, points)), list(map(math.log, points.values()))).slope


def _program(sublayer: SubLayer, d: int, heads: int, causal: bool) -> EmittedProgram:
    """Compile a model that consists of one sub-layer, with normally distributed random weights."""
    graph = sublayer_stack(sublayer, d, 1, heads=heads, causal=causal)
    generator = torch.Generator().manual_seed(0)
    parameters = {
        name: torch.nn.Parameter(torch.empty(origin.shape).normal_(0.0, d**-0.5, generator=generator))
        for name, origin in origins([graph]).items()
    }
    return EmittedProgram(specs.load("base"), {Purpose.ENCODE: graph}, Functions(emit([graph])), parameters)


def _forward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        program.run(Purpose.ENCODE, **inputs)


def _backward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    program.zero_grad()
    inputs[START].grad = None
    torch.autograd.backward(program.run(Purpose.ENCODE, **inputs)[END].sum())
