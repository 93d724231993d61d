"""Drawings show every operation once, above what it reads, and without overlaps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

import specs
from compiler import TRANSLATE, Graph, Purpose, graphs, lower
from compiler.diagram import Box, Column, columns
from specs import Spec, ZooError
from zoo.planning.plan import plan
from zoo.visualization.graph_drawing import draw, draw_network

SVG = "{http://www.w3.org/2000/svg}"
UNFUSED = ["fuse_projections", "fuse_memory", "hoist_memory", "beams_as_queries", "plan_cache", "drop_dropout"]
NAMES = ["base", "table3/e-learned"]


def panels(spec: Spec) -> dict[str, Sequence[Graph]]:
    final = graphs(spec, TRANSLATE)
    train = [graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN]]
    return {"train": train, "translate": [final[Purpose.ENCODE], final[Purpose.DECODE_STEP]]}


def boxes(both: tuple[Column, Column]) -> list[Box]:
    return [box for column in both for block in column.blocks for box in block.boxes]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("without", [[], UNFUSED])
def test_boxes_do_not_overlap(name: str, without: list[str]) -> None:
    drawing = draw(panels(specs.load(name, {"compilation": {"disabled_passes": without}})), "A & <B>")
    root = ElementTree.fromstring(drawing)
    assert root.findtext(f"{SVG}title") == "A & <B>"
    drawn = list(root.iter(f"{SVG}g"))
    assert len(drawn) == 2
    for panel in drawn:
        positions = [
            tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
            for rect in panel.iter(f"{SVG}rect")
            if (rect.get("class") or "").startswith("box ")
        ]
        assert len(positions) > 10
        left, floor = map(float, re.findall(r"[\d.]+", panel.attrib["transform"]))
        for number, (x, y, width, height) in enumerate(positions):
            assert 0 <= left + x <= left + x + width <= float(root.attrib["width"])
            assert 0 <= floor + y <= floor + y + height <= float(root.attrib["height"])
            for x2, y2, width2, height2 in positions[number + 1 :]:
                assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y


@pytest.mark.parametrize("without", [[], UNFUSED, ["fuse_memory"], ["beams_as_queries"]])
@pytest.mark.parametrize(
    "architecture", [{}, {"norm": {"placement": "pre"}, "tied_embeddings": "none", "projection_bias": True}]
)
def test_a_box_is_above_what_it_reads(
    small: Callable[..., Spec], without: list[str], architecture: dict[str, object]
) -> None:
    spec = small(**architecture)
    spec = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"disabled_passes": tuple(without)})}
    )
    for drawn in panels(spec).values():
        both = columns(drawn)
        for number, column in enumerate(both):
            order = [box for block in column.blocks for row in block.rows() for box in row]
            assert Counter(order) == Counter(box for block in column.blocks for box in block.boxes)
            for place, box in enumerate(order):
                assert box.column == number
                assert all(source in order[:place] for source in box.sources if source.column == number)
                assert all(source.column == 0 for source in box.sources if source.column != number)


@pytest.mark.parametrize("purpose", [Purpose.TRAIN, Purpose.SCORE])
def test_repeated_layers_are_drawn_once(small: Callable[..., Spec], purpose: Purpose) -> None:
    both = columns([lower(small(N=5), purpose)])
    layers = [block for column in both for block in column.blocks if block.label]
    assert [(layer.label, layer.times) for layer in layers] == [("encoder.0", 5), ("decoder.0", 5)]
    drawing = draw({"": [lower(small(N=5), purpose)]}, "")
    assert re.findall(r">(\d+) ×<", drawing) == ["5", "5"]
    assert "encoder 0 to 4" in drawing


def test_the_drawing_is_figure_1(small: Callable[..., Spec]) -> None:
    """The boxes have the words of the paper, from bottom to top; no pass has run, and there is no dropout."""
    encoder, decoder = columns([lower(small(dropout=0.0), Purpose.SCORE)])
    feed_forward = ["Linear 16 → 24, ReLU", "Linear 24 → 16", "Add & Norm"]
    projections = ["Linear 16 → 12", "Linear 16 → 12", "Linear 16 → 8"]
    attention = [*projections, "Multi-head attention", "Linear 8 → 16", "Add & Norm"]
    words = [[box.title.replace(", Dropout", "") for box in boxes((c, Column()))] for c in (encoder, decoder)]
    assert words[0] == ["Embedding", "Positional encoding", *attention, *feed_forward]
    assert words[1][:2] == ["Embedding", "Positional encoding"]
    assert words[1][2:-3] == [*attention, *attention, *feed_forward]
    assert words[1][-3:] == ["Linear 16 → 101", "Log-softmax", "Pick labels"]
    assert decoder.outputs == {"log_probabilities": "[batch, target]"}


def test_the_memory_is_an_edge_between_the_columns(small: Callable[..., Spec]) -> None:
    both = columns(panels(small())["translate"])
    across = [(s.detail, box.title) for box in boxes(both) for s in box.sources if s.column != box.column]
    assert across == [("memory: keys values", "Multi-head attention")]
    drawing = draw({"": panels(small())["translate"]}, "")
    assert drawing.count('class="memory"') == 1
    assert drawing.count('class="residual"') == 2 + 3


def test_int8_projections_are_labelled(small: Callable[..., Spec]) -> None:
    spec = small()
    spec = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"precision": "int8"})})
    final = graphs(spec, TRANSLATE)
    drawn = boxes(columns([final[Purpose.ENCODE], final[Purpose.DECODE_STEP]]))
    linear = [box.title for box in drawn if box.title.startswith("Linear")]
    assert len(linear) > 5
    assert not [title for title in linear if "int8" not in title]


def test_drawing_is_written_to_a_file(small: Callable[..., Spec]) -> None:
    draw_network(small(), Path("figure.svg"))
    text = Path("figure.svg").read_text(encoding="utf-8")
    assert text.startswith("<svg ")
    assert f"{plan(small()).parameters:,} parameters" in text
    figure_1, compiled = text.split("Compiled for translating")
    assert "The model" in figure_1
    assert "Linear query" in figure_1
    assert "query key value" not in figure_1, "the products of an attention are separate, as in Figure 1"
    assert "query key value" in compiled
    assert "Dropout" not in figure_1.split("ReLU")[1][:20], "its probability is 0"
    with pytest.raises(ZooError, match=r"does not end in \.svg"):
        draw_network(small(), Path("figure.png"))
