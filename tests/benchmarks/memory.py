"""Compare predicted and measured memory of training: `python tests/benchmarks/memory.py SPEC [KEY=VALUE]`.

The measure is the growth of this process's peak resident memory over two updates on a full batch of random tokens, in
float32 on a CPU, including the weights.
"""

from __future__ import annotations

import resource
import sys

import torch

import specs
from compiler import trainable
from compiler.stream import Stream
from zoo.planning.memory_estimate import estimate_memory

LENGTH = 27


def main(reference: str, overrides: list[str]) -> None:
    spec = specs.load(reference, overrides)
    predicted = estimate_memory(spec, LENGTH)
    _step(specs.load("tiny", ["architecture.N=1", "vocabulary.size=64", "training.accumulation_steps=1"]), rows=2)
    before = _largest()
    _step(
        spec,
        min(spec.training.source_tokens, spec.training.target_tokens) // LENGTH // spec.training.accumulation_steps,
    )
    taken, wanted = _largest() - before, predicted.state_bytes + predicted.activation_bytes
    print(f"{spec.name}: predicted {wanted / 2**20:,.0f} MiB, measured {taken / 2**20:,.0f} MiB, {wanted / taken:.2f}")


def _step(spec: specs.Spec, rows: int) -> None:
    program = trainable(spec).train()
    optimiser = torch.optim.Adam(program.parameters(), lr=1e-4, fused=True)
    for _ in range(2):
        tokens = spec.vocabulary.size
        loss = program(
            Stream.full(torch.randint(4, tokens, (rows, LENGTH))), torch.randint(4, tokens, (rows, LENGTH + 1))
        )
        (loss.smoothed / loss.tokens).backward()
        optimiser.step()
        optimiser.zero_grad()


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
