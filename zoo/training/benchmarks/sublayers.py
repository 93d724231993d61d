"""How long a sub-layer takes over longer and longer sequences: Table 1, measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import specs
from compiler import EmittedProgram, Purpose, emit
from compiler.backends.eager import functions
from compiler.complexity import END, START, TOKENS, SubLayer
from compiler.complexity import sublayer_stack
from zoo.system import clock

LEAST = 0.05
"""Seconds that each length is measured for in each round, at least, after a run that is not."""


@dataclass(frozen=True)
class Timed:
    """A sub-layer with its residual, on one sequence of n positions."""

    n: int
    seconds: float
    """The least of its runs, since other work only adds to a time."""


def timed(
    of: SubLayer,
    lengths: Sequence[int],
    d: int,
    *,
    heads: int = 1,
    causal: bool = False,
    backward: bool = False,
    rounds: int = 5,
    enough: float = math.inf,
) -> list[Timed]:
    """One layer, d wide, at each length: forwards, or forwards and backwards, on a CPU with torch's threads.

    The lengths are run in turns, round by round, so that a machine that is slower for a while is so for all of them.
    Those that follow one of more than `enough` seconds are left out, but for the second: an exponent needs two.
    """
    program, found = _program(of, d, heads, causal), dict.fromkeys(lengths, math.inf)
    for _ in range(rounds):
        for n in list(found):
            if n not in found:
                continue
            inputs = {START: torch.randn(1, n, d, requires_grad=backward), TOKENS: torch.full((1, n), 5)}
            run = partial(_backwards if backward else _forwards, program, inputs)
            found[n] = min(found[n], _least(run))
            if found[n] > enough:
                found = {each: s for each, s in found.items() if each <= n or each in lengths[:2]}
    return [Timed(n, seconds) for n, seconds in found.items()]


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """The b of y = a · x^b: the slope of the line through the logarithms, by least squares. Needs two x that differ."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    x, y = (sum(each) / len(logs) for each in zip(*logs, strict=True))
    return float(sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs))


def crossing(other: Sequence[Timed], one: Sequence[Timed]) -> int | None:
    """The length from which on `one` is faster than `other`, at all that both were measured at; None if it never is."""
    seconds = {each.n: each.seconds for each in other}
    slower = [each.n for each in one if each.n in seconds and each.seconds >= seconds[each.n]]
    faster = [each.n for each in one if each.n in seconds and each.n > max(slower, default=0)]
    return min(faster, default=None)


def _program(of: SubLayer, d: int, heads: int, causal: bool) -> EmittedProgram:
    """With random weights, so that nothing is zero."""
    graph = sublayer_stack(of, d, 1, heads=heads, causal=causal)
    code = emit([graph])
    program = EmittedProgram(specs.load("base"), {Purpose.ENCODE: graph}, functions(code), str(code))
    program.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in program.parameters():
            parameter.normal_(0.0, d**-0.5, generator=generator)
    return program


def _forwards(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        program.run(Purpose.ENCODE, **inputs)


def _backwards(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    program.zero_grad()
    inputs[START].grad = None
    torch.autograd.backward(program.run(Purpose.ENCODE, **inputs)[END].sum())


def _least(run: Callable[[], None]) -> float:
    run()
    seconds: list[float] = []
    while not seconds or sum(seconds) < LEAST:
        seconds.append(clock.timed(run)[0])
    return min(seconds)
