"""What the paper's Table 3 prints of a row, and how it orders two."""

from __future__ import annotations

import math

from zoo.paper import table3
from zoo.training.sweeps.rows import Row

ORDERED = ("perplexity", "paper_bleu")
"""The metrics that the table has: its BLEU is not sacreBLEU's."""


def printed(row: Row) -> table3.Row | None:
    """Of a row of Table 3, however it is scaled; None of any other."""
    folder, _, key = row.spec.short_name.rpartition("/")
    return table3.BY_KEY.get(key) if folder == "table3" else None


def printed_difference(metric: str, first: Row, second: Row) -> float | None:
    """What the second row has more than the first, of perplexity in logarithms; None where it is not printed."""
    one, two = printed(first), printed(second)
    if one is None or two is None or metric not in ORDERED:
        return None
    if metric == "perplexity":
        return math.log(float(two.perplexity) / float(one.perplexity))
    return float(two.bleu) - float(one.bleu)
