"""How long the layers of Table 1 take on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from zoo.paper.evidence import Timing
from zoo.paper.table1 import ALL, AT, Kind
from zoo.training.benchmarks.sublayers import exponent, timed

LENGTHS, WIDTH = (2048, 4096, 8192, 16_384, 32_768), 128
"""So long and so narrow that what Table 1 counts outweighs the rest, and so many that one odd time bends no line."""
ENOUGH = 0.25
"""Seconds after which a layer is not timed at greater lengths: attention, which soon wants gigabytes."""


def timings(kinds: Iterable[Kind] = ALL, lengths: Sequence[int] = LENGTHS) -> Iterator[Timing]:
    """Times each layer forwards, as a decoder has it: half a minute."""
    for kind in kinds:
        found = timed(kind.sublayer(AT["k"], AT["r"]), lengths, WIDTH, causal=True, enough=ENOUGH)
        seconds = tuple((each.n, each.seconds) for each in found)
        formula = tuple((n, kind.operations(n, WIDTH, AT["k"], AT["r"])) for n, _ in seconds)
        yield Timing(kind.key, seconds, exponent(seconds), exponent(formula))
