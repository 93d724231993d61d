"""The attention page contains every weight, the drawing every visible line, and the view what was asked for."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from tests.refusals import refused
from tests.zoo.conftest import HtmlPage
from zoo.generation.attention import Attention
from zoo.visualization.attention import (
    ATTENTIONS,
    FIGURES,
    STEPS,
    View,
    attention_page,
    attention_svg,
    figure_caption,
)
from zoo.visualization.page import series_colour, text_width

Make = Callable[..., Attention]
SVG = "{http://www.w3.org/2000/svg}"


def open_page(attention: Attention, **view: Any) -> tuple[HtmlPage, dict[str, Any]]:
    """Return the page of an attention, and the data of its script."""
    page = HtmlPage(attention_page(attention, View.of(attention, **view), "a-model"))
    return page, json.loads(page.find("script", id="data")[0][1])


def test_view_has_the_last_layer_but_one_and_finds_words_without_punctuation(make_attention: Make) -> None:
    assert View.of(make_attention(layers=6)) == View("encoder", 5, (1, 2, 3))
    assert View.of(make_attention(layers=1)) == View("encoder", 1, (1, 2, 3))
    assert View.of(make_attention(layers=0)).kind == "decoder"
    assert View.of(make_attention(), "encoder", 2, [3, 1, 3], "dog") == View("encoder", 2, (3, 1), 2)
    assert View.of(make_attention(), "encoder-decoder", word="hund").word == 0
    assert View.of(make_attention(), word="</s>").word == 3
    for words, row in ((("▁It's", "▁its"), 1), (("▁Its", "▁(its)"), 0), (("▁its", "▁its,"), 0)):
        assert View.of(make_attention(source=words), word="its").word == row


@pytest.mark.parametrize(
    ("view", "problem", "hint"),
    [
        ({"kind": "both"}, "`both`", "encoder, decoder, encoder-decoder"),
        ({"layer": 3}, "no layer 3", "layers 1 to 2"),
        ({"kind": "decoder", "layer": 2}, "no layer 2", "one layer"),
        ({"heads": [1, 4]}, "no head 4", "heads 1 to 3"),
        ({"word": "dogs"}, "`dogs`", "did you mean `dog`?"),
        ({"word": "horse"}, "`horse`", "the big dog </s>"),
    ],
)
def test_view_refuses_what_the_model_lacks(make_attention: Make, view: dict[str, Any], problem: str, hint: str) -> None:
    assert hint in str(refused(problem, View.of, make_attention(), **view).hint)


ALL = (*range(1, 9),)


@pytest.mark.parametrize(("number", "heads", "word"), [(3, ALL, "making"), (4, (5, 6), "its"), (5, ALL, None)])
def test_figure_view_is_the_papers(make_attention: Make, number: int, heads: Any, word: str | None) -> None:
    figure = FIGURES[number]
    words = figure.sentence.split()
    attention = make_attention(figure.sentence, [f"▁{each}" for each in words], layers=6, heads=8)
    view = View.of(attention, figure=number)
    assert view == View("encoder", 5, heads, words.index(word) if word else None)
    assert "this page shows" not in figure_caption(number, attention, view)


def test_figure_of_a_smaller_model_says_which_layer_it_shows(make_attention: Make) -> None:
    attention = make_attention(layers=2, heads=3)
    view = View.of(attention, figure=4)
    assert view == View("encoder", 1, (1, 2, 3))
    assert "has 2 layers; this page shows layer 1." in figure_caption(4, attention, view)
    assert "shows layer 2." in figure_caption(4, attention, replace(view, layer=2))
    assert "this page shows" not in figure_caption(4, attention, replace(view, kind="decoder"))
    assert View.of(make_attention(layers=5), figure=4).layer == 4


def test_page_contains_every_weight(make_attention: Make) -> None:
    attention = make_attention()
    page, data = open_page(attention)
    weights = zlib.decompress(b64decode(page.find("script", id="weights")[0][1]))
    stored, total = torch.frombuffer(bytearray(weights), dtype=torch.uint8), 0
    assert [kind["name"] for kind in data["kinds"]] == list(ATTENTIONS)
    for kind in data["kinds"]:
        for unit, source in (("words", attention.by_words()), ("tokens", attention)):
            expected, rows, columns = ATTENTIONS[kind["name"]].read(source)
            assert (kind[unit]["rows"], kind[unit]["columns"]) == (list(rows), list(columns))
            assert (kind["layers"], kind["heads"]) == expected.shape[:2]
            shown = stored[kind[unit]["offset"] :][: expected.numel()].view(expected.shape) / STEPS
            assert (shown - expected).abs().max() <= 0.5 / STEPS + 1e-6
            total += expected.numel()
    assert total == len(stored)


def test_page_opens_with_the_view_and_describes_itself(make_attention: Make) -> None:
    page, data = open_page(make_attention(), kind="encoder", layer=2, heads=[3, 1], word="dog")
    assert data["first"] == {"kind": "encoder", "layer": 2, "heads": [2, 0], "word": 2}
    text, output = page.find("main")[0][1], "the given output, whose log-probability is -1.25"
    assert all(words in text for words in (output, "by the backend eager in float32", "Attention of a-model"))
    assert [kind["name"] for kind in open_page(make_attention(layers=0))[1]["kinds"]] == ["decoder", "encoder-decoder"]


def test_page_script_finds_its_elements_and_controls_have_labels(make_attention: Make) -> None:
    page, _ = open_page(make_attention())
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'byId\("([^"]+)"\)', page.find("script")[-1][1])
    assert {*used, "data", "rows", "columns"} <= set(ids)
    assert {attributes["name"] for attributes, _ in page.find("input")} == {"kind", "head", "unit"}
    assert [attributes["value"] for attributes, _ in page.find("input", name="kind")] == list(ATTENTIONS)
    heads = [attributes["aria-label"] for attributes, _ in page.find("input", name="head")]
    assert heads == ["head 1", "head 2", "head 3"]
    assert [attributes["id"] for attributes, _ in page.find("ul", role="listbox", tabindex="0")] == ["rows", "columns"]
    assert len(page.find("legend")) == len(page.find("fieldset")) == 3
    assert page.find("p", role="status")


def test_page_escapes_text(make_attention: Make) -> None:
    evil = "</script><script>alert(1)</script>"
    page, data = open_page(make_attention(evil, [f"▁{evil}", "▁<!--", "▁\u202edog"]))
    assert len(page.find("script")) == 3
    assert data["kinds"][0]["words"]["rows"] == [evil, "<!--", "\ufffddog", "</s>"]


def draw(attention: Attention, view: View) -> ElementTree.Element:
    return ElementTree.fromstring(attention_svg(attention, view))


def lines(root: ElementTree.Element) -> list[tuple[str, float, float, float]]:
    """Return colour, opacity, start and end of each line."""
    return [
        (path.attrib["stroke"], float(path.attrib["stroke-opacity"]), float(start), float(end))
        for path in root.iter(f"{SVG}path")
        for start, end in re.findall(r"M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)", path.attrib["d"])
    ]


def texts(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [text for text in root.iter(f"{SVG}text") if text.attrib["class"].split()[0] == kind]


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_drawing_has_a_line_for_each_visible_weight(make_attention: Make, kind: str) -> None:
    attention = make_attention()
    view = View.of(attention, kind, heads=[1, 3])
    root = draw(attention, view)
    weights, *words = ATTENTIONS[kind].read(attention.by_words())
    assert [[text.text for text in texts(root, side)] for side in ("row", "column")] == [*map(list, words)]
    assert {colour for colour, *_ in lines(root)} == {series_colour(0), series_colour(2)}
    levels = weights[view.layer - 1][[0, 2]].mul(32).round().flatten().tolist()
    assert sorted(opacity for _, opacity, *_ in lines(root)) == sorted(level / 32 for level in levels if level)


def test_drawing_connects_the_chosen_word_with_its_columns(make_attention: Make) -> None:
    attention = make_attention()
    root = draw(attention, View.of(attention, "encoder", 2, [2], "big"))
    weights, *_ = ATTENTIONS["encoder"].read(attention.by_words())
    heights = [float(text.attrib["y"]) for text in texts(root, "row")]
    assert lines(root)
    for _, opacity, start, end in lines(root):
        row, column = (min(range(4), key=lambda index: abs(heights[index] - y)) for y in (start, end))
        assert row == 1
        assert opacity == pytest.approx(float(weights[1, 1, row, column]), abs=0.5 / 32 + 1e-6)
    assert [text.attrib["class"] for text in texts(root, "row")] == ["row quiet", "row", "row quiet", "row quiet"]


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_drawing_shows_a_recording_beside_its_positions(make_attention: Make, kind: str) -> None:
    pillow = pytest.importorskip("PIL.Image")
    picture = np.arange(15, dtype=np.uint8).reshape(3, 5)
    attention = replace(make_attention(), picture=picture)
    root = draw(attention, View.of(attention, kind))
    images = list(root.iter(f"{SVG}image"))
    if kind == "decoder":
        assert not images
        return
    (image,), places = images, texts(root, "column")
    left, width, height = (float(image.attrib[name]) for name in ("x", "width", "height"))
    assert max(float(each.attrib["x"]) + text_width(each.text or "", 15) for each in places) <= left
    assert left + width <= float(root.attrib["width"])
    assert height == (float(places[1].attrib["y"]) - float(places[0].attrib["y"])) * len(places)
    shown = np.array(pillow.open(BytesIO(b64decode(image.attrib["href"].partition(",")[2]))))
    assert shown.tolist() == [list(picture[::-1, frame]) for frame in range(5)]


@pytest.mark.parametrize("heads", [1, 16, 32])
def test_drawing_contains_all_text(make_attention: Make, heads: int) -> None:
    attention = make_attention("a", ["▁<b>", "▁" + "W" * 40], heads=heads)
    root = draw(attention, View.of(attention))
    total_width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for side, sign in (("row", -1), ("column", 1)):
        for text in texts(root, side):
            assert 0 <= float(text.attrib["x"]) + sign * text_width(text.text or "", 15) <= total_width
            assert 0 <= float(text.attrib["y"]) + 60 <= height
    numbers = texts(root, "number")
    assert [number.text for number in numbers] == [f"{head}" for head in range(1, heads + 1)]
    for text, size in [*((number, 12) for number in numbers), (texts(root, "title")[0], 16)]:
        assert float(text.attrib["x"]) + text_width(text.text or "", size) <= total_width
    assert "<b>" in [text.text for text in texts(root, "row")]
    assert "http" not in re.sub(r'xmlns="[^"]+"', "", attention_svg(attention, View.of(attention)))
