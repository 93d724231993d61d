"""HTML: random trees stay balanced, keep their text and elements, and tags follow the words that they enclose."""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zoo.documents.translators import Shuffle, render
from zoo.documents.document import TextFile
from zoo.documents.fragments import Format
from zoo.documents.html import FORMAT, XHTML_FORMAT

BLOCKS, INLINE = ("p", "div", "li", "h1", "td", "legend"), ("b", "i", "a", "span", "em", "x-y", "nobr", "ruby")
VOID = ("br", "img", "wbr", "hr", "meta")
UNITS = (
    *("<br>", "<img src='a.png'>", "<img alt='one two'>", "<!-- c -->", "<code>f(x)</code>", "<hr>", "<x/>"),
    *('<keep translate="no">one <b>two</b></keep>', "<meta itemprop='a'>", "<code>ls</code>", '<keep translate="no"/>'),
)


class Outline(HTMLParser):
    """The texts of a page, its attributes with text, and its elements, whose tags must match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.elements: list[tuple[str, str | None]] = []
        self.titles: dict[str, set[str]] = {}
        """Sorted letters of each title by the class of the element, which is a part of all start tags."""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        for name in ("title", "alt"):
            if name in given:
                self.titles.setdefault(given.get("class", tag), set()).add("".join(letters(given[name])))
        if tag not in VOID:
            self.open.append(tag)
            self.elements.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "code" not in self.open and "keep" not in self.open:
            self.texts.append(data)


def letters(text: str) -> list[str]:
    return sorted(filter(str.isalpha, text.upper()))


def random_tree(draw: random.Random, depth: int = 0, *, inline: bool = False) -> str:
    """Return random well-formed HTML with entities, void, unknown and copied elements, comments and attributes."""
    parts = []
    for _ in range(draw.randint(0 if depth else 1, 4)):
        kind = draw.random()
        if kind < 0.5 or depth > 4:
            words = draw.choices(["one", "two", "zwölf", "&amp;", "A&lt;B", "x", "&#228;", ","], k=draw.randint(1, 4))
            parts.append(draw.choice(["", " ", "\n  "]) + " ".join(words) + draw.choice(["", " "]))
        elif kind < 0.6:
            parts.append(draw.choice(UNITS))
        elif kind < 0.75 and not inline:
            name = draw.choice(BLOCKS)
            parts.append(f"<{name}>{random_tree(draw, depth + 1)}</{name}>")
        else:
            name, identity = draw.choice(INLINE), draw.randrange(10**9)
            title = draw.choice(["", "", f" title='one {identity} &amp; two'", ' title="three  four"', " title=five"])
            tag = f'<{name} id="{identity}" class="c{identity}"{title}>'
            parts.append(f"{tag}{random_tree(draw, depth + 1, inline=True)}</{name}>")
    return "".join(parts)


@pytest.mark.parametrize("form", [FORMAT, XHTML_FORMAT], ids=["HTML", "XHTML"])
@given(seed=st.integers(0, 10**9))
def test_random_trees_keep_their_text_elements_and_balance(form: Format, seed: int) -> None:
    draw = random.Random(seed)
    text = random_tree(draw)
    assert render(text, form) == text
    before = Outline(text)
    for model in (Shuffle(), Shuffle(draw.randrange(10**9))):
        result = render(text, form, model)
        after = Outline(result)
        identified = Counter(element for element in after.elements if element[1] is not None)
        assert identified == Counter(element for element in before.elements if element[1] is not None)
        assert {name for name, _ in after.elements} == {name for name, _ in before.elements}
        assert letters("".join(after.texts)) == letters("".join(before.texts))
        assert after.titles == before.titles
        for unit in UNITS:
            assert result.count(unit) == text.count(unit) or "alt" in unit


@pytest.mark.parametrize(
    "text", ["<p", "<a href='", "</b>one", "<b>one", "&", "&#xffffffff;", "<![CDATA[one]]>", "<!", ""]
)
def test_malformed_html_is_kept(text: str) -> None:
    assert render(text, FORMAT) == text
    render(text, FORMAT, Shuffle())


def test_text_of_the_translation_never_becomes_markup() -> None:
    result = TextFile("<p>one <b>two</b></p>").render(["<script>alert(1)</script>"], [[]])
    assert "<script>" not in result
    assert html.unescape(re.sub(r"</?(p|b)>", "", result)) == "<script>alert(1)</script>"
