"""Plots for the terminal, drawn with braille characters, each of which has two columns of four dots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from zoo.report import figure

_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of each dot of a braille character: left and right column, from top to bottom."""
_BLANK = 0x2800


def line_plot(points: Sequence[tuple[float, float]], width: int, height: int, x_name: str) -> list[str]:
    """Return the lines of a plot.

    Args:
        points: The points, in the order of their x values. A y value that is not finite interrupts the line.
        width: Width of the plot in characters, with its labels.
        height: Height of the plot in lines, without the labels of the x-axis.
        x_name: Name of the x-axis.

    Returns:
        The lines of text. Empty if no point has a finite y value.
    """
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return []
    (first, last), (low, high) = (
        (min(values), max(values)) for values in ([x for x, _ in finite], [y for _, y in finite])
    )
    labels = figure(high), figure(low)
    margin = max(map(len, labels))
    columns, rows = 2 * max(2, width - margin - 2), 4 * height

    def dot(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        across = (x - first) / (last - first) if last > first else 0.5
        down = (high - y) / (high - low) if high > low else 0.5
        return across * (columns - 1), down * (rows - 1)

    cells = [[0] * (columns // 2) for _ in range(height)]
    for x, y in _dots([dot(point) if math.isfinite(point[1]) else None for point in points]):
        cells[y // 4][x // 2] |= _BITS[x % 2][y % 4]
    lines = []
    for number, row in enumerate(cells):
        label = {0: labels[0], height - 1: labels[1]}.get(number, "")
        lines.append(f"{label:>{margin}} ┤" + "".join(chr(_BLANK + bits) for bits in row))
    start, end = f"{x_name} {figure(first)}", figure(last)
    gap = " " * max(1, columns // 2 - len(start) - len(end))
    return [*lines, f"{'':{margin}} └{'─' * (columns // 2)}", f"{'':{margin}}  {start}{gap}{end}"]


def _dots(points: Sequence[tuple[float, float] | None]) -> Iterator[tuple[int, int]]:
    """Yield the dots of a line through points. None interrupts the line."""
    for point in points:
        if point is not None:
            yield round(point[0]), round(point[1])
    for one, other in pairwise(points):
        if one is not None and other is not None:
            (x, y), (to_x, to_y) = one, other
            count = math.ceil(max(abs(to_x - x), abs(to_y - y), 1))
            yield from (
                (round(x + (to_x - x) * step / count), round(y + (to_y - y) * step / count)) for step in range(count)
            )
