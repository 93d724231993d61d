"""A drawing shows every operation of the graphs once, each above what it reads, and nothing over anything else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import pytest

import specs
from compiler import TRANSLATE, Graph, Purpose, graphs, lower
from compiler.diagram import Box, Column, columns
from compiler.drawing import draw
from specs import Spec

SVG = "{http://www.w3.org/2000/svg}"
NOTHING_FUSED = ["fuse_projections", "fuse_memory", "hoist_memory", "beams_as_queries", "plan_cache", "drop_dropout"]
NAMES = ["base", "tiny", "big", "table3/e-learned", "table3/c-n2"]


def panels(spec: Spec) -> dict[str, Sequence[Graph]]:
    final = graphs(spec, TRANSLATE)
    train = [graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN]]
    return {"train": train, "translate": [final[Purpose.ENCODE], final[Purpose.DECODE_STEP]]}


def boxes(both: tuple[Column, Column]) -> list[Box]:
    return [box for column in both for block in column.blocks for box in block.boxes]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("without", [[], NOTHING_FUSED])
def test_it_is_svg_in_which_no_box_lies_on_another(name: str, without: list[str]) -> None:
    drawing = draw(panels(specs.load(name, {"compilation": {"disabled_passes": without}})), "A & <B>")
    root = ElementTree.fromstring(drawing)
    assert root.findtext(f"{SVG}title") == "A & <B>"
    drawn = list(root.iter(f"{SVG}g"))
    assert len(drawn) == 2
    for panel in drawn:
        places = [
            tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
            for rect in panel.iter(f"{SVG}rect")
            if rect.get("class") == "box"
        ]
        assert len(places) > 10
        left, floor = map(float, re.findall(r"[\d.]+", panel.attrib["transform"]))
        for number, (x, y, width, height) in enumerate(places):
            assert 0 <= left + x <= left + x + width <= float(root.attrib["width"])
            assert 0 <= floor + y <= floor + y + height <= float(root.attrib["height"])
            for x2, y2, width2, height2 in places[number + 1 :]:
                assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y


@pytest.mark.parametrize("without", [[], NOTHING_FUSED, ["fuse_memory"], ["beams_as_queries"]])
@pytest.mark.parametrize("architecture", [{}, {"norm": "pre", "tied_embeddings": "none", "projection_bias": True}])
def test_a_box_stands_above_what_it_reads(
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
def test_layers_that_are_alike_are_drawn_once_with_their_number(small: Callable[..., Spec], purpose: Purpose) -> None:
    both = columns([lower(small(N=5), purpose)])
    layers = [block for column in both for block in column.blocks if block.label]
    assert [(layer.label, layer.times) for layer in layers] == [("encoder.0", 5), ("decoder.0", 5)]
    drawing = draw({"": [lower(small(N=5), purpose)]}, "")
    assert re.findall(r">(\d+) ×<", drawing) == ["5", "5"]
    assert "encoder 0 to 4" in drawing


def test_it_is_figure_1(small: Callable[..., Spec]) -> None:
    """The paper's own words, from below to the top, before any pass but that dropout is nowhere."""
    encoder, decoder = columns([lower(small(dropout=0.0), Purpose.SCORE)])
    feed_forward = ["Linear 16 → 24, ReLU", "Linear 24 → 16", "Add & Norm"]
    projections = ["Linear 16 → 12", "Linear 16 → 12", "Linear 16 → 8"]
    attention = [*projections, "Attention", "Linear 8 → 16", "Add & Norm"]
    words = [[box.title.replace(", Dropout", "") for box in boxes((c, Column()))] for c in (encoder, decoder)]
    assert words[0] == ["Embedding", "Positional encoding", *attention, *feed_forward]
    assert words[1][:2] == ["Embedding", "Positional encoding"]
    assert words[1][2:-3] == [*attention, *attention, *feed_forward]
    assert words[1][-3:] == ["Linear 16 → 101", "Log-softmax", "Pick the target's"]
    assert decoder.outputs == {"log_probabilities": "[batch, target]"}


def test_memory_goes_from_the_encoder_to_every_attention_that_reads_it(small: Callable[..., Spec]) -> None:
    both = columns(panels(small())["translate"])
    across = [(s.detail, box.title) for box in boxes(both) for s in box.sources if s.column != box.column]
    assert across == [("memory: keys values", "Attention")]
    drawing = draw({"": panels(small())["translate"]}, "")
    assert drawing.count('class="memory"') == 1
    assert drawing.count('class="residual"') == 2 + 3


def test_what_is_quantised_says_so(small: Callable[..., Spec]) -> None:
    spec = small()
    spec = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"precision": "int8"})})
    final = graphs(spec, TRANSLATE)
    drawn = boxes(columns([final[Purpose.ENCODE], final[Purpose.DECODE_STEP]]))
    linear = [box.title for box in drawn if box.title.startswith("Linear")]
    assert len(linear) > 5
    assert not [title for title in linear if "int8" not in title]
