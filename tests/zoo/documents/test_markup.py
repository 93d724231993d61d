"""HTML: random trees stay balanced, keep their text and elements, and tags follow the words that they enclose."""

from __future__ import annotations

import html
import random
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.documents.document import TextFile, align_segments
from zoo.documents.html import XmlTags
from zoo.documents.xml import format_with
from zoo.generation.alignment import AlignedToken

WORD = re.compile(r"\w+|[^\w\s]")
BLOCKS, INLINE = ("p", "div", "li", "h1", "td"), ("b", "i", "a", "span", "em")
VOID = ("br", "img", "wbr", "hr")


def spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


def reverse(text: str) -> str:
    """Translate by writing the words in upper case and in reverse order."""
    return " ".join(word.upper() for word in reversed(WORD.findall(text)))


def align_reversed(sources: list[str], targets: list[str]) -> list[list[AlignedToken]]:
    return [
        [AlignedToken(*pair, 1.0) for pair in zip(spans(target), reversed(spans(source)), strict=True)]
        for source, target in zip(sources, targets, strict=True)
    ]


def translated(text: str, translate=reverse, align=align_reversed) -> str:
    markup = TextFile(text)
    targets = [translate(segment.text) for segment in markup.segments]
    return markup.render(targets, align_segments(markup.segments, targets, align))


class Outline(HTMLParser):
    """The texts of a page, and its inline elements, whose tags must match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.elements: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
            self.elements.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "code" not in self.open:
            self.texts.append(data)


def random_tree(draw: random.Random, depth: int = 0, *, inline: bool = False) -> str:
    """Return random well-formed HTML with entities, void elements, copied elements, comments and nesting."""
    parts = []
    for _ in range(draw.randint(0 if depth else 1, 4)):
        kind = draw.random()
        if kind < 0.5 or depth > 4:
            words = draw.choices(["one", "two", "zwölf", "&amp;", "A&lt;B", "x", "&#228;", ","], k=draw.randint(1, 4))
            parts.append(draw.choice(["", " ", "\n  "]) + " ".join(words) + draw.choice(["", " "]))
        elif kind < 0.6:
            parts.append(draw.choice(["<br>", "<img src='a.png'>", "<wbr>", "<!-- c -->", "<code>f(x)</code>", "<hr>"]))
        elif kind < 0.75 and not inline:
            name = draw.choice(BLOCKS)
            parts.append(f"<{name}>{random_tree(draw, depth + 1)}</{name}>")
        else:
            name = draw.choice(INLINE)
            identity = draw.randrange(10**9)
            parts.append(f'<{name} id="{identity}">{random_tree(draw, depth + 1, inline=True)}</{name}>')
    return "".join(parts)


@given(seed=st.integers(0, 10**9))
def test_random_trees_keep_their_text_elements_and_balance(seed: int) -> None:
    check_tree(random.Random(seed))


@pytest.mark.slow
def test_two_thousand_random_trees() -> None:
    for seed in range(2_000):
        check_tree(random.Random(seed))


def check_tree(draw: random.Random) -> None:
    text = random_tree(draw)
    assert translated(text, str, align_reversed) == text
    before, after = Outline(text), Outline(translated(text))
    assert set(before.elements) == set(after.elements)
    expected = "".join(reverse(segment.text) for segment in TextFile(text).segments)
    assert re.sub(r"[\W\d]", "", "".join(after.texts)) == re.sub(r"[\W\d]", "", expected)
    assert translated(text).count("<code>f(x)</code>") == text.count("<code>f(x)</code>")
    assert translated(text).count("<!-- c -->") == text.count("<!-- c -->")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<p>one <b>two</b> three</p>", "<p>THREE <b>TWO</b> ONE</p>"),
        ("one <b>two three</b>.", "<b>. THREE TWO</b> ONE".replace("<b>. ", ". <b>")),
        ("one <a href='x'>two <i>three</i></a> four", "FOUR <a href='x'><i>THREE</i> TWO</a> ONE"),
        ("<b>one</b> two <b>three</b>", "<b>THREE</b> TWO <b>ONE</b>"),
        ("one <img src=a> two", "TWO ONE <img src=a>"),
        ("one &amp; <b>two</b>", "<b>TWO</b> &amp; ONE"),
        ("one<br>two <b>three</b>", "ONE<br><b>THREE</b> TWO"),
        ("<li>one</li>\n<li> two </li>", "<li>ONE</li>\n<li> TWO </li>"),
        ("one <kbd>Ctrl <b>x</b></kbd> two", "TWO ONE <kbd>Ctrl <b>x</b></kbd>"),
        ('one <span translate="no">keep</span> two', 'TWO ONE <span translate="no">keep</span>'),
        ("<script>var one = '<b>two</b>';</script>three", "<script>var one = '<b>two</b>';</script>THREE"),
        ("<b>one <i>two</b> three</i>", "<b>ONE <i>TWO</b> THREE</i>"),
        ("12 <b>34</b>", "12 <b>34</b>"),
        ("a < b", "B &lt; A"),
        ("one <a href=x/>two</a>", "<a href=x/>TWO</a> ONE"),
        ("one <a href='x'/> two", "TWO ONE <a href='x'/>"),
        ("one <a title='<b>' / x>two</a>", "<a title='<b>' / x>TWO</a> ONE"),
    ],
)
def test_tags_follow_the_words_that_they_enclose(before: str, after: str) -> None:
    assert translated(before) == after


@pytest.mark.parametrize(
    "text", ["<p", "<a href='", "</b>one", "<b>one", "&", "&#xffffffff;", "<![CDATA[one]]>", "<!", ""]
)
def test_malformed_html_is_kept(text: str) -> None:
    assert translated(text, str) == text
    translated(text)


def test_an_element_survives_if_no_word_is_aligned_to_it() -> None:
    def align(sources, targets):
        return [[AlignedToken((0, 3), (0, 3), 1.0)]]

    result = translated("one <a href='x'>two</a> three", lambda text: "EIN DREI", align)
    assert Outline(result).elements == [("a", None)]
    assert "".join(Outline(result).texts).split() == ["EIN", "DREI"]


def test_text_of_the_translation_never_becomes_markup() -> None:
    result = translated("<p>one <b>two</b></p>", lambda text: "<script>alert(1)</script>", lambda *_: [[]])
    assert "<script>" not in result
    assert html.unescape(re.sub(r"</?(p|b)>", "", result)) == "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("text", "tags", "segments"),
    [
        ("<a><t>one two</t><p>three <b>four</b></p></a>", {}, ["one two", "three four"]),
        ("<p>one two</p><p>three</p>", {}, ["one two", "three"]),
        ("<p>one two</p><p> three</p>", {"non_splitting": {"p"}}, ["one two three"]),
        ("<p>one two</p><p> three</p>", {"outline": False}, ["one two three"]),
        ("one <x>two</x> three", {}, ["one two three"]),
        ("one <x>two</x> three", {"splitting": {"x"}}, ["one", "two", "three"]),
        ("one <x>two <x>three</x></x> four", {"copied": {"x"}}, ["one four"]),
        ("<p>one <b><i>two</i></b></p></q><p>three", {}, ["one two", "three"]),
        ("<P>one</P>&amp;<P>two</P>", {}, ["one&two"]),
        ("<p><b>one</p>two <br/> three", {}, ["one", "two three"]),
    ],
)
def test_elements_of_xml_split_segments_where_the_outline_or_the_tags_say_so(text, tags, segments):
    roles = XmlTags(**{name: value if name == "outline" else frozenset(value) for name, value in tags.items()})
    markup = TextFile(text, format_with(roles))
    assert [segment.text for segment in markup.segments] == segments
    assert markup.render(segments, [[]] * len(segments)) == text
