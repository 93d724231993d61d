"""A few passes through a spec's own graph, by which it is chosen what trains fastest here, and foretold how fast."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence

import torch

from compiler import EmittedProgram, Purpose, cost, trainable
from compiler.host import cores
from compiler.switches import fast_float32, matrix_libraries, matrix_library
from specs import EOS, Spec
from zoo.planning import forecast
from zoo.planning.footprint import pairs
from zoo.report import Report
from zoo.system import calibration
from zoo.system.calibration import Calibration
from zoo.system.peak import pace
from zoo.system.ram import FAILURES, is_short

LENGTH = 27
_FLOPS, _WORTH = 2e11, 1e9
"""The most that a pass computes; below which no choice is worth its time."""
_ROUNDS, _MOST, _SECONDS = 2, 6, 2.0
"""At least and at most so many rounds, none after so many seconds."""


def sampled(spec: Spec, report: Report, program: EmittedProgram | None = None) -> Calibration | None:
    """What is kept of this spec on this processor, else what some seconds of measuring find, which is then kept.

    Of training on a CPU by emitted PyTorch; None for all else, and where the memory is too small for it. `program` is
    one of the spec's that is there already; its weights stay as they are.
    """
    if program is not None and (program.backend != "eager" or program.device.type != "cpu"):
        return None
    if found := calibration.kept(spec):
        return found
    report.info("measuring once how this processor computes the spec's products ...")
    try:
        found = _measured(_Passes(spec, program or trainable(_eager(spec))))
    except FAILURES as error:
        if not is_short(error):
            raise
        return None
    if _is_busy():
        report.warn("other work was going on: what was measured is not kept, and forecasts are rough")
    else:
        calibration.keep(spec, found)
    return found


class _Passes:
    """Forward and backward passes of one program over random tokens, as many pairs as `_FLOPS` allow, timed."""

    def __init__(self, spec: Spec, program: EmittedProgram) -> None:
        self.spec, self._program = spec, program
        learned = spec.architecture.positional_encoding == "learned"
        self.length = min(LENGTH, spec.architecture.max_positions - 1) if learned else LENGTH
        flops = 3 * cost(program.graphs[Purpose.TRAIN]).flops(batch=1, source=self.length, target=self.length)
        self.rows = max(1, min(pairs(spec, self.length)[1], int(_FLOPS / flops)))
        self.worth_a_choice = self.rows * flops > _WORTH

    def seconds(self, precision: str, library: str, more: int = 0) -> float:
        """Of one, with so many pairs more than `rows`."""
        numbers = 7919 * torch.arange((self.rows + more) * (self.length + 1)).view(self.rows + more, -1)
        source, target = (EOS + numbers % (size - EOS) for size in self.spec.vocabulary.sizes)
        started = time.perf_counter()
        with fast_float32(library), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = self._program.train()(source[:, 1:], target)
            (loss.smoothed / loss.tokens).backward()
        taken = time.perf_counter() - started
        self._program.zero_grad(set_to_none=True)
        return taken

    def new_shape(self, more: int) -> float:
        """What the first of so many pairs more takes longer than the next: buffers are made, products prepared."""
        first, again = (self.seconds(self.spec.training.precision, matrix_library(), more) for _ in range(2))
        return first - again


def _measured(passes: _Passes) -> Calibration:
    precision, usual = passes.spec.training.precision, matrix_library()
    passes.seconds("float32", usual)  # the first has more to do
    best = _best(passes, _ways(precision, matrix_libraries() if passes.worth_a_choice else (usual,)))
    sizes = {"source": passes.length, "target": passes.length}
    expected = forecast.passes(passes.spec, passes.rows, sizes, pace(torch.device("cpu"), precision))
    return Calibration(
        name=passes.spec.name,
        rows=passes.rows,
        length=passes.length,
        float32={library: seconds for (kind, library), seconds in best.items() if kind == "float32"},
        bfloat16=best.get(("bfloat16", usual)),
        level=min(seconds for (kind, _), seconds in best.items() if kind == precision) / expected,
        new_shape=max(0.0, statistics.median(passes.new_shape(more) for more in (1, 2, 3))),
    )


def _ways(precision: str, libraries: Sequence[str]) -> list[tuple[str, str]]:
    """Precisions and libraries that are compared."""
    ways = [("float32", library) for library in libraries]
    return ways + [("bfloat16", matrix_library())] * (precision == "bfloat16")


def _best(passes: _Passes, ways: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Of some rounds, in turns, so that a machine that is slow for a while is so to all of them."""
    rounds: list[list[float]] = []
    while len(rounds) < _ROUNDS or (len(rounds) < _MOST and sum(map(sum, rounds)) < _SECONDS):
        rounds.append([passes.seconds(*way) for way in ways])
    return dict(zip(ways, map(min, zip(*rounds, strict=True)), strict=True))


def _is_busy() -> bool:
    """Whether more has been running than there are cores, this process included."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > cores() + 0.5


def _eager(spec: Spec) -> Spec:
    return spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"backend": "eager"})})
