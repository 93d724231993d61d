"""A plot places its points correctly, and can be read without colours and by screen readers."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zoo.visualization.plot import HEIGHT, WIDTH, Axis, Plot, Series, plot_figures

SVG = ElementTree.Element


def draw(*series: Series, log: bool = False, title: str = "A plot") -> SVG:
    return ElementTree.fromstring(plot_figures([Plot(title, "summary", Axis("across", log), Axis("up", log), series)]))


def texts(svg: SVG, kind: str | None = None) -> list[str]:
    return [each.text or "" for each in svg.iter("text") if kind in (None, each.get("class"))]


def names(figure: SVG) -> list[str]:
    return ["".join(each.itertext()) for each in figure.iter("li")]


def marks(svg: SVG) -> list[tuple[float, float]]:
    found = [each.get("transform", "") for each in svg.iterfind(".//svg[@class='plot']/path[@class='mark']")]
    return [(float(x), float(y)) for x, y in (re.findall(r"-?[\d.]+", at) for at in found)]


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)), min_size=1, max_size=9))
@example([(0.0, 5e-324)])
def test_points_are_inside_and_in_order(points: list[tuple[float, float]]) -> None:
    found = marks(draw(Series("one", tuple(points))))
    assert len(found) == len(points)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in found)
    for (x, y), (a, b) in zip(points, found, strict=True):
        for (other_x, other_y), (other_a, other_b) in zip(points, found, strict=True):
            assert not (x < other_x and a > other_a)
            assert not (y < other_y and b < other_b)


@given(st.lists(st.floats(1e-9, 1e20), min_size=3, max_size=9, unique=True))
def test_equal_powers_are_on_a_line_on_logarithmic_axes(values: list[float]) -> None:
    found = marks(draw(Series("one", tuple((value, value) for value in values)), log=True))
    slopes = {round((y - found[0][1]) / (x - found[0][0]), 1) for x, y in found[1:] if abs(x - found[0][0]) > 20}
    assert len(slopes) <= 1


def test_points_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="is logarithmic"):
        draw(Series("one", ((0.0, 1.0),)), log=True)
    for points in ((), ((0.0, math.nan),)):
        with pytest.raises(ValueError, match="has no points"):
            draw(Series("one", points))


def test_series_differ_in_marker_and_dashes_and_have_names() -> None:
    svg = draw(*(Series(f"number {n}", ((n, n), (n + 1, n)), line=True) for n in range(4)))
    forms = {each.get("d") for each in svg.iter("path") if each.get("class") == "mark"}
    dashes = {each.get("stroke-dasharray") for each in svg.iter("polyline")}
    assert (len(forms), len(dashes)) == (4, 4)
    assert names(svg) == [f"number {n}" for n in range(4)]


def test_title_and_summary_are_there_and_text_is_escaped() -> None:
    one = Series("<i>&", ((1.0, 1.0), (2.0, 3.0)), ("<b>", '"'))
    figure = draw(one, Series("two", ((1.5, 2.0),)), title="<svg>&")
    (svg,) = figure.iterfind(".//svg[@role='img']")
    named = {each.get("id"): each.text for each in svg}
    assert [named[name] for name in svg.get("aria-labelledby", "").split()] == ["<svg>&", "summary"]
    assert {"across", "up"} <= {*texts(svg)}
    assert names(figure) == ["<i>&", "two"]
    labels = [each.text for each in svg.iterfind("path/title")]
    assert labels == ["<b>: 1 at across 1", '": 3 at across 2'], "pointing at a point shows its label"


def test_ticks_are_round_and_have_one_notation() -> None:
    svg = draw(Series("one", ((3.0, 16.0), (97_000.0, 1.6e7))), log=True)
    ticks = texts(svg, "tick")
    assert {"10⁷", "100"} <= {*ticks}
    assert math.isclose(len(ticks), len(set(ticks)), abs_tol=2)


def test_a_value_that_is_not_finite_interrupts_the_line() -> None:
    values = (1.0, 2.0, math.nan, 4.0, math.nan, math.inf, *[1.0] * 34)
    svg = draw(Series("s", tuple((float(x), value) for x, value in enumerate(values)), line=True))
    lines = [each.get("points", "").split() for each in svg.iter("polyline")]
    assert [len(line) for line in lines] == [2, 1, 34]
    assert len(marks(svg)) == 1, "a point without neighbours needs a marker"


def test_pointing_at_a_plot_shows_the_nearest_values_of_all_series() -> None:
    one = Series("one", tuple((float(x), 2.0 * x + 1) for x in range(300)), line=True)
    two = Series("two", ((0.0, 5.0), (100.0, math.nan), (200.0, 7.5)), line=True)
    plot = Plot("A plot", "summary", Axis("step"), Axis("up"), (one, two))
    strips = [*ElementTree.fromstring(plot_figures([plot])).iterfind(".//rect[@class='strip']")]
    assert 50 <= len(strips) <= 100
    edges = [(float(each.get("x", "")), float(each.get("width", ""))) for each in strips]
    for (left, wide), (following, _) in pairwise(edges):
        assert left + wide == pytest.approx(following, abs=0.11)
    titles = [each.findtext("title") or "" for each in strips]
    assert (titles[0], titles[-1]) == ("one: 5 at step 2\ntwo: 5 at step 0", "one: 599 at step 299")
    assert all("two" not in title for title in titles[-30:]), "it ends at step 200"
    assert sum("two: 7.5 at step 200" in title for title in titles) > 20
    single = ElementTree.fromstring(plot_figures([replace(plot, series=(one,))]))
    assert (list(single.iter("rect"))[-1].findtext("title")) == "599 at step 299", "one series needs no name"
