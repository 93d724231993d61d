"""The rules for all formats, on a small markup language that has every kind of fragment."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from tests.zoo.documents.translators import Shuffle, random_markup, render, texts, with_ranges
from zoo.documents import html
from zoo.documents.document import TextFile
from zoo.documents.fragments import MAX_DEPTH, Fragment, Kind, View
from zoo.generation.alignment import AlignedToken

TOKEN = re.compile(
    r"<(?P<open>\w+)(?P<id>=\d+)?>|</(?P<close>\w+)>|\{(?P<start>\w+) | (?P<end>\w+)\}|\[(?P<unit>[^\]]*)\]"
    r"|(?P<line>~)|(?P<divides>\^)|(?P<end_of_paragraph>/)"
)
"""<b>element</b>, <a=1>element with an identity</a>, {n range n}, [copied], ~ line break, ^ tab, / paragraph end."""


def parse(text: str) -> list[Fragment]:
    fragments, end = [], 0
    for match in TOKEN.finditer(text):
        fragments.append(Fragment(Kind.TEXT, text[end : match.start()], text[end : match.start()]))
        raw, end = match[0], match.end()
        if name := match["open"]:
            fragments.append(Fragment(Kind.OPEN, raw, "", name, None, match["id"] and f"<{name}>", name == "sup"))
        elif name := match["close"]:
            fragments.append(Fragment(Kind.CLOSE, raw, key=name))
        elif name := match["start"] or match["end"]:
            fragments.append(Fragment(Kind.START if match["start"] else Kind.END, raw, key=name))
        elif match["unit"] is not None:
            fragments.append(Fragment(Kind.UNIT, raw, match["unit"]))
        elif match["end_of_paragraph"]:
            fragments.append(Fragment(Kind.BREAK, raw))
        else:
            fragments.append(Fragment(Kind.LINE, raw, " " if match["line"] else ""))
    return [*fragments, Fragment(Kind.TEXT, text[end:], text[end:])]


FORMAT = (View(parse, str),)
WRAPPED = (View(parse, str, wraps=True),)
RUNS = (View(parse, lambda text: f"«{text}»", needs_runs=True),)


@pytest.mark.parametrize(("text", "expected"), [
    # Ranges: the start precedes the first word of the range, and the end follows the last one.
    ("one {1 two three 1} four", "FOUR {1 THREE TWO 1} ONE"),
    ("one two{1  1} three", "THREE TWO{1  1} ONE"), ("wa{1 ter 1}fall two", "TWO {1 WATERFALL 1}"),
    ("{1 one two/three four 1}", "{1 TWO ONE/FOUR THREE 1}"),
    ("one {1 two/three 1} four", "{1 TWO ONE/FOUR THREE 1}"),
    ("<b>one {1 two</b> three 1} four", "FOUR {1 THREE <b>TWO</b> 1} <b>ONE</b>"),
    ("{1 {2 one 1} two 2} three", "THREE {2 TWO {1 ONE 1} 2}"),
    # Copied content: the translator reads it as a word, whose translation it replaces.
    ("one [ls] two", "TWO [ls] ONE"), ("one [a b] two.", ". TWO [a b] ONE"),
    ("[ls] one two", "TWO ONE [ls]"), ("one[f()]two", "TWO [f()] ONE"), ("one [] two", "TWO ONE []"),
    # References stay behind their word.
    ("tea,<u>5</u> and", "AND ,<u>5</u> TEA"), ("area<u>2</u> one", "ONE AREA<u>2</u>"),
    ("tea.<u>↩\ufe0e</u>", ". TEA<u>↩\ufe0e</u>"), ("20<b>24</b> one", "ONE 20<b>24</b>"),
    ("one <b>24</b> two", "TWO <b>24</b> ONE"),
    ("word<b>,</b> two", "TWO <b>,</b> WORD"),
    # Raised numbers precede their text.
    ("<sup>12</sup>One two", "<sup>12</sup>TWO ONE"),
    ("<b><sup>12</sup> “one</b> two", "<b><sup>12</sup></b> TWO <b>ONE “</b>"),
    ("one. <sup>2</sup>And two", "TWO AND <sup>2</sup> . ONE"),
    ("one <sup>14</sup>Cs two", "TWO <sup>14</sup>CS ONE"),
    ("<sup>1</sup>⁄2 one", "ONE 2 ⁄ <sup>1</sup>"),
    ("<sup>14</sup>C one", "ONE <sup>14</sup>C"),
    ("<b>12</b> one", "ONE <b>12</b>"),
    ("<b>3</b>d one", "ONE <b>3</b>D"),
    # Elements inside of a word keep their characters.
    ("one h<u>2</u>o", "H<u>2</u>O ONE"),
    ("wash\u00ading \u202ama\u00adchine\u202c", "MACHINE WASHING"),
    ("x<u>max</u> one", "ONE X<u>MAX</u>"),
    # Line breaks come back at a space, and divide where the next line does not continue the sentence.
    ("one two~three", "THREE TWO~ONE"),
    ("one two,~three", "THREE ,~TWO ONE"),
    ("a) one~b) two", "a) ONE~b) TWO"),
    ("(i) one~(ii) two", "(i) ONE~(ii) TWO"),
    ("one.~2 three", "ONE .~THREE 2".replace("ONE .", ". ONE")),
    ("<b>One~Two</b> three", "<b>ONE</b>~THREE <b>TWO</b>"),
    ("<a=1>One^two</a>", "<a=1>ONE</a><a>^</a><a>TWO</a>"),
    ("one~", "ONE~"),
    # Marks at the start and end of a line are copied.
    ("- one two", "- TWO ONE"), ("<b>- one</b> two", "<b>- </b>TWO <b>ONE</b>"), ("— <b>one</b> x", "— X <b>ONE</b>"),
    ("one -~- two", "- ONE~- TWO"), ("♪ one two ♪", "♪ TWO ONE ♪"),
    # Icons are copied. Check boxes, bars and wide gaps divide, unless they are part of a sentence.
    ("\uf0b7 one two", "\uf0b7 TWO ONE"), ("<a>\uf015</a> one two", "<a>\uf015</a> TWO ONE"),
    ("☐ one two  ☒ Three", "☐ TWO ONE  ☒ THREE"), ("see ☐ one", "ONE ☐ SEE"), ("(a | b)", ") B | A ("),
    ("<a=1>☐ one two</a> <b>☐</b> six", "<a=1>☐ </a><a>TWO ONE</a> <b>☐</b> SIX"), ("☐ one☐ two", "☐ ONE☐ TWO"),
    ("<b>one two | six</b>", "<b>TWO ONE</b><b> | </b><b>SIX</b>"), ("a b\xa0 \xa0\xa0c", "B A\xa0 \xa0\xa0C"),
    # An element whose words are apart is opened again without its identity.
    ("<a=1>one</a> two", "TWO <a=1>ONE</a>"),
])  # fmt: skip
def test_markup_follows_the_words(text: str, expected: str) -> None:
    assert render(text, FORMAT, Shuffle()) == expected
    assert render(text, FORMAT) == text


def test_the_full_stop_stays_outside_of_the_last_element() -> None:
    file = TextFile("one <b>two</b>.", FORMAT)
    alignment = [AlignedToken((0, 3), (0, 3), 1.0), AlignedToken((4, 8), (4, 7), 1.0)]
    assert file.render(iter([("ONE TWO.", alignment)])) == "ONE <b>TWO</b>."


@pytest.mark.parametrize(("text", "expected"), [
    ("one~Two three", ["one Two three"]), ("One.~Two", ["One.", "Two"]), ("one...~two", ["one... two"]),
    ("one~- two", ["one", "two"]),
])  # fmt: skip
def test_line_breaks_of_wrapped_text_divide_only_after_a_sentence_or_before_a_mark(text, expected) -> None:
    assert texts(text, WRAPPED) == expected


WORDS, UNITS = ["one", "two,", "Three.", "4", "h", "- x", "", "☐"], ["[]", "[ls]", "[x y]", "~", "^", "/", " "]
NESTED = [(f"<{name}{identity}>", f"</{name}>") for name in "abc" for identity in ("", "=#")]


def check(text: str, model: Shuffle, form) -> None:
    result = render(text, form, model)
    assert render(text, form) == text
    found = list(TOKEN.finditer(result))
    before, after = (Counter(match[0] for match in TOKEN.finditer(each)) for each in (text, result))
    for token in {*before, *after}:
        if not re.match(r"</?[a-z]>", token):
            assert before[token] == after[token], (token, text, result)
        else:
            assert after[token] > 0 or not before[token], (token, text, result)
    places = {match[0].strip(): match.start() for match in found}
    for name in "012":
        if f"{{{name}" in places:
            assert places[f"{{{name}"] < places[f"{name}}}"], (text, result)


@given(seed=st.integers(0, 10**9))
def test_nothing_is_lost_doubled_or_swapped(seed: int) -> None:
    draw = random.Random(seed)
    text = random_markup(draw, WORDS, UNITS, NESTED)
    gaps = sorted({0, len(text), *(match.end() for match in re.finditer(r"(?<=\w) (?![^\[]*\])|(?<=[>\]/~^])", text))})
    text = with_ranges(text, draw, gaps, [(f"{{{number} ", f" {number}}}") for number in range(draw.randint(0, 3))])
    check(text, Shuffle(seed, faithful=draw.random() < 0.5), FORMAT)


@given(seed=st.integers(0, 10**9))
def test_all_text_stays_inside_of_runs(seed: int) -> None:
    draw = random.Random(seed)
    parts = ["one ", "two", " Three. ", "4", "x~y", "[]", "^", "one two ", "[x y]"]
    frames = ["<a><r>{}</r></a>", *["<r>{}</r>"] * 2]
    text = "".join(draw.choice(frames).format(draw.choice(parts)) for _ in range(draw.randint(1, 6)))
    text = re.sub(r"<r>(\[x y\])</r>", r"\1", text)
    check(text, Shuffle(seed), RUNS)
    result = render(text, RUNS, Shuffle(seed))
    if result != text:
        outside = re.sub(r"<r>((?!</r>).)*</r>", "", result)
        assert "«" not in outside, (text, result)
        assert "~" not in outside, (text, result)


def test_deep_elements_are_refused() -> None:
    refused("inline elements", TextFile, "<a>" * (MAX_DEPTH + 1) + "one" + "</a>" * (MAX_DEPTH + 1), FORMAT)
    refused("elements", TextFile, "<a>" * (MAX_DEPTH + 1) + "One~Two" + "</a>" * (MAX_DEPTH + 1), FORMAT)


def test_copied_contents_are_written_once_whatever_the_alignment_says() -> None:
    file = TextFile("one <code>a b</code> or <code>c d</code>", html.FORMAT)
    target = "Foo ODER Foosen EINS"
    words = [AlignedToken(match.span(), (4, 7), 1.0) for match in re.finditer(r"\w+", target)]
    for alignment in (words, words[:1], words[1:2], words[2:], []):
        result = file.render(iter([(target, alignment)]))
        assert result == "<code>a b</code> ODER <code>c d</code> EINS", alignment


def test_numbers_and_addresses_are_not_torn() -> None:
    file = TextFile("<b>$12.50</b> or <i>10,000</i> to <u>a.b@c.org</u>", html.FORMAT)
    (segment,) = file.segments
    target = "12,50 $ oder 10.000 an a.b@c.org"
    at = segment.text.index
    alignment = [
        AlignedToken((0, 7), (0, 6), 1.0),
        AlignedToken((8, 12), (7, 9), 1.0),
        AlignedToken((13, 15), (at("10"), at("10") + 2), 0.9),
        AlignedToken((15, 16), (3, 4), 0.5),
        AlignedToken((16, 19), (at("000"), at("000") + 3), 0.8),
        AlignedToken((20, 22), (at("to"), at("to") + 2), 0.3),
        AlignedToken((24, 25), (0, 3), 0.2),
        AlignedToken((25, 32), (at("a.b"), len(segment.text)), 0.9),
    ]
    assert file.render(iter([(target, alignment)])) == "<b>12,50 $</b> oder <i>10.000</i> an <u>a.b@c.org</u>"
