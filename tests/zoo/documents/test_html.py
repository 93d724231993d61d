"""HTML and XML: elements that divide, belong to a sentence or are copied, attributes with text, and languages."""

from __future__ import annotations

import pytest

from tests.zoo.documents.translators import Shuffle, render, texts, translate
from zoo.documents.document import TextFile
from zoo.documents.fragments import Format
from zoo.documents.html import FORMAT, XHTML_FORMAT, ElementRoles, format_with
from zoo.documents.segments import Segment


def roles(*, is_html: bool = True, outline: bool = True, **names: str) -> Format:
    """Return the format of HTML or XML, with roles for the elements with these names."""
    given = {role: frozenset(value.split()) for role, value in names.items()}
    return format_with(ElementRoles(is_html=is_html, outline=outline, **given))


@pytest.mark.parametrize(("text", "segments"), [
    # Unknown elements and ruby belong to the sentence. Known blocks divide.
    ("one <blink>two</blink> <x:y>three</x:y>", ["one two three"]),
    ("one <picture><source srcset=a><img src=b></picture> two", ["one two"]),
    ("<ruby>one<rp>(</rp><rt>two</rt><rp>)</rp></ruby> three", ["one three"]),
    ("<ruby>one<rt>two</ruby> three", ["one three"]),
    ("<my-card><p>one</p><p>two</p></my-card>", ["one", "two"]),
    ("one<br>two", ["one", "two"]),
    ("<select><option>one<option>two</select><legend>three</legend><noscript><p>4a", ["one", "two", "three", "4a"]),
    ("<summary>one</summary>two<button>three</button><template><p>4a</p></template>", ["one", "two", "three"]),
    ("the <meta itemprop=a content=b>mail <script>document.write('<p>')</script> us", ["the mail us"]),
    # Invisible marks in a word.
    ("wash<wbr>ing ma<!-- -->chine wash&shy;ing", ["washing machine washing"]),
    # Copied elements are read as words.
    ("run<code>ls</code>now <kbd>a b</kbd> and <x/> then", ["run Foo now Foo and Foo then"]),
    ("one <b/> <a id=x /> <img/> two <svg><style>a</style><text>b</text></svg> 3c", ["one two 3c"]),
    ('one <span translate="no">Ann</span> two', ["one Ann two"]),
    ("<i class=pagenum>12</i>one <code>ls</code> two", ["one Foo two"]),
    ("<p>one</p><hr class=pagebreak>two <code>ID</code> three", ["one", "two ID three"]),
    ("one <b class='a notranslate'></b> two", ["one two"]),
    ("<p translate=no>one<p>two<div><p translate=no>one</div>three", ["two", "three"]),
    ("in 1<support>2</support> six", ["in 12 six"]), ("in 1<sub>2</sub> six", ["in 1 six"]),
    # Texts without tags.
    ("<title>one <b> two</title>", ["one <b> two"]),
    ("<textarea><b></textarea>one<textarea><!-- </textarea>two<iframe><p></iframe>three", ["one", "two", "three"]),
    ("<script src='a'/>one</script>two", ["two"]),
    ("<title/><p>one</p><script src=a />two <b>three</b>", ["one", "two three"]),
    ("one<title>two <p> three", ["one"]),
    ("<p translate=no>one<br>two <input> three</p>four<input></input>five<br/></br>six", ["four", "five", "six"]),
    ("<a>one</a><a b='c'>Two</a> | <a>three</a>&nbsp;| <a>four</a>", ["one", "Two", "three", "four"]),
    ("<a>One</a> <a><i>Two three</i></a>\n<a><img></a> <a>4 five</a>", ["One", "Two three", "4 five"]),
    ("<u><i><a>One</a></i> <b><a>Two</a></b></u>", ["One", "Two"]), ("<i>1 <a>Two</a></i> <a>Six</a>", ["1 Two Six"]),
    ("<a>One</a> <a>two</a>", ["One two"]), ("<a>One</a> <a>Two</a>.", ["One Two."]),
    ("<a>U</a><a>SA</a>", ["USA"]), ("<a>One</a> <a>“two” six</a>", ["One “two” six"]),
    ("<a>東京</a> <a>タワー</a>", ["東京 タワー"]), ("<a>• a</a> <a>“Two” six</a>", ["a", "“Two” six"]),
    ("one<a id=b></a><a id=c></a> <a>two</a> <a>three</a>, <a>four</a>", ["one two three, four"]),
    # Template code.
    ("{% a 'b' %} {# <p>one #}<p>{% if a<3 %}two{{/if}}<% end %>three<?php } ?>four", ["two", "three", "four"]),
    ("<title>{% if %}one{%endif%}</title>two {% three <b>", ["one", "two {% three"]),
    ("one {{ two }} {{> a}} three <%= b %> <?= '<p>' ?>", ["one {{ two }} Foo three Foo Foo"]),
    ("one.\n <%= a %>\ntwo <code>{#</code> three <code>#}</code>", ["one.", "two Foo three Foo"]),
    ("<div{% if a > 1 %} b{% endif %} {{ '>' }} c='{{ '>' }}' d={{ '>' }}>one</div>", ["one"]),
    ('<a title="{% a "b" %}one {{ c < d }}" alt=\'{{ "two" }}\'>three</a>', ["one Foo", "three"]),
    ("one<plaintext></plaintext>two", ["one"]),
    # Comments and declarations.
    ("one <!-- two <p> three", ["one"]),
    ("one <!--> two <!---> three", ["one two three"]),
    ("one <!-- a --!> two <!--!> a --> three", ["one two three"]),
    ("one <![CDX[ a > two ]]> <![CDATA[ a > three ]]>", ["one two ]]> three ]]>"]),
    ("one <?php a > two", ["one two"]),
    ("one <svg><![CDATA[</svg>]]></svg> two", ["one two"]),
    ("one </> two </ three> four", ["one two four"]),
])  # fmt: skip
def test_elements_have_the_roles_that_html_gives_them(text: str, segments: list[str]) -> None:
    assert texts(text, FORMAT) == segments
    assert render(text, FORMAT) == text


@pytest.mark.parametrize(("text", "segments"), [
    ("<p>one <![CDATA[<two>]]> three</p>", ["one <two> three"]),
    ("<p>one</p><p/><title/><script src='a'/>two", ["one", "two"]),
    ("<a id='x'/>one <b>two</b>", ["one two"]),
    ("one &two; &amp; &eacute; {{ <b>x</b> }}", ["one Foo & é {{ x }}"]),
    ("one <m:math><m:mi>x</m:mi></m:math><img></img> <br></br>two", ["one Foo", "two"]),
    ("<style>/*<![CDATA[*/ </style> /*]]>*/</style>one", ["one"]),
    ("<?xml version='1.0' a='>'?><p>one</p>", ["one"]),
    ("<!DOCTYPE html [<!ENTITY a '>]>'><!-- ]> -->]><p>one</p>", ["one"]),
    ("one <!-- a --!> b --> two", ["one two"]),
])  # fmt: skip
def test_pages_of_books_follow_the_rules_of_xml(text: str, segments: list[str]) -> None:
    assert texts(text, XHTML_FORMAT) == segments
    assert render(text, XHTML_FORMAT) == text


@pytest.mark.parametrize(("text", "expected"), [
    ("<nav epub:type='page-list'><p>a b</p><ol><li>c d", "<nav epub:type='page-list'><p>B A</p><ol><li>c d"),
    ("one <i role='doc-pagebreak' title='a b'/>", "ONE <i role='doc-pagebreak' title='a b'/>"),
    ("one <i epub:type='pagebreak'>12</i>two", "TWO ONE <i epub:type='pagebreak'>12</i>"),
    ('one <i class="pagenum">[<b>12</b>]</i> two', 'TWO ONE <i class="pagenum">[<b>12</b>]</i>'),
    ('<i class="pagenum">12</i> use <code>ID</code>', '<i class="pagenum">12</i> <code>ID</code> USE'),
    ('<img class="pagenum"> use <code>ID</code>', '<img class="pagenum"> <code>ID</code> USE'),
    ("wash<wbr>ing two", "TWO WASHING"),
    ("one <![CDX[ a > <b>two</b>", "<b>TWO</b> ONE <![CDX[ a >"),
    ("one two <code>x", "TWO ONE <code>x"),
    ("the user-<code>ID</code> now", "NOW <code>ID</code> - USER THE"),
    ("the <code>ID</code>'s end", "END S ' <code>ID</code> THE"),
    ("one two.<a href='#r'>\u21a9\ufe0e</a>", ". TWO ONE<a href='#r'>\u21a9\ufe0e</a>"),
    ("one two.&#160;<a href='#r'>&#8617;</a>", ". TWO ONE\u00a0<a href='#r'>&#8617;</a>"),
    ("one <a>→</a> two", "TWO ONE <a>→</a>"), ("&mdash; <i>&#xf015;</i> one two", "&mdash; <i>&#xf015;</i> TWO ONE"),
    ("a &amp; <u>b&nbsp;&#160;&nbsp;</u>c", "<u>B</u> &amp; A<u>&nbsp;&#160;&nbsp;</u>C"),
    ("tea,<sup><a href='#5'>5</a></sup> two", "TWO ,<sup><a href='#5'>5</a></sup> TEA"),
    # Tags follow the words that they enclose.
    ("one <a href='x'>two <i>three</i></a> four", "FOUR <a href='x'><i>THREE</i> TWO</a> ONE"),
    ("<b>one <i>two</b> three</i>", "<b>ONE <i>TWO</b> THREE</i>"),
    ("a < b", "B &lt; A"), ("one <a href=x/>two</a>", "<a href=x/>TWO</a> ONE"),
    ("one <a href='x'/> two", "TWO ONE <a href='x'/>"),
    ("one <a rel='<b>' / x>two</a>", "<a rel='<b>' / x>TWO</a> ONE"),
    # Contents with a sign between them are copied as one.
    ("one <kbd>a</kbd>+<kbd>b</kbd> two", "TWO <kbd>a</kbd>+<kbd>b</kbd> ONE"),
    ("one <code>a</code> + <code>b</code>", "<code>b</code> + <code>a</code> ONE"),
    # Attributes with text.
    ('<img alt="one two">', '<img alt="TWO ONE">'),
    ('<img alt="one {{ a < b }} two">', '<img alt="TWO {{ a < b }} ONE">'),
    ("one <%= a %> two", "TWO <%= a %> ONE"),
    ('<p TITLE = "one two">three four</p>', '<p TITLE = "TWO ONE">FOUR THREE</p>'),
    ('<input placeholder="one two" value="three">', '<input placeholder="TWO ONE" value="three">'),
    ('<input type="Submit" value="one two"/>', '<input type="Submit" value="TWO ONE"/>'),
    ('<button aria-label="one two">x</button>', '<button aria-label="TWO ONE">X</button>'),
    ('<textarea placeholder="one two">x</textarea>', '<textarea placeholder="TWO ONE">x</textarea>'),
    ('<meta name="description" content="a b"><meta property="og:title" content="c d">',
     '<meta name="description" content="B A"><meta property="og:title" content="D C">'),
    ('<meta name="author" content="one two"><link title="one two">',) * 2,
    ('<code><img alt="a b"></code><img alt="c d" translate="no">',) * 2,
    ('<b translate=no title="one two">x</b>', '<b translate=no title="one two">x</b>'),
    ('<!-- <img alt="one two"> -->', '<!-- <img alt="one two"> -->'),
    ('<img alt="12"><img alt=" one two">', '<img alt="12"><img alt=" TWO ONE">'),
    ('one <b title="two three">four</b>', '<b title="THREE TWO">FOUR</b> ONE'),
])  # fmt: skip
def test_elements_follow_their_words_and_visible_attributes_are_translated(text: str, expected: str) -> None:
    assert render(text, FORMAT, Shuffle()) == expected
    assert render(text, FORMAT) == text


@pytest.mark.parametrize(("tag", "again"), [
    ('<a id="1" href="#">', '<a href="#">'),
    ("<a href='#' ID = 1>", "<a href='#'>"),
    ("<a name=x>", "<a>"),
    ('<span name="x" xml:id="y">', '<span name="x">'),
    ("<b id='1'class=x>", "<b class=x>"),
    ("<b data-id=1>", "<b data-id=1>"),
])  # fmt: skip
def test_an_element_that_is_opened_twice_keeps_its_identity_once(tag: str, again: str) -> None:
    name = tag[1:].split()[0]
    result = render(f"{tag}two three | six</{name}>", FORMAT, Shuffle(0))
    assert result == f"{tag}THREE TWO</{name}>{again} | </{name}>{again}SIX</{name}>"


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_attributes_are_escaped_for_their_quotation_mark(quote: str) -> None:
    file = TextFile(f"<img alt={quote}one{quote} src=a>x")
    target = """a 'b' "c" <d> & `e`=f"""
    result = file.render(iter(targets := [(target, []), ("X", [])]))
    (read,) = [segment.text for segment in TextFile(result).segments if "'" in segment.text]
    assert read == target
    assert result.endswith(" src=a>X")
    assert TextFile(file.render(iter(targets))).render(iter(targets)) == result
    assert len(texts(file.render(iter([("", []), ("X", [])])), FORMAT)) == 1


def test_an_attribute_of_an_element_that_is_opened_twice_is_translated() -> None:
    result = render('one <b id="i" title="five six">two three</b>', FORMAT, Shuffle(0))
    assert result == '<b id="i" title="SIX FIVE">TWO</b> ONE <b title="SIX FIVE">THREE</b>'


def test_words_that_leave_a_link_join_no_other_element() -> None:
    result = render("<a id=1>one</a> <a>two three</a> | <i>one</i> <a><code>x</code> three</a>", FORMAT, Shuffle(0))
    assert result == "TWO <a id=1>ONE</a> <a>THREE</a> | <code>x</code> <i>ONE</i> <a>THREE</a>"
    result = render("<a>two six</a> <img> x | <i>y</i> <a><a>one two</a> six</a>", FORMAT, Shuffle(0))
    assert result == "<a>SIX TWO</a> <img> X | <a>ONE</a> <i>Y</i> <a>TWO SIX</a>"
    result = render("one <a>two three</a> | x <i>y</i> <a><img> z</a> | one <a><img> two</a>", FORMAT, Shuffle(0))
    assert result == "<a>TWO ONE THREE</a> | <i>Y</i> <a><img> X Z</a> | <a>TWO ONE <img></a>"


def test_the_time_to_put_images_after_a_link_grows_linearly_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, link_stack = list[object](), Segment.link_stack
    monkeypatch.setattr(Segment, "link_stack", lambda *given: calls.append(given) or link_stack(*given))
    result = render(f"one <a>{'two ' * 200}</a>{'<img>' * 200} six", FORMAT, Shuffle())
    assert result.partition("</a>")[2].count("<img>") == 200
    assert len(calls) < 10_000, "there are 40,000 pairs of words and images"


@pytest.mark.parametrize(("text", "expected"), [
    ('<html lang="en"><p>one</p>', '<html lang="de"><p>one</p>'),
    ('<HTML xml:lang="en" lang=""><p lang="en">one', '<HTML xml:lang="de" lang="de"><p lang="en">one'),
    ("<html lang=en class=x><body lang=EN-US><p>one", "<html lang=de class=x><body lang=de><p>one"),
    ("<html><body lang=EN-US><body lang=fr><p>one", "<html><body lang=de><body lang=fr><p>one"),
    ('<html lang="{{ a }}"><p>one', '<html lang="{{ a }}"><p>one'),
    ('<html><p lang="en">one <b lang="fr">deux</b></p>', '<html><p lang="en">one <b lang="fr">deux</b></p>'),
])  # fmt: skip
def test_the_language_of_the_page_is_set(text: str, expected: str) -> None:
    assert translate(text.encode(), "a.html", language="de").decode() == expected


XML = {"is_html": False}


@pytest.mark.parametrize(("text", "names", "segments"), [
    ("one <keep>two</keep> three", {"copied": "keep"}, ["one Foo three"]),
    ("one <keep/> three", {"copied": "keep"}, ["one Foo three"]),
    ("one <b>two</b> three", {"splitting": "b"}, ["one", "two", "three"]),
    ("<p>one</p> <p>two</p>", {"non_splitting": "p"}, ["one two"]),
    ("<div>one</div><p>two</p>", {"copied": "p"}, ["one"]),
    ("one<br>two", {"non_splitting": "br"}, ["one two"]),
    ("one <code>two</code> three", {"non_splitting": "code"}, ["one two three"]),
    # In XML, the outline or the clients say which elements divide.
    ("<a><t>one two</t><p>three <b>four</b></p></a>", XML, ["one two", "three four"]),
    ("one <x>two</x> three", XML, ["one two three"]),
    ("<p>one two</p><p> three</p>", XML | {"non_splitting": "p"}, ["one two three"]),
    ("<a>One</a> <a>Two three</a>", XML | {"non_splitting": "a"}, ["One Two three"]),
    ("<p>one two</p><p> three</p>", XML | {"outline": False}, ["one two three"]),
    ("one <x>two</x> three", XML | {"splitting": "x"}, ["one", "two", "three"]),
    ("one <x>two <x>three</x></x> four", XML | {"copied": "x"}, ["one Foo four"]),
    ("<p>one <b><i>two</i></b></p></q><p>three", XML, ["one two", "three"]),
    ("<P>one</P>&amp;<P>two</P>", XML, ["one&two"]),
    ("<p><b>one</p>two <br/> three", XML, ["one", "two three"]),
])  # fmt: skip
def test_clients_choose_the_roles_of_elements(text, names, segments) -> None:
    assert texts(text, roles(**names)) == segments
    assert render(text, roles(**names)) == text
    assert ("<keep>two</keep>" in render(text, roles(**names), Shuffle())) == ("<keep>two</keep>" in text)


@pytest.mark.parametrize(("text", "expected"), [
    ("<r xml:lang='en'><p>one two</p><p>three</p></r>", "<r xml:lang='de'><p>TWO ONE</p><p>THREE</p></r>"),
    ("<r><p>one <![CDATA[<two>]]></p></r>", "<r><p>&gt; TWO &lt; ONE</p></r>"),
    ("<p>one <x id='1'/> two</p>", "<p>TWO <x id='1'/> ONE</p>"),
    ("<p>one <img>two</img> three</p>", "<p>THREE <img>TWO</img> ONE</p>"),
    ("<p>one two<br/>three</p>", "<p>THREE TWO<br/>ONE</p>"),
    ("<p>one <g translate='no'>two</g> three</p>", "<p>THREE <g translate='no'>two</g> ONE</p>"),
    ("<p>one <!-- x --!> two --> three</p>", "<p>THREE ONE <!-- x --!> two --></p>"),
])  # fmt: skip
def test_xml_is_written_with_its_structure(text: str, expected: str) -> None:
    assert render(text, roles(is_html=False), Shuffle(), "de") == expected
    assert render(text, roles(is_html=False)) == text
