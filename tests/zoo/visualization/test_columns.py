"""A drawing of an attention: words in two columns, a line for each weight that is seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from zoo.generation.attention import Attention
from zoo.text.trees.drawing import width
from zoo.visualization.columns import columns
from zoo.visualization.view import KINDS, View

Made = Callable[..., Attention]
SVG = "{http://www.w3.org/2000/svg}"


def lines(root: ElementTree.Element) -> list[tuple[str, float, float, float]]:
    """Of each line its head, its opacity, and where it begins and ends from above."""
    return [
        (path.attrib["class"], float(path.attrib["stroke-opacity"]), float(begin), float(end))
        for path in root.iter(f"{SVG}path")
        for begin, end in re.findall(r"M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)", path.attrib["d"])
    ]


def texts(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter(f"{SVG}text") if each.attrib["class"].split()[0] == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_each_weight_that_is_seen_is_a_line_of_its_opacity(attended: Made, kind: str) -> None:
    found = attended()
    view = View.of(found, kind, heads=[1, 3])
    root = ElementTree.fromstring(columns(found, view))
    weights, rows, seen = KINDS[kind].of(found.by_words())
    for side, words in (("row", rows), ("column", seen)):
        assert [each.text for each in texts(root, side)] == list(words)
    shown = weights[view.layer - 1][[0, 2]]
    drawn = lines(root)
    assert {name for name, *_ in drawn} == {"head-1", "head-3"}
    assert sorted(opacity for _, opacity, *_ in drawn) == sorted(
        level / 32 for level in shown.mul(32).round().flatten().tolist() if level
    )


def test_lines_end_at_their_words(attended: Made) -> None:
    found = attended()
    view = View.of(found, "encoder", 2, [2], "big")
    root = ElementTree.fromstring(columns(found, view))
    weights, *_ = KINDS["encoder"].of(found.by_words())
    places = [float(each.attrib["y"]) for each in texts(root, "row")]
    drawn = lines(root)
    assert drawn
    for _, opacity, begin, end in drawn:
        row, column = (min(range(4), key=lambda at: abs(places[at] - each)) for each in (begin, end))
        assert row == 1  # the word alone
        assert opacity == pytest.approx(float(weights[1, 1, row, column]), abs=0.5 / 32 + 1e-6)
    assert [each.attrib["class"] for each in texts(root, "row")] == ["row quiet", "row", "row quiet", "row quiet"]


def test_all_is_on_the_page(attended: Made) -> None:
    root = ElementTree.fromstring(columns(made := attended("a", ["▁<b>", "▁" + "W" * 40]), View.of(made)))
    across, high = float(root.attrib["width"]), float(root.attrib["height"])
    for kind, sign in (("row", -1), ("column", 1)):
        for each in texts(root, kind):
            end = float(each.attrib["x"]) + sign * width(each.text or "", 15)
            assert 0 <= end <= across
            assert 0 <= float(each.attrib["y"]) + 60 <= high
    assert "<b>" in [each.text for each in texts(root, "row")]
    assert "http" not in re.sub(r'xmlns="[^"]+"', "", columns(made, View.of(made)))


@pytest.mark.parametrize("heads", [1, 16, 32])
def test_a_mark_for_each_head_and_the_title_are_on_the_page(attended: Made, heads: int) -> None:
    made = attended("a", ["▁Hi"], heads=heads)
    root = ElementTree.fromstring(columns(made, View.of(made)))
    across = float(root.attrib["width"])
    numbers = texts(root, "number")
    assert [each.text for each in numbers] == [f"{head}" for head in range(1, heads + 1)]
    (title,) = texts(root, "title")
    for each, size in [*((number, 12) for number in numbers), (title, 16)]:
        assert float(each.attrib["x"]) + width(each.text or "", size) <= across
