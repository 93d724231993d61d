"""Time Table 1's layers by sequence length: `python -m tests.benchmarks.sublayers [--d D] [--causal] [--backward]`.

For each layer type and sequence length, the script prints the fastest of five rounds. Each run is one layer with its
residual connection on one sequence. The printed exponent is the slope of a line fitted to the logarithms of length and
time. The script then prints the length from which restricted attention is faster than full attention. Finally, it
measures the time and memory of each layer type for 16,384 positions, in separate processes. Stop all other programs
first: a second busy process makes the results useless.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import linear_regression

import torch
from torch import Tensor

import specs
from compiler import EmittedProgram, Purpose, emit
from compiler.backends.eager import Functions
from compiler.costs import END, LENGTH, START, SubLayer, sublayer_stack
from compiler.graph import origins
from compiler.host import tune_process
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from tests.benchmarks.arguments import TOY_HELP
from zoo.system.memory import peak_memory
from zoo.system.processors import host, repeat

FULL, RESTRICTED = SelfAttention(kind="self_attention"), RestrictedAttention(kind="restricted_attention", radius=64)
KINDS: dict[str, SubLayer] = {
    "self-attention": FULL,
    "restricted, r = 64": RESTRICTED,
    "SSRU": Ssru(kind="ssru"),
    "LSTM": Lstm(kind="lstm"),
    "convolution, k = 3": Convolution(kind="convolution", kernel=3, dilated=False),
    "dilated, k = 3": Convolution(kind="convolution", kernel=3, dilated=True),
    "separable, k = 7": SeparableConvolution(kind="separable_convolution", kernel=7),
}
LENGTHS = (2048, 4096, 8192, 16_384, 32_768)
"""Sequence lengths. With 128 features, the operations that Table 1 counts dominate the time at these lengths. There are
enough lengths that a single outlier hardly changes the exponent."""
MAX_SECONDS = 0.25
"""Maximum time of a layer in seconds. If a layer takes longer at one length, greater lengths are skipped, because
attention would need gigabytes of memory."""
MIN_SECONDS = 0.05
"""Minimum time in seconds for measuring each length in each round, after a first run that is not counted."""
SHORTER = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)
LONGEST = 16_384


def main() -> None:
    given = _arguments()
    lengths, shorter, longest = ((8, 16), (8, 16), 16) if given.toy else (LENGTHS, SHORTER, LONGEST)
    how = {"d": given.d, "heads": 1, "causal": given.causal, "backward": given.backward}
    if given.longest:
        seconds = time_sublayer(KINDS[given.longest], [longest], rounds=1, **how)[longest]
        most = peak_memory("cpu") / 2**30
        print(f"{given.longest}: {longest:,} positions in {seconds:.3g} s, {most:.2f} GiB at most")
        return
    tune_process()
    print(host(), how)
    if given.toy:
        how["rounds"] = 1
    for name, of in KINDS.items():
        found = time_sublayer(of, lengths, max_seconds=MAX_SECONDS, **how)
        shown = "  ".join(f"{n:,}: {seconds * 1e3:.3g} ms" for n, seconds in found.items())
        print(f"{name:20} n^{growth_exponent(found):.2f}  {shown}", flush=True)
    full, near = (time_sublayer(of, shorter, **how) for of in (FULL, RESTRICTED))
    print(f"restricted attention is faster from n = {crossing(full, near)} on")
    for name in KINDS:
        command = [sys.executable, "-m", "tests.benchmarks.sublayers", *sys.argv[1:], "--longest", name]
        subprocess.run(command, check=False)


def crossing(other: Mapping[int, float], one: Mapping[int, float]) -> int | None:
    """Return the smallest length from which one sub-layer is always faster than another, or None if there is none.

    Args:
        other: The time of the other sub-layer for each length.
        one: The time of the sub-layer that may become faster, for the same lengths.
    """
    slower = max((n for n in one if one[n] >= other[n]), default=0)
    return min((n for n in one if n > slower), default=None)


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
    """Time one sub-layer with its residual connection at several sequence lengths, using all PyTorch CPU threads.

    Each round times all lengths, so a temporary slowdown of the machine affects all lengths.

    Args:
        sublayer: The spec of the sub-layer.
        lengths: The sequence lengths, in increasing order.
        d: The number of features of each position (d_model).
        heads: The number of attention heads.
        causal: Whether a position depends only on itself and earlier positions.
        backward: Whether to include the backward pass.
        rounds: The number of rounds.
        max_seconds: If a length takes longer than this, skip all greater lengths. The first two lengths are always
            timed.

    Returns:
        The shortest time in seconds for each length that was not skipped.
    """
    program, times = _program(sublayer, d, heads, causal), dict.fromkeys(lengths, math.inf)
    for _ in range(rounds):
        for n in list(times):
            if n not in times:
                continue
            inputs = {START: torch.randn(1, n, d, requires_grad=backward), LENGTH: torch.tensor([n])}
            run = partial(_backward if backward else _forward, program, inputs)
            run()
            times[n] = min(times[n], *repeat(run, MIN_SECONDS))
            if times[n] > max_seconds:  # an exponent needs two lengths
                times = {m: seconds for m, seconds in times.items() if m <= n or m in lengths[:2]}
    return times


def growth_exponent(points: Mapping[int, float]) -> float:
    """Fit y = a · x^b to points (x -> y) by least squares on the logarithms, and return the exponent b.

    There must be at least two points. All x and y must be positive.
    """
    return linear_regression(list(map(math.log, points)), list(map(math.log, points.values()))).slope


def _program(sublayer: SubLayer, d: int, heads: int, causal: bool) -> EmittedProgram:
    """Compile a model that consists of one sub-layer with normally distributed random weights."""
    graph = sublayer_stack(sublayer, d, 1, heads=heads, causal=causal)
    generator = torch.Generator().manual_seed(0)
    parameters = {
        name: torch.nn.Parameter(torch.empty(origin.shape).normal_(0.0, d**-0.5, generator=generator))
        for name, origin in origins([graph]).items()
    }
    return EmittedProgram(specs.load("base"), {Purpose.ENCODE: graph}, Functions(emit([graph])), parameters)


def _forward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        program.run(Purpose.ENCODE, **inputs)


def _backward(program: EmittedProgram, inputs: Mapping[str, Tensor]) -> None:
    program.zero_grad()
    inputs[START].grad = None
    torch.autograd.backward(program.run(Purpose.ENCODE, **inputs)[END].sum())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--toy", action="store_true", help=TOY_HELP)
    parser.add_argument(
        "--longest", choices=KINDS, help="only measure the time and memory of this layer type with 16,384 positions"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
