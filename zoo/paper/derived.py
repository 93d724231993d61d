"""Derivations of claims from zoo's own code, and from other numbers that the paper reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import atan2, ceil, comb, cos, exp, isclose, sin, sqrt
from typing import Any

import compiler
import specs
from compiler import Graph, Purpose, cost, lower
from compiler.costs import layers
from compiler.lowering.positions import sinusoidal_encoding
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout
from compiler.operations.operation import Node, Operation
from compiler.operations.projection import Embedding, Linear
from compiler.operations.views import SplitHeads
from zoo.paper.claims import CLAIMS, ROWS, Row, parse_printed, power_of_ten, printed_number
from zoo.planning.memory_estimate import LENGTH
from zoo.training.step import learning_rate


@cache
def graph(spec: str) -> Graph:
    """Return a spec's training graph before any compiler pass. `spec` is the spec's short name."""
    return lower(specs.load(spec), Purpose.TRAIN)


def _nodes(kind: type[Operation]) -> list[Node]:
    return [node for node in graph("base").nodes if isinstance(node.operation, kind)]


def _operations(kind: type[Operation]) -> list[Any]:
    return [node.operation for node in _nodes(kind)]


def _agreed(values: Set[int], words: str) -> tuple[int | None, str]:
    """Return the only value in a set (None if there are several), and a string: `words` followed by all values."""
    return next(iter(values)) if len(values) == 1 else None, f"{words}: {_listed(values)}"


def layer_count(side: str) -> tuple[int | None, str]:
    """Return the number of layers in the encoder or decoder of `base`, and an explanation.

    The number is None if the layers have different numbers of parameters.
    """
    names = _layers(side)
    counts = {cost(graph("base"), name).parameters for name in names}
    words = f"{len(names)} layers in the graph, with {' and '.join(f'{n:,}' for n in sorted(counts))} parameters each"
    return len(names) if len(counts) == 1 else None, words


def sublayer_count(side: str) -> tuple[int | None, str]:
    """Return the number of sub-layers in each encoder or decoder layer (None if it varies), and an explanation."""
    norms = Counter(n.layer for n in graph("base").nodes if n.operation.is_norm)
    return _agreed({norms[name] for name in _layers(side)}, "residual connections with a norm in each layer")


def _layers(side: str) -> list[str]:
    return [name for name in layers(graph("base")) if name.startswith(f"{side}.")]


def width() -> tuple[int | None, str]:
    """Return the output dimension of all embeddings and sub-layers (None if it varies), and an explanation."""
    nodes = [*_nodes(Embedding), *(n for n in graph("base").nodes if n.operation.is_norm)]
    return _agreed({_width(n) for n in nodes}, f"dimension of all {len(nodes)} embeddings and sub-layers")


def heads() -> tuple[int | None, str]:
    """Return the number of attention heads in `base` (None if it varies), and an explanation."""
    found = {operation.heads for operation in _operations(SplitHeads)}
    return _agreed(found, "heads into which queries, keys and values are split")


def key_width() -> tuple[int | None, str]:
    """Return the dimension of queries, keys and values in each head (None if it varies), and an explanation."""
    types, nodes = graph("base").types, _nodes(Attention)
    widths = {types[name].shape[3].constant for node in nodes for name in node.inputs[:3]}
    return _agreed(widths, f"dimension of queries, keys and values in all {len(nodes)} attention sub-layers")


def inner_width() -> tuple[int | None, str]:
    """Return the largest output dimension of any linear layer in `base`, and an explanation."""
    nodes = _nodes(Linear)
    return max(map(_width, nodes)), f"the largest output dimension of {len(nodes)} linear layers in the graph"


def _width(node: Node) -> int:
    return node.type.shape[-1].constant


def scale(kind: str, size: str, power: str) -> tuple[bool, str]:
    """Check whether attention scores or embeddings are always scaled by a power of a dimension.

    Args:
        kind: "attention" or "embedding".
        size: Name of the dimension in the architecture of `base`, such as "d_k".
        power: Exponent of the dimension, such as "-0.5".

    Returns:
        The result, and an explanation.
    """
    kinds: dict[str, type[Operation]] = {"attention": Attention, "embedding": Embedding}
    scales = {operation.scale for operation in _operations(kinds[kind])}
    expected = getattr(specs.load("base").architecture, size) ** float(power)
    return scales == {expected}, f"scale of each {kind} operation in the graph: {_listed(scales)}"


def shared_matrix() -> tuple[bool, str]:
    """Check whether the embeddings and the output projection share one matrix. Return the result and an explanation."""
    tokens = specs.load("base").vocabulary.size
    tables = {name for name, p in graph("base").parameters.items() if p.shape[0].constant == tokens}
    uses = Counter(p for n in graph("base").nodes for p in n.parameters)
    untied = lower(specs.load("base", ["architecture.tied_embeddings=none"]), Purpose.TRAIN)
    more = cost(untied).parameters - cost(graph("base")).parameters
    words = f"one matrix with {max(uses[p] for p in tables)} uses; if untied, {more:,} more parameters would be needed"
    return len(tables) == 1, words


def multi_head_cost() -> tuple[bool, str]:
    """Compare the FLOPs of a model with eight heads and a model with one head of the same total dimension.

    Returns:
        Whether the FLOPs differ by at most 5%, and a string with both numbers.
    """
    sizes = {"batch": 1, "source": LENGTH, "target": LENGTH}
    many, one = (cost(graph(name)).flops(**sizes) for name in ("table3/base", "table3/a-h1"))
    return (
        isclose(many, one, rel_tol=0.05),
        f"forward pass over {LENGTH} source and {LENGTH} target tokens: {many:,} FLOPs with 8 heads, {one:,} with 1",
    )


def dot_product_variance() -> tuple[float, str]:
    """Compute the variance of q · k for vectors of 64 independent random signs, which have mean 0 and variance 1.

    Returns:
        The variance, and an explanation.
    """
    d_k = 64
    values = {2 * right - d_k: Fraction(comb(d_k, right), 2**d_k) for right in range(d_k + 1)}
    variance = sum(value**2 * chance for value, chance in values.items())
    words = f"from all {len(values)} values that q · k can have if q and k consist of random signs: {variance}"
    return float(variance), words


def softmax_gradient() -> tuple[bool, str]:
    """Compare the mean gradient of the softmax for a small d_k, a large d_k, and scaled scores.

    The softmax is over two keys with random scores.

    Returns:
        Whether the gradient for a large d_k without scaling is less than a tenth of each of the other two gradients,
        and a string with all three gradients.
    """

    def slope(deviation: float) -> float:
        points = [number / 100 for number in range(-800, 801)]
        densities = [exp(-(point**2) / 2) for point in points]
        weights = [1 / (1 + exp(-deviation * point)) for point in points]
        return sum(d * w * (1 - w) for d, w in zip(densities, weights, strict=True)) / sum(densities)

    # The variance of a score is 1 with scaling, and d_k without. The difference of two scores has twice the variance.
    few, many, scaled = slope(sqrt(2 * 2)), slope(sqrt(2 * 2048)), slope(sqrt(2))
    words = f"mean gradient of the softmax over two keys: {few:.3f} for d_k = 2, {many:.4f} for d_k = 2,048"
    return many < few / 10 and many < scaled / 10, f"{words}; scaled, {scaled:.3f} for any d_k"


def wavelength(index: str) -> tuple[float, str]:
    """Return the wavelength of the first ("0") or last ("-1") sinusoid pair in units of 2π, and an explanation."""
    waves = _wavelengths()
    return waves[int(index)], f"pair {int(index) % len(waves)} of the program's {len(waves)} pairs of sinusoids"


def wave_progression() -> tuple[bool, str]:
    """Check whether the ratio of successive wavelengths is constant. Return the result and an explanation."""
    waves = _wavelengths()
    ratios = [after / before for before, after in pairwise(waves)]
    even = all(isclose(ratio, ratios[0], rel_tol=1e-6) for ratio in ratios)
    return even, f"each of {len(waves)} wavelengths is {ratios[0]:.4f} times the previous one"


def linear_offset() -> tuple[bool, str]:
    """Compare PE(pos + k) with a rotation of PE(pos). Each feature pair rotates by an angle that depends only on k.

    Returns:
        Whether the two vectors are equal up to rounding, and a string with the largest error.
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
    words = f"rotating each pair by an angle that depends only on k gives PE(pos+k), error {worst:.1g}"
    return worst < 1e-9, f"{words}, for k up to 100 and pos up to 400"


_D_MODEL = 512


def _wavelengths() -> list[float]:
    """Return the wavelength of each sinusoid in units of 2π, computed from the positional encoding of position 1."""
    row = sinusoidal_encoding(1, _D_MODEL)
    return [1 / atan2(row[i], row[i + 1]) for i in range(0, _D_MODEL, 2)]


def dropout_places() -> tuple[bool, str]:
    """Check whether dropout is applied once per sub-layer, and once per sum of embeddings and positional encodings.

    Return the result and an explanation.
    """
    drops = [operation for operation in _operations(Dropout) if operation.dropout]
    norms, embeds = sum(n.operation.is_norm for n in graph("base").nodes), len(_nodes(Embedding))
    return len(drops) == norms + embeds, f"{len(drops)} dropouts, {norms} sub-layers and {embeds} sums with positions"


@cache
def parameters(spec: str, tokens: int | None = None) -> int:
    """Return the number of parameters of a spec's model, counted by the compiler.

    `tokens` replaces the vocabulary size of the spec.
    """
    return compiler.parameters(specs.load(spec, {} if tokens is None else {"vocabulary": {"size": tokens}}))


def vocabulary_sizes(row: str) -> range:
    """Return the vocabulary sizes for which the model in a Table 3 row has as many parameters as the paper reports."""
    spec, (printed,) = f"table3/{row}", CLAIMS[f"table3.{row}.parameters"].printed
    own = specs.load(spec).vocabulary.size
    per_token = parameters(spec, own + 1) - parameters(spec, own)
    rest = parameters(spec, own) - per_token * own
    lower, upper = (ceil((bound * 1_000_000 - rest) / per_token) for bound in printed.bounds)
    return range(lower, upper)


def common_vocabulary_sizes() -> range:
    """Return the vocabulary sizes for which all Table 3 models except `big` match the paper's parameter counts.

    The range may be empty.
    """
    small = (name for name, row in ROWS["table3"].items() if "parameters" in row and name != "big")
    ranges = [vocabulary_sizes(name) for name in small]
    return range(max(sizes.start for sizes in ranges), min(sizes.stop for sizes in ranges))


def parameter_count(row: str) -> tuple[float, str]:
    """Return the parameter count of the model in a Table 3 row, in millions, and a string with the exact count."""
    spec, fit = f"table3/{row}", vocabulary_sizes(row)
    count, tokens = parameters(spec), specs.load(spec).vocabulary.size
    return count / 1e6, f"{count:,} with {tokens:,} tokens; {fit[0]:,} to {fit[-1]:,} tokens give the paper's number"


def one_vocabulary() -> tuple[bool, str]:
    """Check whether one vocabulary size gives the paper's parameter counts for all Table 3 models except `big`.

    Return the result and an explanation.
    """
    fit = common_vocabulary_sizes()
    if not fit:
        return False, "no vocabulary size gives all ten numbers"
    big = vocabulary_sizes("big")
    words = f"all ten numbers are as reported with a vocabulary of {fit[0]:,} to {fit[-1]:,} tokens"
    differs = big[-1] < fit[0] or big[0] > fit[-1]
    return True, f"{words}; big {'needs' if differs else 'agrees with'} {big[0]:,} to {big[-1]:,}"


def learning_rate_formula(phase: str) -> tuple[bool, str]:
    """Check whether the learning rate follows the paper's formula during the warm-up ("rises") or after it ("falls").

    The learning rate is proportional to the step during the warm-up, and to step^-0.5 after it.
    Return the result and an explanation.
    """
    spec = specs.load("base")
    warmup, last = spec.training.warmup_steps, spec.training.steps
    steps, power = (range(1, warmup + 1), 1.0) if phase == "rises" else (range(warmup, last + 1, 1000), -0.5)
    peak, end = learning_rate(warmup, spec), steps[0] if phase == "rises" else last
    follows = all(isclose(learning_rate(step, spec), peak * (step / warmup) ** power) for step in steps)
    return follows, f"{peak:.4g} at step {warmup:,}, {learning_rate(end, spec):.4g} at step {end:,}"


def learning_rate_peak() -> tuple[bool, str]:
    """Check whether the learning rate is highest at step `warmup_steps`, as in the formula of section 5.3.

    Return the result and an explanation.
    """
    spec = specs.load("base")
    a, warmup = spec.architecture, spec.training.warmup_steps
    best = max(range(1, 3 * warmup), key=lambda step: learning_rate(step, spec))
    rate = learning_rate(best, spec)
    return best == warmup and isclose(rate, (a.d_model * warmup) ** -0.5), f"{rate:.4g} at step {best:,}"


def _listed(values: Set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))


_LOWER_IS_BETTER = ("perplexity", "flops")
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
_TOLERANCE = 1e-9  # the paper's numbers are decimal fractions


def better(table: str, column: str, row: str, others: str, without: str = "") -> tuple[bool, str]:
    """Check whether all numbers in a table cell are better than the number in another row of the same column.

    Args:
        table: Name of the table, such as "table2".
        column: Name of the column.
        row: Key of the row to check.
        others: Key of the row to compare with, or "earlier" for the best earlier system.
        without: Leave out earlier systems whose names contain this text. If empty, compare with all systems.

    Returns:
        The result, and an explanation.
    """
    other, cell = _best(table, column, others, without), ROWS[table][row][column]
    sign = _sign(column)
    is_better = all(sign * number.value > sign * float(other[column]) for number in parse_printed(cell))
    return is_better, f"in the paper: {cell}, and {other[column]} for {_title(other)}"


def difference(table: str, column: str, row: str, others: str) -> tuple[float, str]:
    """Return the number in a row minus the number in another row, and an explanation.

    See `better` for the arguments.
    """
    other, cell = _best(table, column, others), ROWS[table][row][column]
    return float(cell) - float(other[column]), f"in the paper: {cell}, and {other[column]} for {_title(other)}"


def similar(table: str, column: str, row: str, other: str, limit: str) -> tuple[bool, str]:
    """Check whether the numbers of two rows differ by at most `limit`. Return the result and an explanation."""
    gap, words = difference(table, column, row, other)
    return abs(gap) <= float(limit) + _TOLERANCE, words


def share_below(table: str, column: str, row: str, other: str, limit: str) -> tuple[bool, str]:
    """Check whether the number in a row is less than `limit` times the number in another row.

    Return the result and an explanation.
    """
    cell, whole = ROWS[table][row][column], ROWS[table][other]
    share = float(cell) / float(whole[column])
    return share < float(limit), f"in the paper: {cell}, and {whole[column]} for {_title(whole)}; ratio {share:.2f}"


def improves(table: str, column: str, *rows: str) -> tuple[bool, str]:
    """Check whether the numbers in a column improve from each given row to the next.

    Return the result and an explanation.
    """
    values = [float(ROWS[table][row][column]) for row in rows]
    ordered = sorted(set(values), reverse=_sign(column) < 0)
    return values == ordered, f"in the paper: {', '.join(f'{value:g}' for value in values)}"


def one_number(claim: str) -> tuple[bool, str]:
    """Check whether the paper gives the same number everywhere for the quantity in a claim.

    Return the result and an explanation.
    """
    numbers = CLAIMS[claim].printed
    return len({number.value for number in numbers}) == 1, f"in the paper: {' and '.join(map(str, numbers))}"


def _best(table: str, column: str, others: str, without: str = "") -> Row:
    if others != "earlier":
        return ROWS[table][others]
    earlier = (row for row in ROWS[table].values() if "spec" not in row and column in row)
    compared = (row for row in earlier if not without or without not in row["name"])
    return max(compared, key=lambda row: _sign(column) * float(row[column]))


def _sign(column: str) -> int:
    return -1 if column.endswith(_LOWER_IS_BETTER) else 1


def _title(row: Row) -> str:
    return row.get("name") or row["says"].partition(":")[0]


def time_of_steps(spec: str, field: str, unit: str) -> tuple[float, str]:
    """Derive the training time from the number of steps and the time per step.

    Args:
        spec: Short name of the spec.
        field: Field of the `training` section that contains the number of steps.
        unit: Unit of the time, such as "hours".

    Returns:
        The training time in `unit`, and an explanation.
    """
    steps, seconds = getattr(specs.load(spec).training, field), printed_number(f"recipe.step-{spec}")
    time = steps * seconds / _SECONDS[unit]
    return time, f"{steps:,} steps x {seconds} s = {time:.3g} {unit}"


def cost_by_steps(spec: str) -> tuple[float, str]:
    """Derive a model's training cost from the number of steps and the time per step.

    Return the cost in FLOPs, and an explanation.
    """
    return cost_by_time(f"{time_of_steps(spec, 'steps', 'seconds')[0]:,.0f} seconds")


def cost_by_time(time: str) -> tuple[float, str]:
    """Derive a model's training cost from its total training time, such as "12 hours".

    Return the cost in FLOPs, and an explanation.
    """
    number, unit = time.split()
    gpus, teraflops = int(printed_number("recipe.devices")), printed_number("table2.p100")
    cost = float(number.replace(",", "")) * _SECONDS[unit] * gpus * teraflops * 1e12
    return cost, f"{time} x {gpus} P100 x {teraflops} TFLOPS = {power_of_ten(cost)}"
