"""Draws graphs as Figure 1 of the paper does: the encoder left, the decoder right, data going up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from compiler.figure import Block, Box, Column, columns
from compiler.graph import Graph

_WIDTH, _HEIGHT, _GAP = 330, 40, 20
"""Of a box that has its row for itself, and between two rows; all in pixels."""
_PADDING, _BETWEEN, _MARGIN, _SIDE, _LANES = 16, 30, 40, 62, 44
"""Inside a frame, between boxes of a row, round it all; left of a column for its times, right of it for residuals."""
_COLOURS = {
    "embedding": "#fbe3e4",
    "position": "#ffffff",
    "linear": "#cde9f6",
    "int8": "#a9d5ee",
    "attention": "#ffe2bd",
    "add": "#f3f4c9",
    "cache": "#e9e0f5",
    "logits": "#dfe1f2",
    "softmax": "#cfe9d2",
}
"""As in Figure 1, where it has one."""
_STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 11px; fill: #444 }
.title { font-size: 18px; font-weight: bold; fill: #111 }
.panel { font-size: 14px; font-weight: bold; fill: #111 }
.operation { font-size: 12px; font-weight: bold; fill: #111 }
.narrow { font-size: 9px }
.times { font-size: 17px; fill: #111 }
.box { stroke: #333; stroke-width: 1 }
.layer { fill: #f4f4f5; stroke: #888; stroke-width: 1.2 }
.edge { fill: none; stroke: #333; stroke-width: 1.3 }
.residual { fill: none; stroke: #8a6d00; stroke-width: 1.3 }
.memory { fill: none; stroke: #b4521b; stroke-width: 1.6 }
"""
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/></marker>'
)


def draw(panels: Mapping[str, Sequence[Graph]], title: str) -> str:
    """An SVG of one figure a panel, side by side. A panel is a graph for training or scoring, or encode and a step."""
    pictures = [_Picture(columns(graphs)) for graphs in panels.values()]
    floor = 3 * _MARGIN + max(picture.height for picture in pictures)
    parts, x = [], _MARGIN
    for name, picture in zip(panels, pictures, strict=True):
        parts.append(_text("panel", x + _SIDE - _PADDING, 2 * _MARGIN, name))
        parts += [f'<g transform="translate({x} {floor:g})">', *picture.parts, "</g>"]
        x += picture.width + _MARGIN
    height = floor + 2 * _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {height:g}" width="{x}" height="{height:g}">',
            f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n<defs>{_ARROW}</defs>",
            '<rect width="100%" height="100%" fill="white"/>',
            _text("title", _MARGIN, _MARGIN, title),
            *parts,
            "</svg>\n",
        ]
    )


@dataclass(frozen=True)
class _Place:
    """Of a box: its row in its column, counted from below, and its upper left corner; the floor is at y = 0."""

    row: int
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + _HEIGHT


class _Picture:
    """One figure, standing on y = 0. Frames are drawn first, then edges, then boxes."""

    width = 2 * (_SIDE + _WIDTH + _LANES)

    def __init__(self, both: tuple[Column, Column]) -> None:
        self.places: dict[Box, _Place] = {}
        self.rows: tuple[list[list[Box]], list[list[Box]]] = ([], [])
        frames: list[str] = []
        tops = [self._place(number, column, frames) for number, column in enumerate(both)]
        self.height = _GAP - min(tops)
        self._taken: list[tuple[float, float, int, int]] = []
        edges = [edge for box in self.places for edge in self._edges(box)]
        boxes = [line for box, place in self.places.items() for line in _drawn(box, place)]
        ends = [line for number, column in enumerate(both) for line in self._outputs(number, column, tops[number])]
        self.parts = [*frames, *edges, *boxes, *ends]

    def _place(self, number: int, column: Column, frames: list[str]) -> float:
        """Gives every box of a column its place, and says where the column ends."""
        left, y, rows = _SIDE + number * (_SIDE + _WIDTH + _LANES), 0.0, self.rows[number]
        for block in column.blocks:
            bottom = y
            y -= _PADDING if block.label else 0
            for row in block.rows():
                width = (_WIDTH - _BETWEEN * (len(row) - 1)) / len(row)
                for place, box in enumerate(row):
                    x = left + place * (width + _BETWEEN)
                    self.places[box] = _Place(len(rows), x, y - _HEIGHT, width)
                rows.append(row)
                y -= _HEIGHT + _GAP
            if block.label:
                y -= _PADDING - 2
                frames += _frame(block, left, y, bottom)
                y -= _GAP
        return y

    def _edges(self, box: Box) -> Iterator[str]:
        place = self.places[box]
        for source in box.sources:
            start = self.places[source]
            between = self.rows[box.column][start.row + 1 : place.row]
            if source.column != box.column:
                yield _memory(start, place)
            elif all(len(row) % 2 == 0 for row in between):
                y = place.bottom + _GAP / 2
                way = "" if start.middle == place.middle else f"V{y:g} H{place.middle:g} "
                yield _edge("edge", f"M{start.middle:g} {start.y:g} {way}V{place.bottom:g}")
            else:
                yield self._residual(start, place, self.places[between[0][0]].bottom + 0.7 * _GAP)
        if box.kind == "embedding":
            yield _edge("edge", f"M{place.middle:g} {place.bottom + _GAP:g} V{place.bottom:g}")
            yield _text("input", place.middle, place.bottom + _GAP + 14, ", ".join(box.inputs), "middle")

    def _residual(self, start: _Place, end: _Place, y: float) -> str:
        """Round the boxes between them, on their right, in the innermost lane that is free at this height."""
        right, goal = end.x + end.width, end.y + _HEIGHT / 2
        column = int(end.x > _SIDE + _WIDTH)
        used = {lane for top, bottom, lane, of in self._taken if of == column and top < y and goal < bottom}
        lane = next(number for number in range(len(used) + 1) if number not in used)
        self._taken.append((goal, y, lane, column))
        return _edge("residual", f"M{start.middle:g} {y:g} H{right + 10 + lane * 9:g} V{goal:g} H{right:g}")

    def _outputs(self, number: int, column: Column, top: float) -> Iterator[str]:
        for name, shape in column.outputs.items():
            x = _SIDE + number * (_SIDE + _WIDTH + _LANES) + _WIDTH / 2
            yield _edge("edge", f"M{x:g} {top + _GAP:g} V{top:g}")
            yield _text("output", x, top - 6, f"{name.replace('_', ' ')} {shape}", "middle")


def _drawn(box: Box, place: _Place) -> Iterator[str]:
    x, y, right = place.x + 8, place.y + 16, place.x + place.width - 8
    size = f'x="{place.x:g}" y="{place.y:g}" width="{place.width:g}" height="{_HEIGHT}" rx="5"'
    yield f'<rect class="box" {size} fill="{_COLOURS[box.kind]}"/>'
    if place.width == _WIDTH:
        yield _text("operation", x, y, box.title)
        yield _text("detail", x, y + 17, box.detail)
        yield _text("shape", right, y + 17, box.shape, "end")
    else:
        words = f"{box.title.split()[0].rstrip(',')} {box.detail.rpartition(': ')[2].removeprefix('grown ')}"
        yield _text("operation", place.middle, y, words, "middle")
        yield _text("narrow", place.middle, y + 17, box.shape, "middle", most=place.width - 6)


def _frame(block: Block, left: float, top: float, bottom: float) -> list[str]:
    x, width, height = left - _PADDING, _WIDTH + _PADDING + _LANES - 10, bottom - top
    lines = [f'<rect class="layer" x="{x:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="12"/>']
    stack, _, number = block.label.partition(".")
    if block.times > 1:
        lines.append(_text("times", x - 7, bottom - height / 4, f"{block.times} ×", "end"))
        number = f"{number} to {int(number) + block.times - 1}"
    return [*lines, _text("name", left - 4, top + 14, f"{stack} {number}")]


def _memory(start: _Place, end: _Place) -> str:
    """From the encoder's column between the two to a box's side, or from below where others stand beside it."""
    channel = _SIDE + _WIDTH + _LANES + 6
    way = f"M{start.middle:g} {start.y:g} V{start.y - _GAP / 2:g} H{channel:g}"
    if end.width == _WIDTH:
        return _edge("memory", f"{way} V{end.y + _HEIGHT / 2:g} H{end.x:g}")
    return _edge("memory", f"{way} V{end.bottom + 0.3 * _GAP:g} H{end.middle + 5:g} V{end.bottom:g}")


def _edge(kind: str, path: str) -> str:
    return f'<path class="{kind}" d="{path}" marker-end="url(#arrow)"/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start", most: float | None = None) -> str:
    narrowed = most is not None and 5 * len(text) > most
    fit = f' textLength="{most:g}" lengthAdjust="spacingAndGlyphs"' if narrowed else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}"{fit}>{escape(text)}</text>'
