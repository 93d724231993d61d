"""What section 3 says of the network, checked on the graph that the compiler makes of the spec `base`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import atan2, comb, cos, exp, isclose, sin, sqrt

import specs
from compiler import Graph, Purpose, cost, lower
from compiler.cost import layers
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout, Norm
from compiler.operations.embedding import Embedding, sinusoidal_encoding
from compiler.operations.projection import Linear
from compiler.operations.views import SplitHeads
from zoo.paper.checks import Derived, equals, holds
from zoo.paper.claim import Claim, Printed
from zoo.planning.plan import LENGTH


@cache
def graph(spec: str) -> Graph:
    """Of training, as the paper has it: no pass has touched it."""
    return lower(specs.load(spec), Purpose.TRAIN)


def claims() -> Iterator[Claim]:
    for key, section, says, printed, unit, derive in _NUMBERS:
        yield Claim(f"network.{key}", section, says, equals(derive), (Printed(printed),), unit, "base")
    for key, section, says, decide in _SENTENCES:
        yield Claim(f"network.{key}", section, says, holds(decide), spec="base")


def _stack(side: str) -> Derived:
    names = _layers(side)
    alike = {cost(graph("base"), name).parameters for name in names}
    told = f"{len(names)} layers in the graph, of {' and '.join(f'{n:,}' for n in sorted(alike))} parameters each"
    return len(names) if len(alike) == 1 else None, told


def _sublayers(side: str) -> Derived:
    norms = Counter(n.layer for n in graph("base").nodes if isinstance(n.operation, Norm))
    counts = {norms[name] for name in _layers(side)}
    return _only(counts), f"residuals with a norm in each layer of the graph: {_listed(counts)}"


def _layers(side: str) -> list[str]:
    return [name for name in layers(graph("base")) if name.startswith(f"{side}.")]


def _width() -> Derived:
    nodes = [n for n in graph("base").nodes if isinstance(n.operation, Norm | Embedding)]
    widths = {n.type.shape[-1].constant for n in nodes}
    return _only(widths), f"the width of all {len(nodes)} embeddings and sub-layers: {_listed(widths)}"


def _heads() -> Derived:
    heads = {n.operation.heads for n in graph("base").nodes if isinstance(n.operation, SplitHeads)}
    return _only(heads), f"heads that queries, keys and values are split into: {_listed(heads)}"


def _key_width() -> Derived:
    types = graph("base").types
    attentions = [n for n in graph("base").nodes if isinstance(n.operation, Attention)]
    widths = {types[name].shape[3].constant for n in attentions for name in n.inputs[:3]}
    return _only(widths), f"of the queries, keys and values of all {len(attentions)} attentions: {_listed(widths)}"


def _only(values: Set[int]) -> int | None:
    """What all of them are, if they are alike."""
    return next(iter(values)) if len(values) == 1 else None


def _inner() -> Derived:
    nodes = [n for n in graph("base").nodes if isinstance(n.operation, Linear)]
    widest = max(n.type.shape[-1].constant for n in nodes)
    return widest, f"the widest of {len(nodes)} linear maps in the graph"


def _scale() -> tuple[bool, str]:
    scales = {n.operation.scale for n in graph("base").nodes if isinstance(n.operation, Attention)}
    return scales == {64**-0.5}, f"all attentions of the graph: {_listed(scales)}"


def _embedding_scale() -> tuple[bool, str]:
    scales = {n.operation.scale for n in graph("base").nodes if isinstance(n.operation, Embedding)}
    return scales == {sqrt(512)}, f"both embeddings of the graph: {_listed(scales)}"


def _one_matrix() -> tuple[bool, str]:
    tokens = specs.load("base").vocabulary.size
    tables = {name for name, p in graph("base").parameters.items() if p.shape[0].constant == tokens}
    uses = Counter(p for n in graph("base").nodes for p in n.parameters)
    untied = lower(specs.load("base", ["architecture.tied_embeddings=none"]), Purpose.TRAIN)
    more = cost(untied).parameters - cost(graph("base")).parameters
    told = f"one table read at {max(uses[p] for p in tables)} places; apart they would be {more:,} parameters more"
    return len(tables) == 1, told


def _products() -> tuple[bool, str]:
    """With as many features in one head as in all, each product of the two graphs is of the same size."""
    sizes = {"batch": 1, "source": LENGTH, "target": LENGTH}
    many, one = (cost(graph(name)).flops(**sizes) for name in ("table3/base", "table3/a-h1"))
    return isclose(many, one, rel_tol=0.05), f"{many:,} and {one:,} FLOPs a pair of {LENGTH} tokens, forward"


def _variance() -> Derived:
    """Of a sum of 64 products of independent signs, which have mean 0 and variance 1: from its whole distribution."""
    d_k = 64
    values = {2 * right - d_k: Fraction(comb(d_k, right), 2**d_k) for right in range(d_k + 1)}
    variance = sum(value**2 * chance for value, chance in values.items())
    return float(variance), f"of all {len(values)} values that q · k can have where q and k are signs: {variance}"


def _flattens() -> tuple[bool, str]:
    """How far, in the mean, the weights of two keys move with their scores, which are as far apart as chance has it."""

    def slope(deviation: float) -> float:
        places = [each / 100 for each in range(-800, 801)]
        chances = [exp(-(place**2) / 2) for place in places]
        weights = [1 / (1 + exp(-deviation * place)) for place in places]
        return sum(c * w * (1 - w) for c, w in zip(chances, weights, strict=True)) / sum(chances)

    # Two products of unit variance each, or, not scaled, of variance d_k.
    few, many, scaled = slope(sqrt(2 * 2)), slope(sqrt(2 * 2048)), slope(sqrt(2))
    told = f"two keys' weights move by {few:.3f} of their scores at d_k = 2, by {many:.4f} at 2,048"
    return many < few / 10 and many < scaled / 10, f"{told}; scaled, by {scaled:.3f} at any"


def _shortest() -> tuple[bool, str]:
    wave = _wavelengths()[0]
    return isclose(wave, 1), f"the first pair of the program's sinusoids: {wave:g} x 2π"


def _longest() -> tuple[bool, str]:
    wave = _wavelengths()[-1]
    told = f"the last pair of the formula's, 2i = {_WIDTH - 2} of {_WIDTH}: {wave:,.0f} x 2π"
    return isclose(wave, 10_000, rel_tol=1e-3), f"{told}; 10,000 is where 2i would be d_model"


def _progression() -> tuple[bool, str]:
    waves = _wavelengths()
    ratios = [after / before for before, after in pairwise(waves)]
    even = all(isclose(ratio, ratios[0], rel_tol=1e-6) for ratio in ratios)
    return even, f"each of {len(waves)} wavelengths is {ratios[0]:.4f} times the one before"


def _linear() -> tuple[bool, str]:
    """PE(pos + k) as the rotation of each pair of PE(pos) by k's angle, which does not depend on pos."""
    worst = 0.0
    for k in (1, 7, 100):
        angles = [k / wave for wave in _wavelengths()]
        for position in (0, 3, 50, 400):
            here, there = sinusoidal_encoding(position, _WIDTH), sinusoidal_encoding(position + k, _WIDTH)
            for pair, angle in enumerate(angles):
                s, c = here[2 * pair : 2 * pair + 2]
                turned = s * cos(angle) + c * sin(angle), c * cos(angle) - s * sin(angle)
                worst = max(worst, *(abs(a - b) for a, b in zip(turned, there[2 * pair :], strict=False)))
    return worst < 1e-9, f"a rotation of each pair by k alone gives PE(pos+k) to {worst:.1g}, k to 100, pos to 400"


_WIDTH = 512


def _wavelengths() -> list[float]:
    """In units of 2π, read off what the program adds at position 1."""
    row = sinusoidal_encoding(1, _WIDTH)
    return [1 / atan2(row[i], row[i + 1]) for i in range(0, _WIDTH, 2)]


def _dropped() -> tuple[bool, str]:
    drops = [n for n in graph("base").nodes if isinstance(n.operation, Dropout) and n.operation.probability]
    norms = sum(isinstance(n.operation, Norm) for n in graph("base").nodes)
    embeds = sum(isinstance(n.operation, Embedding) for n in graph("base").nodes)
    return len(drops) == norms + embeds, f"{len(drops)} dropouts, {norms} sub-layers and {embeds} sums with positions"


def _listed(values: Set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))


_NUMBERS = (
    ("encoder", "3.1", "identical layers of the encoder", "6", "layers", lambda: _stack("encoder")),
    ("decoder", "3.1", "identical layers of the decoder", "6", "layers", lambda: _stack("decoder")),
    ("encoder-sublayers", "3.1", "sub-layers of an encoder's layer", "2", "", lambda: _sublayers("encoder")),
    ("decoder-sublayers", "3.1", "sub-layers of a decoder's layer", "3", "", lambda: _sublayers("decoder")),
    ("d_model", "3.1", "all sub-layers and embeddings give d_model", "512", "features", _width),
    ("variance", "3.2.1", "of independent components of variance 1, q · k has variance d_k", "64", "", _variance),
    ("h", "3.2.2", "parallel heads", "8", "heads", _heads),
    ("d_k", "3.2.2", "d_k = d_v = d_model / h", "64", "features", _key_width),
    ("d_ff", "3.3", "d_ff, the width of the inner layer", "2048", "features", _inner),
)
_SENTENCES = (
    ("scale", "3.2.1", "products are scaled by 1 / sqrt(d_k)", _scale),
    ("flattens", "3.2.1", "for large d_k, products not scaled leave the softmax extremely small gradients", _flattens),
    ("multi-head", "3.2.2", "all heads together cost about what one of full width does", _products),
    ("one-matrix", "3.4", "embeddings and pre-softmax projection share one matrix", _one_matrix),
    ("embedding-scale", "3.4", "embeddings are multiplied by sqrt(d_model)", _embedding_scale),
    ("shortest-wave", "3.5", "wavelengths begin at 2π", _shortest),
    ("longest-wave", "3.5", "wavelengths end at 10000 · 2π", _longest),
    ("progression", "3.5", "wavelengths are a geometric progression", _progression),
    ("linear-offset", "3.5", "PE(pos+k) is a linear function of PE(pos) for any fixed k", _linear),
    ("dropped", "5.4", "dropout falls on each sub-layer's output, and on embeddings with positions", _dropped),
)
