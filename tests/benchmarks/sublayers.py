"""Table 1 over the length of a sequence: `python -m tests.benchmarks.sublayers [--d D] [--causal] [--backward]`.

Times one layer of each kind with its residual connection on one sequence, and prints the fastest run of five rounds.
The exponent is the slope of the line through the logarithms of length and seconds. Then it prints the length from which
restricted attention is faster than full attention, and, each in its own process, time and memory for 16,384 positions.
Stop all other programs first: a second busy process makes the figures worthless.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping

from compiler.costs import SubLayer
from compiler.host import tune_process
from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, SeparableConvolution, Ssru
from tests.benchmarks.arguments import TOY_HELP
from zoo.paper.table1 import LENGTHS, MAX_SECONDS, growth_exponent, time_sublayer
from zoo.system.memory import peak_memory
from zoo.system.processors import host

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
    """Return the smallest length such that sub-layer `one` is faster than `other` at this and all greater lengths.

    None if there is no such length.
    """
    slower = max((n for n in one if one[n] >= other[n]), default=0)
    return min((n for n in one if n > slower), default=None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--toy", action="store_true", help=TOY_HELP)
    parser.add_argument("--longest", choices=KINDS, help="measure only this kind, at 16,384 positions, with its memory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
