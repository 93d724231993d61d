"""HTML: random trees stay balanced, keep their text and elements, and tags follow the words that they enclose."""

from __future__ import annotations

import html
import random
import re
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zoo.conftest import HtmlPage
from tests.zoo.documents.translators import Shuffle, render
from zoo.documents.document import TextFile
from zoo.documents.fragments import Format
from zoo.documents.html import FORMAT, XHTML_FORMAT

BLOCKS, INLINE = ("p", "div", "li", "h1", "td", "legend"), ("b", "i", "a", "span", "em", "x-y", "nobr", "ruby")
UNITS = (
    *("<br>", "<img src='a.png'>", "<img alt='one two'>", "<!-- c -->", "<code>f(x)</code>", "<hr>", "<x/>"),
    *('<keep translate="no">one <b>two</b></keep>', "<meta itemprop='a'>", "<code>ls</code>", '<keep translate="no"/>'),
)


def letters(text: str) -> list[str]:
    return sorted(filter(str.isalpha, text.upper()))


def outline(text: str) -> tuple[list[tuple[str, str | None]], dict[str | None, set[str]], list[str]]:
    """Return the elements with their identities, the letters of titles by the class of the element, and all letters.

    The class of an element is a part of all its start tags, which must match the end tags.
    """
    page, titles = HtmlPage(f"<main>{text}</main>"), defaultdict(set)
    for tag, attributes in page.elements:
        for name in attributes.keys() & {"title", "alt"}:
            titles[attributes.get("class", tag)].add("".join(letters(attributes[name])))
    return [(tag, attributes.get("id")) for tag, attributes in page.elements], titles, letters(page.texts[0])


def random_tree(draw: random.Random, depth: int = 0, *, inline: bool = False) -> str:
    """Return random well-formed HTML with entities, void, unknown and copied elements, comments and attributes."""
    parts = []
    for _ in range(draw.randint(0 if depth else 1, 4)):
        kind = draw.random()
        if kind < 0.5 or depth > 4:
            words = ["one", "two", "zwölf", "&amp;", "A&lt;B", "x", "&#228;", ",", "☐", "&nbsp;" * 3]
            words = draw.choices(words, k=draw.randint(1, 4))
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
    elements, *others = outline(text)
    for model in (Shuffle(), Shuffle(draw.randrange(10**9))):
        result = render(text, form, model)
        found, *found_others = outline(result)
        assert found_others == others
        assert {name for name, _ in found} == {name for name, _ in elements}
        counts = [Counter(each for each in every if each[1] is not None) for every in (found, elements)]
        assert counts[0] == counts[1]
        for unit in UNITS:
            assert result.count(unit) == text.count(unit) or "alt" in unit


def test_text_of_the_translation_never_becomes_markup() -> None:
    result = TextFile("<p>one <b>two</b></p>").render(iter([("<script>alert(1)</script>", [])]))
    assert "<script>" not in result
    assert html.unescape(re.sub(r"</?(p|b)>", "", result)) == "<script>alert(1)</script>"
