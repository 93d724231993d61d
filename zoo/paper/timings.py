"""Measured times of the layers of Table 1, at growing sequence lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import linear_regression

import torch
from torch import Tensor

import specs
from compiler import EmittedProgram, Purpose, emit
from compiler.backends.eager import functions
from compiler.costs import END, LENGTH, START, SubLayer, sublayer_stack
from zoo.paper.runs import LayerTiming
from zoo.paper.table1 import LAYERS, SIZES
from zoo.system import processors

LENGTHS, D_MODEL = (2048, 4096, 8192, 16_384, 32_768), 128
"""Sequence lengths, and the number of features. At these sizes, the operations that Table 1 counts dominate the time.
There are enough lengths that a single outlier hardly changes the exponent."""
MAX_SECONDS = 0.25
"""Longest time of a layer, in seconds. If a layer takes longer at one length, greater lengths are skipped, at which
attention would need gigabytes of memory."""
MIN_SECONDS = 0.05
"""Minimum time in seconds for measuring each length in each round, after a first run that is not counted."""


def time_layers(layers: Iterable[str] = LAYERS, lengths: Sequence[int] = LENGTHS) -> Iterator[LayerTiming]:
    """Time the forward pass of each layer, and yield the results. Layers are causal, as in a decoder.

    All layers of Table 1 together take half a minute.
    """
    for key in layers:
        layer = LAYERS[key]
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
    """Time one sub-layer with its residual connection at several sequence lengths, with torch's number of CPU threads.

    Each round times all lengths, so that all of them are affected if the machine is slow for a while.

    Args:
        sublayer: The sub-layer.
        lengths: The sequence lengths, in increasing order.
        d: The number of features.
        heads: The number of attention heads.
        causal: Whether a position sees only earlier ones.
        backward: Whether to include the backward pass.
        rounds: The number of rounds.
        max_seconds: If a length takes longer than this, skip all greater lengths. The first two are always timed.

    Returns:
        The shortest time in seconds at each length that was not skipped. Other programs can only make it longer.
    """
    program, times = _program(sublayer, d, heads, causal), dict.fromkeys(lengths, math.inf)
    for _ in range(rounds):
        for n in list(times):
            if n not in times:
                continue
            inputs = {START: torch.randn(1, n, d, requires_grad=backward), LENGTH: torch.tensor([n])}
            run = partial(_backward if backward else _forward, program, inputs)
            run()
            times[n] = min(times[n], *processors.repeat(run, MIN_SECONDS))
            if times[n] > max_seconds:  # an exponent needs two lengths
                times = {m: seconds for m, seconds in times.items() if m <= n or m in lengths[:2]}
    return times


def growth_exponent(points: Mapping[int, float]) -> float:
    """Fit y = a · x^b to points (x -> y) by least squares of the logarithms, and return the exponent b.

    There must be at least two points. All x and y must be positive.
    """
    return linear_regression(list(map(math.log, points)), list(map(math.log, points.values()))).slope


def _program(sublayer: SubLayer, d: int, heads: int, causal: bool) -> EmittedProgram:
    """Build a program that consists of one sub-layer with normally distributed random weights."""
    graph = sublayer_stack(sublayer, d, 1, heads=heads, causal=causal)
    program = EmittedProgram(specs.load("base"), {Purpose.ENCODE: graph}, functions(emit([graph])))
    program.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in program.parameters():
            parameter.normal_(0.0, d**-0.5, generator=generator)
    return program


def _forward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        program.run(Purpose.ENCODE, **inputs)


def _backward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    program.zero_grad()
    inputs[START].grad = None
    torch.autograd.backward(program.run(Purpose.ENCODE, **inputs)[END].sum())
