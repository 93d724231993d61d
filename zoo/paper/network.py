"""Derivations for the claims of section 3 about the network, from the graph that the compiler builds from `base`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import atan2, comb, cos, exp, isclose, sin, sqrt

import specs
from compiler import Graph, Purpose, cost, lower
from compiler.costs import layers
from compiler.lowering.positions import sinusoidal_encoding
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout
from compiler.operations.projection import Embedding, Linear
from compiler.operations.views import SplitHeads
from zoo.planning.plan import LENGTH


@cache
def graph(spec: str) -> Graph:
    """Return the training graph of a spec, given its short name, before any compiler pass."""
    return lower(specs.load(spec), Purpose.TRAIN)


def layer_count(side: str) -> tuple[int | None, str]:
    """Count the identical layers in the encoder or the decoder."""
    names = _layers(side)
    counts = {cost(graph("base"), name).parameters for name in names}
    words = f"{len(names)} layers in the graph, with {' and '.join(f'{n:,}' for n in sorted(counts))} parameters each"
    return len(names) if len(counts) == 1 else None, words


def sublayer_count(side: str) -> tuple[int | None, str]:
    """Count the sub-layers in each layer of the encoder or the decoder, by their norms."""
    norms = Counter(n.layer for n in graph("base").nodes if n.operation.is_norm)
    counts = {norms[name] for name in _layers(side)}
    return _single(counts), f"residuals with a norm in each layer of the graph: {_listed(counts)}"


def _layers(side: str) -> list[str]:
    return [name for name in layers(graph("base")) if name.startswith(f"{side}.")]


def width() -> tuple[int | None, str]:
    """Return the output dimension of all embeddings and sub-layers."""
    nodes = [n for n in graph("base").nodes if (n.operation.is_norm or isinstance(n.operation, Embedding))]
    widths = {n.type.shape[-1].constant for n in nodes}
    return _single(widths), f"dimension of all {len(nodes)} embeddings and sub-layers: {_listed(widths)}"


def heads() -> tuple[int | None, str]:
    """Return the number of heads that queries, keys and values are split into."""
    heads = {n.operation.heads for n in graph("base").nodes if isinstance(n.operation, SplitHeads)}
    return _single(heads), f"heads that queries, keys and values are split into: {_listed(heads)}"


def key_width() -> tuple[int | None, str]:
    """Return the dimension of queries, keys and values in each head."""
    types = graph("base").types
    attentions = [n for n in graph("base").nodes if isinstance(n.operation, Attention)]
    widths = {types[name].shape[3].constant for n in attentions for name in n.inputs[:3]}
    words = f"dimension of queries, keys and values in all {len(attentions)} attentions: {_listed(widths)}"
    return _single(widths), words


def _single(values: Set[int]) -> int | None:
    """Return the only element of a set, or None if it has several."""
    return next(iter(values)) if len(values) == 1 else None


def inner_width() -> tuple[int | None, str]:
    """Return the largest output dimension of all linear layers."""
    nodes = [n for n in graph("base").nodes if isinstance(n.operation, Linear)]
    widest = max(n.type.shape[-1].constant for n in nodes)
    return widest, f"the largest output dimension of {len(nodes)} linear layers in the graph"


def attention_scale() -> tuple[bool, str]:
    """Decide whether all attentions scale their scores by 1 / sqrt(d_k)."""
    scales = {n.operation.scale for n in graph("base").nodes if isinstance(n.operation, Attention)}
    return scales == {64**-0.5}, f"all attentions of the graph: {_listed(scales)}"


def embedding_scale() -> tuple[bool, str]:
    """Decide whether all embeddings are multiplied by sqrt(d_model)."""
    scales = {n.operation.scale for n in graph("base").nodes if isinstance(n.operation, Embedding)}
    return scales == {sqrt(512)}, f"both embeddings of the graph: {_listed(scales)}"


def shared_matrix() -> tuple[bool, str]:
    """Decide whether embeddings and output projection share one matrix."""
    tokens = specs.load("base").vocabulary.size
    tables = {name for name, p in graph("base").parameters.items() if p.shape[0].constant == tokens}
    uses = Counter(p for n in graph("base").nodes for p in n.parameters)
    untied = lower(specs.load("base", ["architecture.tied_embeddings=none"]), Purpose.TRAIN)
    more = cost(untied).parameters - cost(graph("base")).parameters
    words = f"one table with {max(uses[p] for p in tables)} uses; untied, there would be {more:,} more parameters"
    return len(tables) == 1, words


def multi_head_cost() -> tuple[bool, str]:
    """Compare the FLOPs of a model with eight heads and of a model with one head of the same total dimension.

    Returns:
        Whether the FLOPs differ by at most 5 %, and a text with both numbers.
    """
    sizes = {"batch": 1, "source": LENGTH, "target": LENGTH}
    many, one = (cost(graph(name)).flops(**sizes) for name in ("table3/base", "table3/a-h1"))
    return isclose(many, one, rel_tol=0.05), f"{many:,} and {one:,} FLOPs per pair of {LENGTH} tokens, forward"


def dot_product_variance() -> tuple[float, str]:
    """Compute the variance of q · k for vectors of 64 independent random signs, which have mean 0 and variance 1.

    Returns:
        The variance, and a text that describes its derivation.
    """
    d_k = 64
    values = {2 * right - d_k: Fraction(comb(d_k, right), 2**d_k) for right in range(d_k + 1)}
    variance = sum(value**2 * chance for value, chance in values.items())
    words = f"from all {len(values)} values that q · k can have if q and k consist of random signs: {variance}"
    return float(variance), words


def softmax_gradient() -> tuple[bool, str]:
    """Compare the mean gradient of the softmax over two keys with random scores: for small, large and scaled d_k.

    Returns:
        Whether a large d_k without scaling gives less than a tenth of the other gradients, and a text with all three.
    """

    def slope(deviation: float) -> float:
        points = [number / 100 for number in range(-800, 801)]
        densities = [exp(-(point**2) / 2) for point in points]
        weights = [1 / (1 + exp(-deviation * point)) for point in points]
        return sum(d * w * (1 - w) for d, w in zip(densities, weights, strict=True)) / sum(densities)

    # The variance of a score is 1 with scaling, and d_k without. The difference of two scores has twice that variance.
    few, many, scaled = slope(sqrt(2 * 2)), slope(sqrt(2 * 2048)), slope(sqrt(2))
    words = f"mean gradient of the softmax over two keys: {few:.3f} for d_k = 2, {many:.4f} for d_k = 2,048"
    return many < few / 10 and many < scaled / 10, f"{words}; scaled, {scaled:.3f} for any d_k"


def shortest_wave() -> tuple[bool, str]:
    """Decide whether the shortest wavelength of the sinusoids is 2π."""
    wave = _wavelengths()[0]
    return isclose(wave, 1), f"first pair of the program's sinusoids: {wave:g} x 2π"


def longest_wave() -> tuple[bool, str]:
    """Decide whether the longest wavelength of the sinusoids is 10000 · 2π."""
    wave = _wavelengths()[-1]
    words = f"last pair of the formula, 2i = {_D_MODEL - 2} of {_D_MODEL}: {wave:,.0f} x 2π"
    return isclose(wave, 10_000, rel_tol=1e-3), f"{words}; it would be 10,000 for 2i = d_model"


def wave_progression() -> tuple[bool, str]:
    """Decide whether the ratio of successive wavelengths is constant."""
    waves = _wavelengths()
    ratios = [after / before for before, after in pairwise(waves)]
    even = all(isclose(ratio, ratios[0], rel_tol=1e-6) for ratio in ratios)
    return even, f"each of {len(waves)} wavelengths is {ratios[0]:.4f} times the one before"


def linear_offset() -> tuple[bool, str]:
    """Compare PE(pos + k) with PE(pos), after rotating each pair of its features by an angle that depends only on k.

    Returns:
        Whether the two are equal up to rounding, and a text with the largest error.
    """
    worst = 0.0
    for k in (1, 7, 100):
        angles = [k / wave for wave in _wavelengths()]
        for position in (0, 3, 50, 400):
            start, shifted = sinusoidal_encoding(position, _D_MODEL), sinusoidal_encoding(position + k, _D_MODEL)
            for pair, angle in enumerate(angles):
                s, c = start[2 * pair : 2 * pair + 2]
                rotated = s * cos(angle) + c * sin(angle), c * cos(angle) - s * sin(angle)
                worst = max(worst, *(abs(a - b) for a, b in zip(rotated, shifted[2 * pair :], strict=False)))
    words = f"rotating each pair by k alone gives PE(pos+k) with an error of {worst:.1g}"
    return worst < 1e-9, f"{words}, for k up to 100, pos up to 400"


_D_MODEL = 512


def _wavelengths() -> list[float]:
    """Return the wavelength of each sinusoid in units of 2π, computed from the positional encoding of position 1."""
    row = sinusoidal_encoding(1, _D_MODEL)
    return [1 / atan2(row[i], row[i + 1]) for i in range(0, _D_MODEL, 2)]


def dropout_places() -> tuple[bool, str]:
    """Decide whether there is one dropout for each sub-layer and each sum of embeddings and positions."""
    drops = [n for n in graph("base").nodes if isinstance(n.operation, Dropout) and n.operation.dropout]
    norms = sum(n.operation.is_norm for n in graph("base").nodes)
    embeds = sum(isinstance(n.operation, Embedding) for n in graph("base").nodes)
    return len(drops) == norms + embeds, f"{len(drops)} dropouts, {norms} sub-layers and {embeds} sums with positions"


def _listed(values: Set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))
