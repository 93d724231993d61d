"""Compare the training speed of the backends: `python tests/benchmarks/backends.py SPEC [KEY=VALUE ...]`.

The backends take turns with the same batches, so that a change of the machine's speed affects all. The figures are
medians over the rounds, and the median of the ratios within a round. Stop all other programs first: a second busy
process makes the figures worthless.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import specs
from compiler import EmittedProgram, Purpose, build
from compiler.backends import BACKENDS
from compiler.stream import Stream

ROUNDS = 6
LENGTHS = (11, 16, 27)


def main(reference: str, overrides: list[str]) -> None:
    spec = specs.load(reference, overrides)
    programs = {
        name: build(spec, [Purpose.TRAIN], backend=name).train() for name, each in BACKENDS.items() if each.trainable
    }
    steps = {name: _Step(program) for name, program in programs.items()}
    for name, step in steps.items():
        started = time.perf_counter()
        for length in LENGTHS:
            step(length)
        print(f"{name}: first steps, compilation included, {time.perf_counter() - started:.1f} s")
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for length in LENGTHS:
            for name, step in steps.items():
                seconds[name].append(step(length))
    tokens = 2 * spec.training.target_tokens
    first = next(iter(seconds.values()))
    for name, taken in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(first, taken, strict=True))
        print(f"{name}: {tokens / statistics.median(taken):,.0f} tokens/s, {ratio:.2f} of {next(iter(seconds))}")


class _Step:
    """Training step on a full batch of random tokens."""

    def __init__(self, program: EmittedProgram) -> None:
        self.program, self.training = program, program.spec.training
        self.optimiser = torch.optim.Adam(program.parameters(), lr=1e-4, fused=True)

    def __call__(self, length: int) -> float:
        rows, tokens = self.training.target_tokens // length, self.program.spec.vocabulary.size
        source, target = torch.randint(4, tokens, (rows, length)), torch.randint(4, tokens, (rows, length + 1))
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training.precision == "bfloat16"):
            loss = self.program(Stream.full(source), target)
        (loss.smoothed / loss.tokens).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return time.perf_counter() - started


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
