"""Plots of lines and points over linear or logarithmic axes, drawn as SVG for an HTML page."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from zlib import crc32

from zoo.visualization.page import asset, element, escape_text, text

WIDTH, HEIGHT = 500, 350
_LEFT, _RIGHT, _TOP, _FLOOR = 70, WIDTH - 28, 14, HEIGHT - 56
"""Edges of the area between the axes, in pixels."""
_TICKS = 6
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MIN_LINE = 25
"""A line with at least this many points has no markers."""
_MAX_STRIPS = 100
_DASHES = ("none", "9 5", "2 5", "12 4 2 4")
STYLE = asset("plot.css")
"""Style sheet for plots. A page with plots must define as many series colours as its largest plot has series."""


@dataclass(frozen=True)
class Series:
    """Points of a plot that share a colour and a name in the legend.

    `labels` has one label for each point, or is empty. Hovering over a point shows its label and its values. If `line`
    is true, a line connects the points in order. A point whose y value is not finite is not drawn, and interrupts the
    line.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...] = ()
    line: bool = False


@dataclass(frozen=True)
class Axis:
    """Axis of a plot, with its label. If `log` is true, the axis is logarithmic, and its values must be positive."""

    label: str
    log: bool = False


@dataclass(frozen=True)
class Plot:
    """Plot of one or more series.

    `summary` describes the plot in words, for screen readers. Hovering over a plot with lines shows the values of all
    series.
    """

    title: str
    summary: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]


def plot_figures(plots: Iterable[Plot], *, captions: bool = False) -> str:
    """Return the HTML for a grid of plots with legends, for a page whose style sheet defines the colours.

    Series have different marker shapes as well as different colours. If `captions` is true, the title of each plot is
    its caption.

    Raises:
        ValueError: A plot has no points, or a point is not positive on a logarithmic axis.
    """
    figures = []
    for plot in plots:
        caption = element("figcaption", escape_text(plot.title)) if captions else ""
        figures.append(element("figure", f"{_Drawing(plot).svg()}{_legend(plot.series)}{caption}"))
    return f'<div class="plots">\n{"".join(figures)}\n</div>'


def _legend(series: Sequence[Series]) -> str:
    """Return the legend of a plot as an HTML list, or an empty string if there is only one series."""
    if len(series) == 1:
        return ""
    items = []
    for number, each in enumerate(series):
        line = element("line", kind="curve", x1=-15, y1=0, x2=15, y2=0, **_stroke(number)) if each.line else ""
        mark = "" if each.line and len(each.points) >= _MIN_LINE else _mark(number, 0, 0)
        key = element("svg", line + mark, kind="key", viewBox="-15 -8 30 16", aria_hidden="true")
        items.append(element("li", key + escape_text(each.name)))
    return element("ul", "".join(items), kind="legend")


class _Scale:
    """Function that maps the values of an axis to pixel coordinates between `first` and `last`."""

    def __init__(self, axis: Axis, values: Sequence[float], first: float, last: float) -> None:
        self._position, self._first, self._pixels = math.log if axis.log else float, first, last - first
        low, high = min(values), max(values)
        self._ticks = (_powers if axis.log else _even)(low, high)
        low, high = min(low, self._ticks[0]), max(high, self._ticks[-1])
        if low == high:
            low, high = low - abs(low) / 2 - 0.5 * (not low), high + abs(high) / 2 + 0.5
        self._low = self._position(low)
        self._length = self._position(high) - self._low

    def __call__(self, value: float) -> float:
        return self._first + (self._position(value) - self._low) / self._length * self._pixels

    def ticks(self) -> list[tuple[float, str]]:
        """Return the coordinate and label of each tick.

        If any tick is very large or very small, all labels are written with powers of ten.
        """
        write = _power if any(tick and not 1e-3 <= abs(tick) < 1e6 for tick in self._ticks) else _plain
        return [(self(tick), write(tick)) for tick in self._ticks]


class _Drawing:
    def __init__(self, plot: Plot) -> None:
        points = [point for series in plot.series for point in series.points if math.isfinite(point[1])]
        if not points:
            raise ValueError(f"`{plot.title}` has no points")
        self.plot = plot
        self.x = _Scale(plot.x, [x for x, _ in points], _LEFT, _RIGHT)
        self.y = _Scale(plot.y, [y for _, y in points], _FLOOR, _TOP)

    def svg(self) -> str:
        name = f"plot-{crc32(self.plot.title.encode()):x}"
        series = list(enumerate(self.plot.series))
        parts = [
            element("title", escape_text(self.plot.title), id=name),
            element("desc", escape_text(self.plot.summary), id=f"{name}-summary"),
            *self._axes(),
            *chain.from_iterable(self._curve(number, each) for number, each in series),
            *chain.from_iterable(self._marks(number, each) for number, each in series),
            *(self._strips() if any(each.line for each in self.plot.series) else ()),
        ]
        named = {"role": "img", "aria_labelledby": f"{name} {name}-summary"}
        return element("svg", "\n".join(parts), kind="plot", viewBox=f"0 0 {WIDTH} {HEIGHT}", **named)

    def _axes(self) -> Iterator[str]:
        for x, label in self.x.ticks():
            yield _line("grid", x, _TOP, x, _FLOOR)
            yield text("tick", x, _FLOOR + 20, label, text_anchor="middle")
        for y, label in self.y.ticks():
            yield _line("grid", _LEFT, y, _RIGHT, y)
            yield text("tick", _LEFT - 8, y + 5, label, text_anchor="end")
        yield _line("axis", _LEFT, _FLOOR, _RIGHT, _FLOOR)
        yield _line("axis", _LEFT, _TOP, _LEFT, _FLOOR)
        yield text("name", (_LEFT + _RIGHT) / 2, HEIGHT - 14, self.plot.x.label, text_anchor="middle")
        turn = f"translate(16 {(_TOP + _FLOOR) / 2:g}) rotate(-90)"
        yield text("name", 0, 0, self.plot.y.label, text_anchor="middle", transform=turn)

    def _curve(self, number: int, series: Series) -> Iterator[str]:
        for segment in _segments(series.points) if series.line else ():
            points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in segment)
            yield element("polyline", kind="curve", points=points, **_stroke(number))

    def _marks(self, number: int, series: Series) -> Iterator[str]:
        """Yield a marker for each point. On a line with many points, mark only isolated points."""
        labels = dict(zip(series.points, series.labels, strict=bool(series.labels)))
        for segment in _segments(series.points):
            if not series.line or len(series.points) < _MIN_LINE or len(segment) == 1:
                for x, y in segment:
                    label = f"{labels[x, y]}: {self._values(x, y)}" if labels else ""
                    yield _mark(number, self.x(x), self.y(y), label)

    def _values(self, x: float, y: float) -> str:
        return f"{y:,.5g} at {self.plot.x.label} {x:,.5g}"

    def _strips(self) -> Iterator[str]:
        """Yield transparent vertical strips. The tooltip of a strip shows the values of all series near the strip."""
        finite = [[point for point in series.points if math.isfinite(point[1])] for series in self.plot.series]
        centres = sorted({x for points in finite for x, _ in points})
        centres = centres[:: -max(1, -(-len(centres) // _MAX_STRIPS))][::-1]  # keep the last value
        edges = [_LEFT, *((self.x(one) + self.x(other)) / 2 for one, other in pairwise(centres)), _RIGHT]
        for centre, (left, right) in zip(centres, pairwise(edges), strict=True):
            lines = []
            for series, points in zip(self.plot.series, finite, strict=True):
                if points and points[0][0] <= centre <= points[-1][0]:
                    x, y = points[_nearest(points, centre)]
                    name = f"{series.name}: " if len(finite) > 1 else ""
                    lines.append(f"{name}{self._values(x, y)}")
            values = element("title", escape_text("\n".join(lines)))
            size = {"width": right - left, "height": _FLOOR - _TOP}
            yield element("rect", values, kind="strip", x=left, y=_TOP, **size)


def _segments(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Split the points at non-finite y values, and yield the segments."""
    for is_finite, group in groupby(points, key=lambda point: math.isfinite(point[1])):
        if is_finite:
            yield list(group)


def _nearest(points: Sequence[tuple[float, float]], x: float) -> int:
    """Return the index of the point whose x value is nearest to `x`. The points must be sorted by their x values."""
    right = min(bisect_left(points, x, key=lambda point: point[0]), len(points) - 1)
    return min((max(0, right - 1), right), key=lambda index: abs(points[index][0] - x))


def _powers(low: float, high: float) -> list[float]:
    """Return the ticks for a logarithmic axis: powers of ten that enclose the range from `low` to `high`.

    If there are few powers of ten, also return 2 and 5 times each power.

    Raises:
        ValueError: `low` is not positive.
    """
    if low <= 0:
        raise ValueError(f"{low} is not positive, but the axis is logarithmic")
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first < 3 else (1,)
    every = max(1, (last - first) // 8 + 1) if len(steps) == 1 else 1
    ticks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return ticks[max(0, bisect_left(ticks, low) - 1) : bisect_right(ticks, high) + 1]


def _even(low: float, high: float) -> list[float]:
    """Return the ticks for a linear axis: about six round numbers that enclose the range from `low` to `high`."""
    span = max((high - low) or abs(high) or 1.0, 1e-9)  # ticks are rounded to 12 decimal places
    rough = span / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _power(value: float) -> str:
    if not value:
        return "0"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    factor = round(value / 10.0**power, 3)
    return f"{'' if factor == 1 else f'{factor:g}·'}10{str(power).translate(_SUPERSCRIPT)}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _stroke(number: int) -> dict[str, str]:
    """Return the SVG attributes for the line of series `number`: its colour and its dashes."""
    return {"stroke": f"var(--series-{number})", "stroke_dasharray": _DASHES[number % len(_DASHES)]}


def _mark(number: int, x: float, y: float, label: str = "") -> str:
    """Return the SVG marker of series `number` at a point. The shape (circle, square, ...) depends on the number.

    Hovering over the marker shows the label.
    """
    forms: Sequence[str] = (
        "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        "M-4.5 -4.5h9v9h-9z",
        "M0 -6L5.5 4.5H-5.5z",
        "M0 -6.5L6 0L0 6.5L-6 0z",
        "M-5.5 -4.5H5.5L0 6z",
        "M-6 -2h4v-4h4v4h4v4h-4v4h-4v-4h-4z",
    )
    form, at = forms[number % len(forms)], f"translate({x:.1f} {y:.1f})"
    title = element("title", escape_text(label)) if label else ""
    return element("path", title, kind="mark", d=form, transform=at, fill=f"var(--series-{number})")


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", kind=kind, x1=x1, y1=y1, x2=x2, y2=y2)
