"""Drawings show every operation once, above what it reads, and without overlaps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

import specs
from compiler import TRANSLATE, Graph, Purpose, graphs, lower
from compiler.diagram import Box, Column, columns
from specs import Spec
from tests.examples import changed
from zoo.planning.plan import plan
from zoo.visualization.graph_drawing import draw, network_svg

SVG = "{http://www.w3.org/2000/svg}"
UNFUSED = ["fuse_projections", "fuse_memory", "hoist_memory", "beams_as_queries", "plan_cache", "drop_dropout"]
OTHER = {"norm": {"placement": "pre"}, "tied_embeddings": "none", "projection_bias": True}


def panels(spec: Spec) -> dict[str, Sequence[Graph]]:
    final = graphs(spec, TRANSLATE)
    translate = [final[Purpose.ENCODE], final[Purpose.DECODE_STEP]]
    return {"train": [graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN]], "translate": translate}


def boxes(both: tuple[Column, Column]) -> list[Box]:
    return [box for column in both for block in column.blocks for box in block.boxes]


@pytest.mark.parametrize("name", ["base", "table3/e-learned"])
@pytest.mark.parametrize("without", [[], UNFUSED])
def test_boxes_do_not_overlap(name: str, without: list[str]) -> None:
    spec = specs.load(name, {"compilation": {"disabled_passes": without}})
    root = ElementTree.fromstring(draw(panels(spec), "A & <B>"))
    drawn = list(root.iter(f"{SVG}g"))
    assert (root.findtext(f"{SVG}title"), len(drawn)) == ("A & <B>", 2)
    for panel in drawn:
        drawn_boxes = (rect for rect in panel.iter(f"{SVG}rect") if rect.get("class", "").startswith("box "))
        positions = [[float(rect.attrib[key]) for key in ("x", "y", "width", "height")] for rect in drawn_boxes]
        assert len(positions) > 10
        left, floor = map(float, re.findall(r"[\d.]+", panel.attrib["transform"]))
        for number, (x, y, width, height) in enumerate(positions):
            assert 0 <= left + x <= left + x + width <= float(root.attrib["width"])
            assert 0 <= floor + y <= floor + y + height <= float(root.attrib["height"])
            for x2, y2, width2, height2 in positions[number + 1 :]:
                assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y


@pytest.mark.parametrize("without", [[], UNFUSED, ["fuse_memory"], ["beams_as_queries"]])
@pytest.mark.parametrize("architecture", [{}, OTHER], ids=["", "other"])
def test_a_box_is_above_what_it_reads(small: Any, without: list[str], architecture: dict[str, object]) -> None:
    for drawn in panels(changed(small(**architecture), disabled_passes=tuple(without))).values():
        for number, column in enumerate(columns(drawn)):
            order = [box for block in column.blocks for row in block.rows() for box in row]
            assert Counter(order) == Counter(box for block in column.blocks for box in block.boxes)
            for place, box in enumerate(order):
                assert box.column == number
                assert all(source in order[:place] for source in box.sources if source.column == number)
                assert all(source.column == 0 for source in box.sources if source.column != number)


@pytest.mark.parametrize("purpose", [Purpose.TRAIN, Purpose.SCORE])
def test_repeated_layers_are_drawn_once(small: Callable[..., Spec], purpose: Purpose) -> None:
    lowered = [lower(small(N=5), purpose)]
    blocks = [block for column in columns(lowered) for block in column.blocks]
    assert [(each.label, each.times) for each in blocks if each.label] == [("encoder.0", 5), ("decoder.0", 5)]
    drawing = draw({"": lowered}, "")
    assert (re.findall(r">(\d+) ×<", drawing), "encoder 0 to 4" in drawing) == (["5", "5"], True)


def test_the_drawing_is_figure_1(small: Callable[..., Spec]) -> None:
    """The boxes have the words of the paper, from bottom to top; no pass has run, and there is no dropout."""
    encoder, decoder = columns([lower(small(dropout=0.0), Purpose.SCORE)])
    feed_forward = ["Linear 16 → 24, ReLU", "Linear 24 → 16", "Add & Norm"]
    projections = ["Linear 16 → 12", "Linear 16 → 12", "Linear 16 → 8"]
    attention = [*projections, "Multi-head attention", "Linear 8 → 16", "Add & Norm"]
    words = [[box.title.replace(", Dropout", "") for box in boxes((c, Column()))] for c in (encoder, decoder)]
    embeddings, output = ["Embedding", "Positional encoding"], ["Linear 16 → 101", "Log-softmax", "Pick labels"]
    assert words[0] == [*embeddings, *attention, *feed_forward]
    assert words[1] == [*embeddings, *attention, *attention, *feed_forward, *output]
    assert decoder.outputs == {"log_probabilities": "[batch, target]"}


def test_the_memory_is_an_edge_between_the_columns(small: Callable[..., Spec]) -> None:
    translate = panels(small())["translate"]
    drawn = boxes(columns(translate))
    across = [(source.detail, box.title) for box in drawn for source in box.sources if source.column != box.column]
    assert across == [("memory: keys values", "Multi-head attention")]
    drawing = draw({"": translate}, "")
    assert [drawing.count(f'class="{kind}"') for kind in ("memory", "residual")] == [1, 2 + 3]


def test_int8_projections_are_labelled(small: Callable[..., Spec]) -> None:
    drawn = boxes(columns(panels(changed(small(), precision="int8"))["translate"]))
    linear = [box.title for box in drawn if box.title.startswith("Linear")]
    assert len(linear) > 5
    assert all("int8" in title for title in linear)


def test_drawing_shows_the_network_and_its_compiled_form(small: Callable[..., Spec]) -> None:
    text = network_svg(small())
    assert text.startswith("<svg ")
    assert f"{plan(small()).parameters:,} parameters" in text
    figure_1, compiled = text.split("Compiled for translating")
    assert all(words in figure_1 for words in ("The model", "Linear query"))
    assert "query key value" not in figure_1, "the products of an attention are separate, as in Figure 1"
    assert "query key value" in compiled
    assert "Dropout" not in figure_1.split("ReLU")[1][:20], "its probability is 0"
