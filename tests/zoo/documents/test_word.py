"""Word documents: fields, ranges, notes, breaks and elements come back whole, wherever the words go."""

from __future__ import annotations

import random
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.zoo.documents.translators import (
    Shuffle,
    archive,
    random_markup,
    render,
    spans,
    texts,
    translate,
    unpack,
    with_ranges,
)
from zoo.documents import word
from zoo.documents.document import TextFile
from zoo.documents.segments import PLACEHOLDER
from zoo.generation.alignment import AlignedToken

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
TOKEN = re.compile(
    r"\{(?P<code>[^|{}]*)\||(?P<end>\})|(?P<start>[\[(])(?P<first>\d) | (?P<last>\d)[\])]|<(?P<open>/?\w+)>"
    r"|(?P<mark>[→↵⇊^@‑¬☎¶])|\*(?P<bold>[^*]+)\*"
    r"|(?P<text>[^{}<>→↵⇊^@‑¬☎¶*|]+?(?=[{}<>→↵⇊^@‑¬☎¶*|]|[\[(]\d | \d[\])]|$))"
)
"""{CODE|field}, [1 bookmark 1], (2 comment 2), <a>link</a>, → tab, ↵ line, ⇊ page, ^ note, @ picture, ¶ paragraph."""
MARKS = {
    "→": "<w:tab/>",
    "↵": "<w:br/>",
    "⇊": '<w:br w:type="page"/>',
    "^": '<w:footnoteReference w:id="2"/>',
    "@": "<w:drawing/>",
    "‑": "<w:noBreakHyphen/>",
    "¬": "<w:softHyphen/>",
    "☎": '<w:sym w:font="Wingdings" w:char="F028"/>',
}
ELEMENTS = {
    "a": ("<w:hyperlink>", "</w:hyperlink>"),
    "ins": ('<w:ins w:id="8">', "</w:ins>"),
    "sdt": ('<w:sdt><w:sdtPr><w:id w:val="7"/></w:sdtPr><w:sdtContent>', "</w:sdtContent></w:sdt>"),
    "xml": ('<w:customXml w:element="e"><w:customXmlPr/>', "</w:customXml>"),
    "dir": ('<w:dir w:val="rtl">', "</w:dir>"),
    "page": ('<w:fldSimple w:instr=" PAGE ">', "</w:fldSimple>"),
    "link": ('<w:fldSimple w:instr=" HYPERLINK &quot;u&quot; ">', "</w:fldSimple>"),
    "del": ('<w:del w:id="9">', "</w:del>"),
}
RANGES = {"[": "bookmark", "(": "commentRange"}


def spellings(text: str) -> list[str]:
    """Return the XML of each token. What belongs into a run begins with `=`."""
    result = []
    for match in TOKEN.finditer(text):
        if match["code"] is not None:
            result.append('=<w:fldChar w:fldCharType="begin"/>')
            result.append(f'=<w:instrText xml:space="preserve"> {match["code"]} </w:instrText>')
            result.append('=<w:fldChar w:fldCharType="separate"/>')
        elif match["end"]:
            result.append('=<w:fldChar w:fldCharType="end"/>')
        elif match["first"]:
            result.append(f'<w:{RANGES[match["start"]]}Start w:id="{match["first"]}"/>')
        elif match["last"]:
            name = RANGES["[" if match[0].endswith("]") else "("]
            result.append(f'<w:{name}End w:id="{match["last"]}"/>')
        elif match["open"]:
            result.append(ELEMENTS[match["open"].strip("/")][match["open"].startswith("/")])
        elif match["mark"]:
            result.append("</w:p><w:p>" if match["mark"] == "¶" else f"={MARKS[match['mark']]}")
        elif match["bold"]:
            result.append(f'<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">{match["bold"]}</w:t></w:r>')
        else:
            result.append(f'=<w:t xml:space="preserve">{match["text"]}</w:t>')
    return result


def make(text: str, draw: random.Random | None = None) -> str:
    """Return a part of a document. Each token has a run, unless random tokens are put into the run before them."""
    inside, is_open = "", False
    for spelling in spellings(text):
        if is_open and not (spelling.startswith("=") and draw and draw.random() < 0.5):
            inside, is_open = inside + "</w:r>", False
        if spelling.startswith("=") and not is_open:
            inside, is_open = inside + "<w:r>", True
        inside += spelling.removeprefix("=")
    return f'<w:document xmlns:w="{W}"><w:body><w:p>{inside}{"</w:r>" * is_open}</w:p></w:body></w:document>'


def outline(text: str) -> str:
    """Return the tokens of a part of a document."""
    result: list[str] = []
    walk(ElementTree.fromstring(text), result)
    joined = re.sub(r"(\w) (</\w+>)", r"\1\2 ", "".join(result).removesuffix("¶"))
    return joined.replace("</b><b>", "").replace("<b>", "*").replace("</b>", "*")


def walk(element: ElementTree.Element, result: list[str]) -> None:
    name = element.tag.split("}")[1]
    found = {key.split("}")[-1]: value for key, value in element.attrib.items()}
    if name == "fldChar":
        result.append({"begin": "{", "separate": "|", "end": "}"}[found["fldCharType"]])
    elif name in ("bookmarkStart", "commentRangeStart"):
        result.append(f"{'[' if name[0] == 'b' else '('}{found['id']} ")
    elif name in ("bookmarkEnd", "commentRangeEnd"):
        result.append(f" {found['id']}{']' if name[0] == 'b' else ')'}")
    elif name in ("t", "instrText", "delText"):
        result.append((element.text or "") if name != "instrText" else (element.text or "").strip())
    mark = next((mark for mark, raw in MARKS.items() if re.match(rf"<w:{name}\b", raw)), "")
    mark = "⇊" if name == "br" and found else mark
    start = next((key for key, (raw, _) in ELEMENTS.items() if re.match(rf"<w:{name}\b", raw)), "")
    start = "link" if "HYPERLINK" in found.get("instr", "") else start
    if name == "r" and element.find("{*}rPr/{*}b") is not None and element.find("{*}t") is not None:
        start = "b"
    result.append(mark or (f"<{start}>" if start else ""))
    for child in element if name != "drawing" else ():
        walk(child, result)
    result.append(f"</{start}>" if start else "¶" if name == "p" else "")


def form(text: str):
    name = "word/document.xml"
    return word.FORMAT([name], lambda _: text)[name]


def translated(text: str, model: Shuffle | None = None) -> str:
    return render(text, form(text), model)


@pytest.mark.parametrize(("before", "after"), [
    # A field is an element around its result.
    ("one {HYPERLINK u|two three} four", "FOUR {HYPERLINK u|THREE TWO} ONE"),
    ("one {FORMTEXT|two} three {FORMTEXT|\u2002\u2002}", "{FORMTEXT|\u2002\u2002} THREE {FORMTEXT|TWO} ONE"),
    ("{HYPERLINK u|one {PAGE|5} two} three", "THREE {HYPERLINK u|TWO {PAGE|5} ONE}"),
    ("one <ins>{PAGE|}</ins> three", "THREE <ins>{PAGE|}</ins> ONE"),
    # Results that Word computes are copied.
    ("one {REF _1 \\h|this book} two", "TWO {REF _1 \\h|this book} ONE"),
    ("page {PAGE|} of {NUMPAGES|5} here", "HERE {NUMPAGES|5} OF {PAGE|} PAGE"),
    ("one {ADDIN ZOTERO_ITEM|(Smith, 1999)} two", "TWO {ADDIN ZOTERO_ITEM|(Smith, 1999)} ONE"),
    ("one <page>1</page> two {=|12} six {GREETINGLINE|«X»}", "{GREETINGLINE|«X»} SIX {=|12} TWO <page>1</page> ONE"),
    # A table of contents, and fields that continue in other paragraphs.
    ("{TOC|<a>one two→{PAGEREF _1|3}</a>¶<a>three→{PAGEREF _2|4}</a>}",
     "{TOC|<a>TWO ONE→{PAGEREF _1|3}</a>¶<a>THREE→{PAGEREF _2|4}</a>}"),
    ("{TOC|one two¶three four}¶five six", "{TOC|TWO ONE¶FOUR THREE}¶SIX FIVE"),
    ("{BIBLIOGRAPHY|one two¶three four}¶five six", "{BIBLIOGRAPHY|one two¶three four}¶SIX FIVE"),
    ("one {HYPERLINK u|two three", "ONE {HYPERLINK u|THREE TWO"),
    ("one two} three", "TWO ONE} THREE"),
    ("<ins>one {HYPERLINK u|two</ins> three} four", "<ins>ONE {HYPERLINK u|TWO</ins> THREE} FOUR"),
    # Ranges begin before their first word and end after their last one.
    ("one [1 two three 1] four", "FOUR [1 THREE TWO 1] ONE"),
    ("one [1 two¶three 1] four", "[1 TWO ONE¶FOUR THREE 1]"),
    ("(1 one two 1)^ three", "THREE (1 TWO^ ONE 1)"),
    # Elements inside of a sentence.
    ("one <xml>two</xml> <dir>three</dir> <ins>four</ins>", "<ins>FOUR</ins> <dir>THREE</dir> <xml>TWO</xml> ONE"),
    ("one <del>two</del> three", "THREE ONE<del>two</del>"),
    # Notes stay behind their word. Pictures and symbols are copied.
    ("one^ two @ six ☎ three", "THREE SIX☎ TWO@ ONE^"),
    # Tabs, page breaks, line breaks and wide gaps.
    ("name one→two three⇊four", "ONE NAME→THREE TWO⇊FOUR"),
    ("   name one   two\xa0\xa0*three   *", "   ONE NAME   TWO\xa0\xa0*THREE   *"),
    ("Dear one↵Two three", "ONE DEAR↵THREE TWO"),
    ("one two,↵three four", "FOUR THREE ,↵TWO ONE"),
    # Characters.
    ("1‑24 hours wash¬ing", "WASHING HOURS 1-24"),
])  # fmt: skip
def test_markup_follows_the_words(before: str, after: str) -> None:
    for text in (make(before), make(before, random.Random(1)), make(before, random.Random(2))):
        assert outline(text) == before
        assert translated(text) == text
        assert outline(translated(text, Shuffle())) == after


@pytest.mark.parametrize(("before", "after"), [
    ("<w:r><w:t>one </w:t></w:r><w:r w:rsidR='1'><w:t>two</w:t></w:r>", ["one two"]),
    ("<w:r><w:t>one </w:t></w:r><w:proofErr w:type='x'/>\n <w:r><w:t>two</w:t></w:r>", ["one two"]),
    ("<w:r><w:t/><w:lastRenderedPageBreak/><w:t>one</w:t><w:t></w:t></w:r><w:r><w:softHyphen/></w:r><w:r/>", ["one"]),
    ("<w:r>\n<w:t>\n one &amp; <![CDATA[<two>]]></w:t>\n</w:r>", ["one & <two>"]),
    ("<w:sdt>\n<w:sdtContent>\n<w:r><w:t>one</w:t></w:r></w:sdtContent>\n</w:sdt>", ["one"]),
    ("<w:sdt/><w:r><w:t>one</w:t></w:r><w:hyperlink/><w:fldSimple w:instr='u'/>", ["one"]),
    ("<w:r><w:t>one</w:t></w:r><w:fldSimple w:instr='PAGE'/>", [f"one {PLACEHOLDER}"]),
    ("<w:r><w:rPr><w:rFonts w:ascii='Wingdings 2'/></w:rPr><w:t>o</w:t></w:r><w:r><w:t> one</w:t></w:r>", ["one"]),
    ("<w:r><w:rPr><w:rFonts w:ascii='Symbol'/></w:rPr><w:t>a</w:t></w:r><w:r><w:t> one</w:t></w:r>", ["Foo one"]),
    ("<w:r><w:t>a 1</w:t></w:r><w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>2</w:t></w:r>", ["a 1"]),
    ("<w:r><w:t>a 1</w:t></w:r><w:r><w:rPr><w:rStyle w:val='Absubstanz'/></w:rPr><w:t>2</w:t></w:r>", ["a 12"]),
    (f"<a:AlternateContent xmlns:a='{MC}'><a:Choice><w:r><w:t>a</w:t></w:r></a:Choice></a:AlternateContent>", ["a"]),
])  # fmt: skip
def test_neighbouring_runs_are_one(before: str, after: list[str]) -> None:
    text = make("#").split("<w:r>")[0] + before + "</w:p></w:body></w:document>"
    assert texts(text, form(text)) == after
    assert translated(text) == text
    result = translated(text, Shuffle())
    assert len(re.findall("<w:t [^>]*>[^<]*[A-Z]", result)) == 1


def test_the_translator_reads_a_word_in_place_of_formulas_and_results_that_are_not_known_yet() -> None:
    formula = "<w:r><w:object><w:x/></w:object></w:r>"
    text = make("page {PAGE|} of {XE|}@").replace("<w:r><w:drawing/></w:r>", formula)
    text = text.replace("</w:p>", "<w:r><w:t> three</w:t></w:r></w:p>")
    assert texts(text, form(text)) == [f"page {PLACEHOLDER} of {PLACEHOLDER} three"]


class Forgetful(Shuffle):
    """Translator that leaves out copied content."""

    def translate(self, text: str) -> str:
        return super().translate(text.replace(PLACEHOLDER, "   "))

    def align(self, sources: list[str], targets: list[str]) -> list[list[AlignedToken]]:
        return super().align([source.replace(PLACEHOLDER, "   ") for source in sources], targets)


@pytest.mark.parametrize(("before", "model", "after"), [
    # An element with an identity occurs once.
    ("one <sdt>two three</sdt>", Shuffle(0), "<sdt>TWO</sdt> ONE THREE"),
    # White space at the start does not open an element before its range, and links of white space are kept.
    ("[1 <a> one two</a> 1] three", Shuffle(0), "[1 <a> TWO ONE</a> 1] THREE"),
    ("one<a> </a>*two* three", Shuffle(), "THREE *TWO*<a> </a>ONE"),
    # The links of a menu are separate segments.
    ("<a>One two</a> {HYPERLINK u|Three four}", Shuffle(), "<a>TWO ONE</a> {HYPERLINK u|FOUR THREE}"),
    ("<ins><a>One two</a> <link>4 x</link></ins>", Shuffle(), "<ins><a>TWO ONE</a> <link>X 4</link></ins>"),
    # A field that leaves a link keeps its own runs.
    ("<ins>one</ins> {HYPERLINK u|{PAGE|5} two}", Shuffle(0), "{PAGE|5}<ins> ONE</ins> {HYPERLINK u|TWO}"),
    # If all text is in links, no link is repeated.
    ("<a>one</a> <a>two six seven</a>", Shuffle(0), "TWO <a>ONE</a> <a>SIX SEVEN</a>"),
    ("one <link>two six</link> x", Shuffle(0), "<link>TWO ONE SIX</link> X"),
    # Fields that the translator leaves out are between spaces.
    ("one {DATE|2 May} two {DATE|3 May} three", Forgetful(), "THREE TWO {DATE|3 May} ONE {DATE|2 May}"),
    ("{DATE|2 May} one two", Forgetful(), "{DATE|2 May} TWO ONE"),
])  # fmt: skip
def test_elements_ranges_and_fields_stay_whole_when_words_are_moved(before: str, model: Shuffle, after: str) -> None:
    text = make(before)
    result = translated(text, model)
    check(text, result)
    assert outline(result) == after


def test_text_is_in_runs_if_nothing_is_aligned() -> None:
    text = make("{PAGE|} *one*")
    check(text, translated(text, Unsure(1)))


@pytest.mark.parametrize("namespace", [W, STRICT])
@pytest.mark.parametrize("prefix", ["x:", ""])
def test_names_are_those_of_the_namespace(prefix: str, namespace: str) -> None:
    text = make("one {PAGE|2} *two*→three").replace(W, namespace).replace("w:", prefix)
    text = text.replace("xmlns:w", f"xmlns:{prefix}".strip(":"))
    assert translated(text) == text
    assert outline(translated(text, Shuffle())) == "*TWO* {PAGE|2} ONE→THREE"


def test_text_boxes_are_segments_of_their_own() -> None:
    box = "<w:pict><w:txbxContent><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:txbxContent></w:pict>"
    text = make("one @ two¶three <page>@</page>").replace("<w:drawing/>", box.format("four five"), 1)
    text = text.replace("<w:drawing/>", box.format("six"))
    assert sorted(texts(text, form(text))) == ["four five", "one two", "six", "three Foo"]
    assert translated(text) == text
    assert outline(translated(text, Shuffle())) == "TWO ONEFIVE FOUR¶¶<page>SIX¶</page> THREE"


def translated_with_styles(text: str) -> str:
    names = {"HTMLCode": "HTML Code", "Eigen": "x", "Klasse": "Code", "SourceCode": "Source Code"}
    names |= {"": "Macro Text", "a&gt;b>c": "Verbatim"}
    style = '<w:style w:styleId="{}"><w:name w:val="{}"/><w:basedOn w:val="{}"/></w:style>'
    styles = "".join(style.format(key, name, "HTMLCode" * (key == "Eigen")) for key, name in names.items())
    parts = {"word/document.xml": text, "word/styles.xml": f'<w:styles xmlns:w="{W}">{styles}</w:styles>'}
    return unpack(translate(archive(*parts.items()), "a.docx", Shuffle()))["word/document.xml"].decode()


@pytest.mark.parametrize(("style", "copied"), [("HTMLCode", True), ("Eigen", True), ("a>b>c", True), ("Klasse", False)])
def test_text_in_a_code_style_is_copied(style: str, copied: bool) -> None:
    parts = "<w:t>ls </w:t><w:br/>", '<w:t xml:space="preserve">-l</w:t>'
    code = "".join(f'<w:r><w:rPr><w:rStyle w:val="{style}"/></w:rPr>{part}</w:r>' for part in parts)
    before, after = make("one # three").split("#")
    result = translated_with_styles(before + f"</w:t></w:r>{code}<w:r><w:t>" + after)
    assert (code in result) is copied
    assert ("LS" in result) is not copied
    if copied:
        assert outline(result) == "THREE ls ↵-l ONE"


def test_paragraphs_in_a_code_style_are_copied() -> None:
    style = '<w:pPr><w:pStyle w:val="SourceCode"/><w:rPr><w:rStyle w:val="HTMLCode"/></w:rPr></w:pPr>'
    changed = '<w:pPr><w:pPrChange><w:pPr><w:pStyle w:val="SourceCode"/></w:pPr></w:pPrChange></w:pPr>'
    text = make("one two¶three four¶five six").replace("<w:p>", f"<w:p>{style}", 1)
    text = text.replace("<w:p><w:r>", f"<w:p>{changed}<w:r>", 1)
    assert outline(translated_with_styles(text)) == "one two¶FOUR THREE¶SIX FIVE"


def test_descriptions_of_pictures_are_translated() -> None:
    picture = '<wp:docPr xmlns:wp=\'u\' id="1" descr="{}" name=\'one two\' title="{}"/>'
    text = make("one @").replace("<w:drawing/>", picture)
    result = translated(text.format("three &quot;four&quot;", "it's"), Shuffle())
    assert picture.format("&quot; FOUR &quot; THREE", "IT'S") in result


def check(before: str, after: str) -> None:
    """Require the same constructs, with fields and ranges in order, and all text in runs."""
    parts = [ElementTree.fromstring(text) for text in (before, after)]
    counts = [Counter(each.get(f"{{{W}}}instr") or each.tag.split("}")[1] for each in part.iter()) for part in parts]
    repeated = ("r", "rPr", "b", "t", "hyperlink", "ins", "dir", "fldChar", "instrText", "noBreakHyphen", "softHyphen")
    for name in counts[0].keys() | counts[1].keys():
        if name not in repeated and "HYPERLINK" not in name:
            assert counts[0][name] == counts[1][name], name
    tokens = [outline(text) for text in (before, after)]
    codes = [Counter(re.findall(r"\{([^{|}]+)\|", each)) for each in tokens]
    assert set(codes[0]) == set(codes[1])
    assert all(codes[0][code] == codes[1][code] for code in codes[0] if "HYPERLINK" not in code)
    fields = re.sub(r"[^{|}]", "", tokens[1])
    while "{|}" in fields or "{}" in fields:
        fields = fields.replace("{|}", "").replace("{}", "")
    assert not fields, "fields are nested"
    in_run = {"t", "tab", "br", "fldChar", "instrText", "drawing", "footnoteReference", "noBreakHyphen", "sym"}
    for element in parts[1].iter():
        name, inside = element.tag.split("}")[1], {child.tag.split("}")[1] for child in element}
        assert name == "r" or not in_run & inside, (name, inside)
        assert name != "r" or not {"r", "bookmarkStart", "bookmarkEnd", "hyperlink", "sdt", "p"} & inside
    for name in ("bookmark", "commentRange"):
        order = re.findall(rf'<w:{name}(Start|End) w:id="(\d+)"', after)
        for identity in {found for _, found in order}:
            assert [kind for kind, found in order if found == identity] == ["Start", "End"]


@pytest.mark.parametrize(("before", "target", "after"), [
    ("one un*happy* two", "EINS unglücklich ZWEI", "EINS un*glücklich* ZWEI"),
    ("one *yester*day two", "EINS gestern ZWEI", "EINS *gestern* ZWEI"),
    ("one <a>two</a> three", "EINS _ DREI", "<a>EINS</a> _ DREI"),
    ("one *two* three", "EINS _ DREI", "*EINS* _ DREI"),
    ("one <ins><a>*two* four</a></ins> three", "EINS _ _ DREI", "<ins><a>*EINS*</a></ins> _ _ DREI"),
    ("one {HYPERLINK u|two} three", "EINS _ DREI", "{HYPERLINK u|EINS} _ DREI"),
    ("*one* two <ins>three</ins>", "EINS _ _", "*EINS*<ins></ins>* _ _*"),
    ("*one* two three", "EINS _ _", "*EINS _ _*"),
])  # fmt: skip
def test_elements_without_an_aligned_word_keep_their_runs(before: str, target: str, after: str) -> None:
    text = make(before)
    file = TextFile(text, form(text))
    pairs = zip(spans(target), spans(file.segments[0].text), strict=True)
    tokens = [AlignedToken(word, source, 1.0) for word, source in pairs if target[word[0]] != "_"]
    result = file.render(iter([(target, tokens)]))
    check(text, result)
    assert outline(result) == after


class Unsure(Shuffle):
    """Translator that knows the alignment of some words only."""

    def align(self, sources: list[str], targets: list[str]) -> list[list[AlignedToken]]:
        draw = random.Random(self.seed)
        share = draw.choice([0, 0.5])
        return [[token for token in tokens if draw.random() < share] for tokens in super().align(sources, targets)]


WORDS = ["one", "two,", "Three.", "4", "x‑y", "a¬b", "*five*", ""]
UNITS = ["→", "↵", "⇊", "^", "@", "☎", "<page>1</page>", " ", "*x* *y*"]
NESTED = [(f"<{name}>", f"</{name}>") for name in ("a", "ins", "sdt", "xml", "dir", "link")]
for code in ("PAGE", "HYPERLINK u", "TOC", "REF r", "FORMTEXT"):
    NESTED += [(f"{{{code}|", "}"), (f"<ins>{{{code}|</ins>", "<ins>}</ins>")]
GAP = re.compile(r"(?<=[a-z]) (?=[a-z])(?![^{]*\|)|[→↵⇊^@☎¶>]")


@given(seed=st.integers(0, 10**9))
@example(seed=43410)  # a link that begins with a line break, and whose words are left out
def test_nothing_is_lost_doubled_or_swapped(seed: int) -> None:
    draw = random.Random(seed)
    text = "¶".join(random_markup(draw, WORDS, UNITS, NESTED) for _ in range(draw.randint(1, 3)))
    gaps = [0, len(text), *(match.end() for match in GAP.finditer(text))]
    before = make(with_ranges(text, draw, gaps, [("[1 ", " 1]"), ("(2 ", " 2)"), ("[3 ", " 3]")]), draw)
    assert translated(before) == before
    check(before, translated(before, draw.choice([Shuffle, Unsure])(seed, faithful=draw.random() < 0.5)))


@pytest.mark.parametrize("encoding", ["UTF-16", "utf-8-sig", "ISO-8859-1"])
def test_a_part_keeps_its_encoding(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>' + make("one für {PAGE|1}")
    content = archive(("word/document.xml", text.encode(encoding)), ("word/styles.xml", b"<x/>"))
    result = unpack(translate(content, "a.docx", Shuffle()))
    assert outline(result["word/document.xml"].decode(encoding)) == "{PAGE|1} FÜR ONE"


def test_of_two_parts_with_one_name_the_last_is_read() -> None:
    parts = [("word/document.xml", make(text)) for text in ("one two", "three four")]
    result = unpack(translate(archive(*parts), "a.docx", Shuffle()))
    assert [outline(part.decode()) for part in result.values()] == ["FOUR THREE"]
