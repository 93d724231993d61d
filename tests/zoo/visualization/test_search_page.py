"""The page of a search shows every hypothesis, in the drawing and in the table, and escapes all text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.generation.beam_search import BeamSearch
from zoo.generation.search_tree import Expansion, SearchTree
from zoo.generation.translation import Translation
from zoo.visualization.search_page import search_page


def small_tree() -> SearchTree:
    root = Expansion(None, "<s>", 0, 0.0, 0.0, 0, 1.0, best=True)
    good = Expansion(root, "▁<b>", 5, -0.25, -0.25, 1, 1.0, best=True)
    bad = Expansion(root, "▁x", 6, -1.0, -1.0, 1, 1.0, fate="pruned", reason="its total is too low")
    end = Expansion(good, "</s>", 3, -0.5, -0.75, 2, 1.25, fate="result", best=True)
    root.children, good.children = [good, bad], [end]
    result = Translation("<b>", -0.6, -0.75, (5,))
    return SearchTree("a & b", result, root, ((good, bad), (end,)), 4, BeamSearch(1, 0.6), "It stopped.", "eager")


def test_every_hypothesis_is_drawn_and_listed(html_page: Callable[[str], Any]) -> None:
    page = html_page(search_page(small_tree(), "a<b"))
    boxes = [attributes["class"] for attributes, _ in page.find("g")]
    assert boxes == ["kept best", "kept best", "pruned", "result best"]
    titles = [text for _, text in page.find("title")][1:]
    assert titles[2].splitlines() == [
        *("▁x", "log-probability of the token -1.000", "total -1.000", "length penalty 1.000", "score -1.000"),
        "pruned: its total is too low",
    ]
    assert titles[3].splitlines()[0] == "▁<b> </s>"
    lines = [attributes["class"] for attributes, _ in page.find("path")]
    assert sorted(lines) == ["best", "best", "pruned"]
    rows = [attributes["class"] for attributes, _ in page.find("tr") if "class" in attributes]
    assert rows == ["kept best", "pruned", "result best"]
    text = " ".join(text for _, text in page.find("main"))
    assert "1 of them were not among the 1 candidates" in " ".join(text.split())
    assert "a & b" in text


def test_the_page_needs_no_script_and_no_network() -> None:
    source = search_page(small_tree(), "model")
    assert "<script" not in source
    assert "http" not in source.replace("http-equiv", "")
