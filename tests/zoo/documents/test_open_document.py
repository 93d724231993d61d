"""OpenDocument texts: fields, ranges, notes, breaks and elements come back whole, wherever the words go."""

from __future__ import annotations

import random
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zoo.documents.translators import Shuffle, random_markup, render, texts, with_ranges
from zoo.documents import open_document
from zoo.documents.fragments import Format

NAMES = {"o": "office", "t": "text", "draw": "drawing"}
"""Prefixes. They differ from those of office programs, because only namespaces have a meaning."""
START = "<o:text {}>".format(
    " ".join(f'xmlns:{key}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for key, name in NAMES.items())
)
FORMAT: Format = open_document.FORMAT(["content.xml"], str)["content.xml"]


def document(paragraphs: str) -> str:
    return f"{START}{paragraphs}</o:text>"


def translated(paragraphs: str, model: Shuffle | None = None) -> str:
    result = render(document(paragraphs), FORMAT, model)
    ElementTree.fromstring(result)
    return result.removeprefix(START).removesuffix("</o:text>")


NOTE = "<t:note><t:note-citation>1</t:note-citation><t:note-body><t:p>{}</t:p></t:note-body></t:note>"
BOX = "<draw:frame><draw:text-box><t:p>{}</t:p></draw:text-box></draw:frame>"
COMMENT = "<o:annotation><t:p>{}</t:p></o:annotation>"
LOEXT = 'xmlns:x="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"'


@pytest.mark.parametrize(("before", "after"), [
    # Elements inside of a sentence.
    ("one <t:meta>two</t:meta> <t:a>three</t:a>", "<t:a>THREE</t:a> <t:meta>TWO</t:meta> ONE"),
    ("<t:placeholder>six</t:placeholder> <t:text-input>two three</t:text-input>",
     "<t:text-input>THREE TWO</t:text-input> <t:placeholder>SIX</t:placeholder>"),
    ("one <t:ruby><t:ruby-base>two</t:ruby-base><t:ruby-text>tu</t:ruby-text></t:ruby>",
     "<t:ruby><t:ruby-base>TWO</t:ruby-base><t:ruby-text>tu</t:ruby-text></t:ruby> ONE"),
    # Ranges begin before their first word and end after their last one.
    ('one <t:bookmark-start t:name="b"/>two three<t:bookmark-end t:name="b"/> four',
     'FOUR <t:bookmark-start t:name="b"/>THREE TWO<t:bookmark-end t:name="b"/> ONE'),
    ('one <t:change-start t:change-id="c"/>two<t:change-end t:change-id="c"/>',
     '<t:change-start t:change-id="c"/>TWO<t:change-end t:change-id="c"/> ONE'),
    ('one <o:annotation o:name="n"/>two<o:annotation-end o:name="n"/> three',
     'THREE <o:annotation o:name="n"/>TWO<o:annotation-end o:name="n"/> ONE'),
    ('one<o:annotation o:name="n"/> two', 'TWO ONE<o:annotation o:name="n"/>'),
    ('one<t:bookmark t:name="b"/> two<t:soft-page-break/>', 'TWO ONE<t:bookmark t:name="b"/><t:soft-page-break/>'),
    # Results that the program computes are copied.
    ("page <t:page-number>12</t:page-number> here", "HERE <t:page-number>12</t:page-number> PAGE"),
    ("see <t:bookmark-ref>the box</t:bookmark-ref> here", "HERE <t:bookmark-ref>the box</t:bookmark-ref> SEE"),
    # Tabs and line breaks.
    ('one two<t:tab/>three four<t:s t:c="9"/>five six', 'TWO ONE<t:tab/>FOUR THREE<t:s t:c="9"/>SIX FIVE'),
    ("<t:span>one<t:tab/>two <t:s/>six</t:span>", "<t:span>ONE<t:tab/>SIX<t:s/>TWO</t:span>"),
    ("Dear one<t:line-break/>Two three", "ONE DEAR<t:line-break/>THREE TWO"),
    ("one two,<t:line-break/>three", "THREE ,<t:line-break/>TWO ONE"),
    # Content controls do not cut a sentence.
    (f"one <x:content-control {LOEXT}>two three</x:content-control> four",
     f"FOUR <x:content-control {LOEXT}>THREE TWO</x:content-control> ONE"),
    # Notes, text boxes and comments are segments of their own, and keep their text when they change places.
    (f"one{NOTE.format('three four')} two{COMMENT.format('seven eight')}{BOX.format('five six')}",
     f"TWO ONE{NOTE.format('FOUR THREE')}{COMMENT.format('EIGHT SEVEN')}{BOX.format('SIX FIVE')}"),
    (f"one{NOTE.format('three four' + COMMENT.format('eight nine'))} two{BOX.format('six' + NOTE.format('ten'))}",
     f"TWO ONE{NOTE.format('FOUR THREE' + COMMENT.format('NINE EIGHT'))}{BOX.format('SIX' + NOTE.format('TEN'))}"),
    ("one two<draw:line><t:p>x y</t:p></draw:line>", "TWO ONE<draw:line><t:p>Y X</t:p></draw:line>"),
    (f"one{NOTE.format('three four')} two{NOTE.format('five four')} six",
     f"SIX TWO{NOTE.format('FOUR FIVE')} ONE{NOTE.format('FOUR THREE')}"),
    # Characters.
    ("one <![CDATA[& two]]>", "TWO &amp; ONE"),
])  # fmt: skip
def test_markup_follows_the_words(before: str, after: str) -> None:
    before, after = f"<t:p>{before}</t:p>", f"<t:p>{after}</t:p>"
    assert translated(before) == before
    assert translated(before, Shuffle()) == after


def test_an_element_that_leaves_its_link_is_kept() -> None:
    before = "<t:p><t:span>one</t:span> <t:a><t:meta><t:date>5</t:date></t:meta> two three</t:a></t:p>"
    after = "<t:p><t:meta><t:date>5</t:date></t:meta> <t:span>ONE</t:span> <t:a>TWO THREE</t:a></t:p>"
    assert translated(before, Shuffle(0)) == after


def test_text_in_a_code_style_is_copied() -> None:
    styles = (
        '<s:style s:name="T1" s:parent-style-name="Own"/><s:style s:name="Own" s:display-name="Source Text"/>'
        '<s:style s:name="P1" s:parent-style-name="Preformatted_20_Text"/><s:style s:name="T2"/>'
        '<style:style style:name="T3" style:family="text"><style:text-properties style:font-name="Wingdings1"/>'
    )
    before = '<t:p>one <t:span t:style-name="{}">ls -l</t:span> two</t:p>'
    code, text = before.format("T1"), before.format("T2")
    block = '<t:p t:style-name="P1">one two</t:p><t:p><t:span t:style-name="T3">o</t:span>'
    form = open_document.FORMAT(["content.xml", "styles.xml"], lambda name: styles * (name == "styles.xml"))
    result = render(document(code + text + block + " one two</t:p>"), form["content.xml"], Shuffle())
    swapped = (code + text.replace("ls -l", "L - LS")).replace(">one", ">TWO").replace("> two", "> ONE")
    assert result == document(swapped + block + " TWO ONE</t:p>")


def test_descriptions_of_pictures_are_translated() -> None:
    before = "<t:p>one <draw:frame><svg:title>{}</svg:title>\n<svg:desc>{}</svg:desc></draw:frame></t:p>"
    start = START.replace(">", " xmlns:svg='u'>")
    result = render(start + before.format("two &amp; three", "four five") + "</o:text>", FORMAT, Shuffle())
    assert before.format("THREE &amp; TWO", "FIVE FOUR").replace("one", "ONE") in result


def test_deleted_text_is_left_alone() -> None:
    before = "<t:tracked-changes><t:deletion><t:p>one two</t:p></t:deletion></t:tracked-changes><t:p>three</t:p>"
    assert texts(document(before), FORMAT) == ["three"]
    assert translated(before, Shuffle()) == before.replace("three", "THREE")


WORDS = ["one", "two,", "Three.", "4", "- x", "&amp;", ""]
UNITS = [f"<t:{name}/>" for name in ("tab", "line-break", "s", "bookmark", "change", "soft-page-break")]
UNITS += ["<t:date>1 May</t:date>", "<draw:frame/>", NOTE.format("three four"), BOX.format("five six"), "<t:a> </t:a>"]
NESTED = [(f"<t:{name}>", f"</t:{name}>") for name in ("span", "a", "meta")]


def gaps_of(text: str) -> list[int]:
    """Return the positions where a range can start or end."""
    copied = "<t:(note|ruby|date)>.*?</t:\\1>|<draw:frame>.*?</draw:frame>"
    outside = re.sub(copied, lambda match: "_" * len(match[0]), text)
    gaps = [0, len(text), *(match.end() for match in re.finditer("(?<=[a-z]) (?=[a-z])|[_>](?![_])", outside))]
    return [gap for gap in gaps if outside[gap : gap + 1] != "_" or outside[gap - 1 : gap] != "_"]


@given(seed=st.integers(0, 10**9))
def test_nothing_is_lost_doubled_or_swapped(seed: int) -> None:
    draw = random.Random(seed)
    paragraphs = "".join(f"<t:p>{random_markup(draw, WORDS, UNITS, NESTED)}</t:p>" for _ in range(draw.randint(1, 3)))
    marks = [(f'<t:bookmark-start t:name="{name}"/>', f'<t:bookmark-end t:name="{name}"/>') for name in "abc"]
    is_one = paragraphs.count("<t:p>") == 1
    before = with_ranges(paragraphs, draw, gaps_of(paragraphs), marks) if is_one else paragraphs
    assert translated(before) == before
    after = translated(before, Shuffle(seed, faithful=draw.random() < 0.5))
    counts = [Counter(re.findall("<(?!t:span|t:a>)[^/][^>]*>", text)) for text in (before, after)]
    assert counts[0] == counts[1]
    for name in "abc":
        assert after.find(f'start t:name="{name}"') <= after.find(f'end t:name="{name}"')
