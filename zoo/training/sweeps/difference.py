"""Two rows by one metric: how much they differ, and how much of that may be chance.

Chance comes twice: another seed trains other weights, and another dev set has other sentences. How much scores vary
from seed to seed is taken to be alike for all rows, and estimated from all that were trained by several (the pooled
variance). How much a difference varies with the sentences is that of the paired bootstrap, on the mean over the seeds.
A difference is beyond noise where it is larger than half the interval of 95 % that both make together (Student's t, its
degrees of freedom by Welch and Satterthwaite).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, variance

import numpy as np

from zoo.evaluation.bootstrap import FloatArray, interval_half_width

_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t that is exceeded on either side by 2.5 %, for 1 degree of freedom on."""
_NORMAL = 1.96


class Verdict(StrEnum):
    """What ours say of an ordering."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOISE = "within noise"


@dataclass(frozen=True, eq=False)
class Sample:
    """A row's scores by one metric: of each seed, and the mean of the seeds on each set of sentences drawn."""

    seeds: tuple[float, ...]
    drawn: FloatArray

    @property
    def mean(self) -> float:
        return fmean(self.seeds)

    @property
    def half(self) -> float:
        """Half the width of the interval that holds 95 of 100 sets of sentences."""
        return interval_half_width(self.drawn)


@dataclass(frozen=True)
class Spread:
    """The variance from seed to seed, and of how many degrees of freedom it is; 0 of 0 where each row has one seed."""

    variance: float
    degrees: int


@dataclass(frozen=True)
class Difference:
    """What the second row's mean has more than the first's, and half the interval of 95 % of that."""

    value: float
    half: float

    @property
    def beyond_noise(self) -> bool:
        return abs(self.value) > self.half

    def verdict(self, wanted: float) -> Verdict:
        """On an ordering: `wanted` is a difference, other than 0, of which the sign counts."""
        if not self.beyond_noise:
            return Verdict.NOISE
        return Verdict.CONFIRMED if self.value * wanted > 0 else Verdict.CONTRADICTED


def spread(samples: Iterable[Sample]) -> Spread:
    """From seed to seed, over all rows."""
    several = [sample.seeds for sample in samples if len(sample.seeds) > 1]
    degrees = sum(len(seeds) - 1 for seeds in several)
    total = sum((len(seeds) - 1) * variance(seeds) for seeds in several)
    return Spread(total / degrees if degrees else 0.0, degrees)


def difference(first: Sample, second: Sample, seeds: Spread) -> Difference:
    """Of two rows that were scored on the same sentences."""
    by_seeds = seeds.variance * (1 / len(first.seeds) + 1 / len(second.seeds))
    by_sentences = float(np.var(second.drawn - first.drawn, ddof=1))
    total = by_seeds + by_sentences
    degrees = seeds.degrees * (total / by_seeds) ** 2 if by_seeds else math.inf
    return Difference(second.mean - first.mean, quantile(degrees) * math.sqrt(total))


def quantile(degrees: float) -> float:
    """Student's t that is exceeded on either side by 2.5 %."""
    if degrees >= len(_T):
        return _NORMAL + 2.46 / degrees
    return _T[max(1, int(degrees)) - 1]
