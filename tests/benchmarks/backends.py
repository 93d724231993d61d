"""Compare the training speed of the backends: `python -m tests.benchmarks.backends SPEC [KEY=VALUE ...]`.

The backends take turns with the same batches, so that a change of the machine's speed affects all. The figures are
medians over the rounds, and the median of the ratios within a round. Stop all other programs first: a second busy
process makes the figures worthless.
"""

from __future__ import annotations

import statistics
import time

import torch

from compiler import build_module
from compiler.backends import BACKENDS
from compiler.padded_batch import PaddedBatch
from specs import Spec
from tests.benchmarks.arguments import create_parser, load_spec

ROUNDS = 6
LENGTHS = (11, 16, 27)


def main() -> None:
    given = create_parser(__doc__).parse_intermixed_args()
    names = ["eager"] if given.toy else [name for name, backend in BACKENDS.items() if backend.can_train]
    each = {name: [*given.overrides, f"compilation.backend={name}"] for name in names}
    steps = {name: _Step(load_spec(given.spec, overrides, toy=given.toy)) for name, overrides in each.items()}
    for name, step in steps.items():
        started = time.perf_counter()
        for length in LENGTHS:
            step(length)
        print(f"{name}: first steps, compilation included, {time.perf_counter() - started:.1f} s")
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(1 if given.toy else ROUNDS):
        for length in LENGTHS:
            for name, step in steps.items():
                seconds[name].append(step(length))
    first = next(iter(seconds.values()))
    for name, taken in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(first, taken, strict=True))
        tokens = 2 * steps[name].training.target_tokens
        print(f"{name}: {tokens / statistics.median(taken):,.0f} tokens/s, {ratio:.2f} of {names[0]}")


class _Step:
    """Training step on a full batch of random tokens."""

    def __init__(self, spec: Spec) -> None:
        self.program, self.training = build_module(spec).train(), spec.training
        self.optimiser = torch.optim.Adam(self.program.parameters(), lr=1e-4, fused=True)

    def __call__(self, length: int) -> float:
        rows, tokens = self.training.target_tokens // length, self.program.spec.vocabulary.size
        source, target = torch.randint(4, tokens, (rows, length)), torch.randint(4, tokens, (rows, length + 1))
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training.precision == "bfloat16"):
            loss = self.program(PaddedBatch.full(source), target)
        (loss.smoothed / loss.tokens).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
