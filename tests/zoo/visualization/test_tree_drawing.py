"""Drawings contain each label and each word of a tree once, in order, without overlaps."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tree import Tree, leaf, node
from zoo.visualization.page import text_width
from zoo.visualization.tree_drawing import LABEL, SENTENCE, TAG, WORD, draw_svg

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"word": WORD, "tag": TAG, "label": LABEL, "sentence": SENTENCE}
TREE = read_tree("(TOP (S (NP (-LRB- -LRB-) (NN dogs) (-RRB- -RRB-)) (VP (VBP sleep)) (. .)))")
LABELS = ("S", "NP", "VP", "WHADVP", "A-LABEL-THAT-IS-LONG", ".", "-LRB-")
LETTERS = "iiilmWabc<>&\"'%.-(都é\u0301שלام—"


class Box(NamedTuple):
    """Rectangle of a text or a line on the page."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


class Text(NamedTuple):
    kind: str
    text: str
    box: Box


def texts(root: ElementTree.Element) -> list[Text]:
    """Return all texts with their positions on the page."""
    found = [_text(each, 0.0, 0.0) for each in root.findall(f"{SVG}text")]
    for group in root.findall(f"{SVG}g"):
        found += [_text(each, *_offset(group)) for each in group.findall(f"{SVG}text")]
    return found


def _offset(group: ElementTree.Element) -> tuple[float, float]:
    x, y = re.findall(r"[\d.]+", group.attrib["transform"])
    return float(x), float(y)


def _text(element: ElementTree.Element, x: float, y: float) -> Text:
    kind, text = element.attrib["class"], element.text or ""
    x, y = x + float(element.attrib["x"]), y + float(element.attrib["y"])
    across, size = text_width(text, SIZES[kind], bold=kind == "label"), SIZES[kind]
    left = x if kind == "sentence" else x - across / 2
    return Text(kind, text, Box(left, y - 0.8 * size, left + across, y + 0.25 * size))


def lines(root: ElementTree.Element) -> Iterator[Box]:
    """Yield the straight segments of all lines. Corners count as straight."""
    for group in root.findall(f"{SVG}g"):
        x, y = _offset(group)
        for path in group.findall(f"{SVG}path"):
            for path_text in re.findall(r"M[^M]+", path.attrib["d"]):
                for (x1, y1), (x2, y2) in pairwise(_points(path_text)):
                    yield Box(x + min(x1, x2), y + min(y1, y2), x + max(x1, x2) + 0.01, y + max(y1, y2) + 0.01)


def _points(path_text: str) -> Iterator[tuple[float, float]]:
    x = y = 0.0
    for command, numbers in re.findall(r"([MHVq])([^MHVq]+)", path_text):
        *_, last = values = [float(number) for number in numbers.split()]
        if command == "q":
            x, y = x + values[2], y + values[3]
        else:
            x, y = (x if command == "V" else values[0]), (y if command == "H" else last)
        yield x, y


def with_random_text(tree: Tree, chance: random.Random) -> Tree:
    """Return the tree with labels and words of random lengths."""
    if tree.word:
        return leaf(chance.choice(LABELS), "".join(chance.choices(LETTERS, k=chance.choice((1, 2, 5, 30)))))
    return node(chance.choice(LABELS), *(with_random_text(child, chance) for child in tree.children))


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 400), marks=pytest.mark.slow)])
def test_random_trees_are_drawn_completely_without_overlaps(seeds: range, tree: Callable[[int], Tree]) -> None:
    for seed in seeds:
        check_drawing(seed, tree)


def check_drawing(seed: int, tree: Callable[[int], Tree]) -> None:
    chance = random.Random(seed)
    several = [with_random_text(tree(seed + number), chance) for number in range(chance.choice((1, 1, 3)))]
    root = ElementTree.fromstring(draw_svg(*several))
    drawn = texts(root)
    for group, given in zip(root.findall(f"{SVG}g"), several, strict=True):
        texts_of = {
            kind: [_text(each, 0, 0) for each in group.findall(f"{SVG}text[@class='{kind}']")] for kind in SIZES
        }
        leaves = [each for each, _ in given.walk() if each.word]
        for kind, wanted in (("word", [each.word for each in leaves]), ("tag", [each.label for each in leaves])):
            from_left = sorted(texts_of[kind], key=lambda text: text.box.left + text.box.right)
            assert [text.text for text in from_left] == wanted
        labels = [each.label for each, closes in given.walk() if closes]
        assert sorted(text.text for text in texts_of["label"]) == sorted(labels)
    page = Box(0.0, 0.0, float(root.attrib["width"]), float(root.attrib["height"]))
    for text in drawn:
        assert page.left <= text.box.left
        assert text.box.right <= page.right
        assert page.top <= text.box.top
        assert text.box.bottom <= page.bottom
    assert not [(one, other) for one, other in combinations(drawn, 2) if one.box.overlaps(other.box)]
    assert not [(line, text) for line in lines(root) for text in drawn if line.overlaps(text.box)]


def test_constituents_are_above_their_parts() -> None:
    found = {text.text: text.box for text in texts(ElementTree.fromstring(draw_svg(TREE)))}
    assert found["TOP"].bottom < found["S"].top < found["VP"].top < found["VBP"].top < found["sleep"].top
    assert found["NP"].top == found["VP"].top
    assert found["("].right < found["dogs"].left < found["dogs"].right < found[")"].left
    assert found["("].left < found["NP"].left < found[")"].right


@pytest.mark.parametrize(
    ("word", "drawn"),
    [
        *(("<b>", "<b>"), ("&amp;", "&amp;"), ("\"'", "\"'"), ("]]>", "]]>"), ("-LRB-", "("), ("x-RRB-", "x)")),
        *(("a\x00b\x1b[1m", "a\ufffdb\ufffd[1m"), ("\x85", "\ufffd"), ("\ud800", "\ufffd"), ("\uffff", "\ufffd")),
        *(("\u202eabc", "\ufffdabc"), ("\u2067abc", "\ufffdabc"), ("\udcff", "\ufffd")),
        *(
            ("שלום", "שלום"),
            ("مرحبا", "مرحبا"),
            ("東京都", "東京都"),
            ("e\u0301", "e\u0301"),
            ("\U0001f600", "\U0001f600"),
        ),
    ],
)
def test_special_characters(word: str, drawn: str) -> None:
    tree = node(word, leaf(word, word), leaf("NN", "dog"))
    for trees in ((tree,), (tree, TREE)):
        root = ElementTree.fromstring(draw_svg(*trees).encode())
        first = next(text.text for text in texts(root) if text.kind == "word")
        assert first == drawn
        title = root.findtext(f"{SVG}title") or ""
        assert title.count("\ufffd") == 3 * drawn.count("\ufffd")


def test_unspecified_parts_of_speech_are_not_drawn() -> None:
    root = ElementTree.fromstring(draw_svg(read_tree("(TOP (NP (XX the) (NN dog) (XX XX)))")))
    assert [text.text for text in texts(root) if text.kind == "tag"] == ["NN"]
    assert [text.text for text in texts(root) if text.kind == "word"] == ["the", "dog", "XX"]
    assert not [(line, text) for line in lines(root) for text in texts(root) if line.overlaps(text.box)]
    ends = {line.bottom for line in lines(root)}
    assert max(ends) > next(text.box.bottom for text in texts(root) if text.kind == "tag"), "the line reaches the word"


def test_several_trees_are_below_one_another_under_their_sentences() -> None:
    first, second = TREE, read_tree("(TOP (NP (DT the) (NN dog)))")
    root = ElementTree.fromstring(draw_svg(first, second))
    assert root.findtext(f"{SVG}title") == f"{first}\n{second}"
    drawn = texts(root)
    sentences = [text for text in drawn if text.kind == "sentence"]
    assert [text.text for text in sentences] == ["( dogs ) sleep .", "the dog"]
    tops = [text.box for text in drawn if text.text == "TOP"]
    words = [next(text.box for text in drawn if text.text == word) for word in ("sleep", "the")]
    order = [sentences[0].box, tops[0], words[0], sentences[1].box, tops[1], words[1]]
    assert all(above.bottom < below.top for above, below in pairwise(order))


def test_drawings_are_accessible_and_have_colours_for_both_themes() -> None:
    root = ElementTree.fromstring(draw_svg(TREE))
    assert root.attrib["role"] == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == str(TREE)
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    light, dark = (root.findtext(f"{SVG}style") or "").split("@media screen and (prefers-color-scheme: dark)")
    used = {element.attrib["class"] for element in root.iter() if "class" in element.attrib}
    for kind in used:
        assert re.search(rf"\.{kind}\b.*#", light)
        assert re.search(rf"\.{kind}\b.*#", dark), f"{kind} has no colour in the dark"
    assert "sentence" not in used, "one tree has no sentence"
    assert texts(ElementTree.fromstring(draw_svg())) == []


def test_the_width_of_a_text_is_the_sum_of_its_letters() -> None:
    assert text_width("", 10) == 0
    assert text_width("ab", 10) == text_width("a", 10) + text_width("b", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)
    assert text_width("i", 10) < text_width("n", 10) < text_width("N", 10) < text_width("W", 10)
    assert text_width("都", 10) >= 10
    assert text_width("a", 20) == 2 * text_width("a", 10)
    assert text_width("a", 10, bold=True) > text_width("a", 10)
