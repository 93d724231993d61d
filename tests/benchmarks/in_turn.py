"""Measurements of systems in one process, which take turns, and programs with random weights to measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from compiler import TRANSLATE, build, graphs
from compiler.assemble import initial_weights
from specs import Spec
from zoo.files import storage
from zoo.training.benchmarks import weights_avoiding

PART = 50  # texts
Name = TypeVar("Name")


def in_turn(
    run: Callable[[Name, Any], list[Any]], names: Sequence[Name], texts: Sequence[Any], *, warm: Sequence[Name]
) -> tuple[dict[Name, float], dict[Name, list[Any]]]:
    """Let systems translate the texts, PART at a time and in turn. Return their times in seconds, and their outputs.

    Before, the systems `warm` translate two texts, to load the kernels and allocate memory.
    """
    for name in warm:
        run(name, texts[:2])
    seconds, outputs = dict.fromkeys(names, 0.0), dict[Name, list[Any]]((name, []) for name in names)
    for number, start in enumerate(range(0, len(texts), PART)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            started = time.perf_counter()
            outputs[name] += run(name, texts[start : start + PART])
            seconds[name] += time.perf_counter() - started
    return seconds, outputs


def random_program(spec: Spec, precision: str) -> Any:
    """Return a program with random weights. No special token is probable."""
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec, TRANSLATE)))
    return build(spec, weights=weights, backend="native", precision=precision, folder=storage.compiled())
