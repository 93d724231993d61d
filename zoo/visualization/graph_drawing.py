"""Draw graphs as SVG, like Figure 1 of the paper: encoder on the left, decoder on the right, data flowing upwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler import TRANSLATE, Graph, Purpose, cost, graphs, lower
from compiler.diagram import Block, Box, Column, columns
from compiler.passes.variants import drop_dropout
from specs import Spec
from zoo.planning.memory_estimate import LENGTH
from zoo.visualization.page import asset, element, image, text

_WIDTH, _HEIGHT, _GAP = 330, 40, 20
"""Width and height of a box that is alone in its row, and the gap between rows. All lengths here are in pixels."""
_PADDING, _BOX_GAP, _MARGIN, _LEFT, _LANES = 16, 30, 40, 62, 44
"""Padding of frames, gap between boxes of a row, outer margin, and space left and right of a column. The left space is
for the number of repetitions, and the right space is for residual connections."""
_COLUMN_WIDTH = _LEFT + _WIDTH + _LANES
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/></marker>'
)


def network_svg(spec: Spec, length: int = LENGTH) -> str:
    """Return an SVG drawing of a spec's network as in the paper's Figure 1, and of the model compiled for translation.

    Args:
        spec: The spec.
        length: The sentence length, in tokens. The FLOPs per token in the title are computed for this length.
    """
    model = drop_dropout(lower(spec, Purpose.TRAIN))
    final = graphs(spec, TRANSLATE)
    whole = cost(model)
    flops = whole.flops(batch=1, source=length, target=length) / length
    panels = {
        "The model": [model],
        f"Compiled for translating, in {spec.compilation.precision}": [
            final[purpose] for purpose in (Purpose.ENCODE, Purpose.DECODE_STEP) if purpose in final
        ],
    }
    title = f"{spec.name}: {whole.parameters:,} parameters, {flops:,.0f} FLOPs per target token"
    return draw(panels, title)


def draw(panels: Mapping[str, Sequence[Graph]], title: str) -> str:
    """Return a drawing as SVG text. It shows one model per panel, and the panels are next to each other.

    Args:
        panels: The graphs of each panel's model, keyed by the panel's heading: one graph for training or scoring, or
            the graphs of the encoder and the decoder step.
        title: Title of the drawing.
    """
    pictures = [_Picture(columns(graphs)) for graphs in panels.values()]
    floor = 3 * _MARGIN + max(picture.height for picture in pictures)
    parts, x = [], _MARGIN
    for name, picture in zip(panels, pictures, strict=True):
        parts.append(text("panel", x + _LEFT - _PADDING, 2 * _MARGIN, name))
        parts += [f'<g transform="translate({x} {floor:g})">', *picture.parts, "</g>"]
        x += picture.width + _MARGIN
    heading = text("title", _MARGIN, _MARGIN, title)
    return image(title, asset("graph_drawing.css"), x, floor + 2 * _MARGIN, f"<defs>{_ARROW}</defs>", heading, *parts)


@dataclass(frozen=True)
class _Position:
    """Position of a box: its row (counted from the bottom), its upper left corner, and its width.

    The bottom of the panel is at y = 0. Positions above the bottom have a negative y.
    """

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
    """SVG elements of one panel, whose bottom is at y = 0. Frames come first, then edges, then boxes."""

    width = 2 * _COLUMN_WIDTH

    def __init__(self, columns: tuple[Column, Column]) -> None:
        self.positions: dict[Box, _Position] = {}
        self.rows: tuple[list[list[Box]], list[list[Box]]] = ([], [])
        frames: list[str] = []
        tops = [self._lay_out(index, column, frames) for index, column in enumerate(columns)]
        self.height = _GAP - min(tops)
        self._used_lanes: list[tuple[float, float, int, int]] = []
        edges = [edge for box in self.positions for edge in self._edges(box)]
        boxes = [line for box, position in self.positions.items() for line in _draw_box(box, position)]
        outputs = [line for index, column in enumerate(columns) for line in self._outputs(index, column, tops[index])]
        self.parts = [*frames, *edges, *boxes, *outputs]

    def _lay_out(self, index: int, column: Column, frames: list[str]) -> float:
        """Set the positions of a column's boxes, and add its frames to `frames`. Return the y coordinate of the top."""
        left, y, rows = _LEFT + index * _COLUMN_WIDTH, 0.0, self.rows[index]
        for block in column.blocks:
            bottom = y
            y -= _PADDING if block.label else 0
            for row in block.rows():
                width = (_WIDTH - _BOX_GAP * (len(row) - 1)) / len(row)
                for number, box in enumerate(row):
                    x = left + number * (width + _BOX_GAP)
                    self.positions[box] = _Position(len(rows), x, y - _HEIGHT, width)
                rows.append(row)
                y -= _HEIGHT + _GAP
            if block.label:
                y -= _PADDING - 2
                frames += _frame(block, left, y, bottom)
                y -= _GAP
        return y

    def _edges(self, box: Box) -> Iterator[str]:
        end = self.positions[box]
        for source in box.sources:
            start = self.positions[source]
            between = self.rows[box.column][start.row + 1 : end.row]
            if source.column != box.column:
                yield _memory_edge(start, end)
            elif all(len(row) % 2 == 0 for row in between):
                y = end.bottom + _GAP / 2
                bend = "" if start.middle == end.middle else f"V{y:g} H{end.middle:g} "
                yield _edge("edge", f"M{start.middle:g} {start.y:g} {bend}V{end.bottom:g}")
            else:
                yield self._residual(start, end, self.positions[between[0][0]].bottom + 0.7 * _GAP)
        if box.kind == "embedding" or box.inputs == ["source"]:
            yield _edge("edge", f"M{end.middle:g} {end.bottom + _GAP:g} V{end.bottom:g}")
            yield text("input", end.middle, end.bottom + _GAP + 14, ", ".join(box.inputs), text_anchor="middle")

    def _residual(self, start: _Position, end: _Position, y: float) -> str:
        """Return the SVG of a residual connection. It passes the skipped boxes on the right, in the first free lane."""
        right, target = end.x + end.width, end.y + _HEIGHT / 2
        column = int(end.x > _LEFT + _WIDTH)
        used = {lane for top, bottom, lane, of in self._used_lanes if of == column and top < y and target < bottom}
        lane = next(number for number in range(len(used) + 1) if number not in used)
        self._used_lanes.append((target, y, lane, column))
        return _edge("residual", f"M{start.middle:g} {y:g} H{right + 10 + lane * 9:g} V{target:g} H{right:g}")

    def _outputs(self, index: int, column: Column, top: float) -> Iterator[str]:
        for name, shape in column.outputs.items():
            x = _LEFT + index * _COLUMN_WIDTH + _WIDTH / 2
            yield _edge("edge", f"M{x:g} {top + _GAP:g} V{top:g}")
            yield text("output", x, top - 6, f"{name.replace('_', ' ')} {shape}", text_anchor="middle")


def _draw_box(box: Box, position: _Position) -> Iterator[str]:
    x, y, right = position.x + 8, position.y + 16, position.x + position.width - 8
    size = {"x": position.x, "y": position.y, "width": position.width, "height": _HEIGHT, "rx": 5}
    yield element("rect", kind=f"box {box.kind}", **size)
    if position.width == _WIDTH:
        yield text("operation", x, y, box.title)
        yield text("detail", x, y + 17, box.detail)
        yield text("shape", right, y + 17, box.shape, text_anchor="end")
    else:
        words = f"{box.title.split()[0].rstrip(',')} {box.detail.rpartition(': ')[2].removeprefix('grown ')}"
        yield text("operation", position.middle, y, words, text_anchor="middle")
        max_width = position.width - 6
        too_wide = 5 * len(box.shape) > max_width
        fit: dict[str, str | float] = {"textLength": max_width, "lengthAdjust": "spacingAndGlyphs"} if too_wide else {}
        yield text("narrow", position.middle, y + 17, box.shape, text_anchor="middle", **fit)


def _frame(block: Block, left: float, top: float, bottom: float) -> list[str]:
    x, width, height = left - _PADDING, _WIDTH + _PADDING + _LANES - 10, bottom - top
    lines = [element("rect", kind="layer", x=x, y=top, width=width, height=height, rx=12)]
    stack, _, index = block.label.partition(".")
    if block.times > 1:
        lines.append(text("times", x - 7, bottom - height / 4, f"{block.times} ×", text_anchor="end"))
        index = f"{index} to {int(index) + block.times - 1}"
    return [*lines, text("name", left - 4, top + 14, f"{stack} {index}")]


def _memory_edge(start: _Position, end: _Position) -> str:
    """Return the SVG of an edge from the encoder to a box of the decoder.

    The edge ends at the left side of a box that is alone in its row, otherwise at the bottom of the box.
    """
    path = f"M{start.middle:g} {start.y:g} V{start.y - _GAP / 2:g} H{_COLUMN_WIDTH + 6:g}"
    if end.width == _WIDTH:
        return _edge("memory", f"{path} V{end.y + _HEIGHT / 2:g} H{end.x:g}")
    return _edge("memory", f"{path} V{end.bottom + 0.3 * _GAP:g} H{end.middle + 5:g} V{end.bottom:g}")


def _edge(kind: str, path: str) -> str:
    return element("path", kind=kind, d=path, marker_end="url(#arrow)")
