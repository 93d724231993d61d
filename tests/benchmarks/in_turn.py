"""Time several systems alternately in one process, and build programs with random weights for such measurements."""

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
    """Translate texts with several systems alternately, PART texts at a time.

    Args:
        run: Function that translates texts with the system of the given name.
        names: Names of the systems.
        texts: The texts, which every system translates.
        warm: Systems that first translate two texts without being timed, to load kernels and allocate memory.

    Returns:
        The total time of each system in seconds, and its outputs.
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
    """Build a native program with random weights, which give special tokens such as EOS a low probability."""
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec, TRANSLATE)))
    return build(spec, weights=weights, backend="native", precision=precision, folder=storage.compiled())
