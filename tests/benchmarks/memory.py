"""Compare predicted and measured memory of training: `python -m tests.benchmarks.memory SPEC [KEY=VALUE]`.

The measure is the growth of this process's peak resident memory over two updates on a full batch of random tokens, in
float32 on a CPU, including the weights.
"""

from __future__ import annotations

import torch

import specs
from compiler import trainable
from compiler.padded_batch import PaddedBatch
from tests.benchmarks.arguments import create_parser, load_spec
from zoo.planning.memory_estimate import estimate_memory
from zoo.system.memory import peak_memory

LENGTH = 27


def main() -> None:
    given = create_parser(__doc__).parse_intermixed_args()
    spec = load_spec(given.spec, given.overrides, toy=given.toy)
    predicted = estimate_memory(spec, LENGTH)
    _step(specs.load("tiny", ["architecture.N=1", "vocabulary.size=64", "training.accumulation_steps=1"]), rows=2)
    before = peak_memory("cpu")
    _step(
        spec,
        min(spec.training.source_tokens, spec.training.target_tokens) // LENGTH // spec.training.accumulation_steps,
    )
    taken, wanted = peak_memory("cpu") - before, predicted.state_bytes + predicted.activation_bytes
    ratio = wanted / max(taken, 1)
    print(f"{spec.name}: predicted {wanted / 2**20:,.0f} MiB, measured {taken / 2**20:,.0f} MiB, {ratio:.2f}")


def _step(spec: specs.Spec, rows: int) -> None:
    program = trainable(spec).train()
    optimiser = torch.optim.Adam(program.parameters(), lr=1e-4, fused=True)
    for _ in range(2):
        tokens = spec.vocabulary.size
        loss = program(
            PaddedBatch.full(torch.randint(4, tokens, (rows, LENGTH))), torch.randint(4, tokens, (rows, LENGTH + 1))
        )
        (loss.smoothed / loss.tokens).backward()
        optimiser.step()
        optimiser.zero_grad()


if __name__ == "__main__":
    main()
