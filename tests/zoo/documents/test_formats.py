"""Each format: nothing but the text changes, and nothing at all if every sentence translates to itself."""

from __future__ import annotations

import io
import random
import re
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs import ZooError
from tests.hostile.documents import CUE, WORD
from tests.mutations import mutated
from tests.refusals import refused
from tests.zoo.documents.test_markup import letters
from tests.zoo.documents.test_open_document import document as odt
from tests.zoo.documents.translators import Shuffle, archive, translate, unpack
from zoo.documents import document
from zoo.documents.document import FORMATS

TEXTS = {
    ".txt": "one two\r\n\r\n  three\tfour \nfive",
    ".md": "---\na: b\n---\n# one *two*\n\n> [three](u) `x`\n\n```\ncode\n```\n| one | *x* |\n|-|-|\n| a | c |\n",
    ".html": "<!doctype html><title>one</title><p>one <b>two</b> three &amp; four<br>x <code>y</code></p>",
    ".srt": "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>one two</i>\r\n- three\r\n",
    ".docx": "<w:p><w:r><w:t>one</w:t></w:r></w:p><w:p><w:r><w:rPr><w:b/></w:rPr><w:t>f&amp;g</w:t></w:r></w:p>",
    ".odt": "<t:h>one</t:h><t:p>one <t:span>two</t:span><t:s/>three &lt; x<draw:frame><t:p>y</t:p></draw:frame></t:p>"
    "<t:p/>",
}
PARTS = {
    ".docx": ("word/document.xml", WORD),
    ".odt": ("content.xml", odt("{}")),
    ".epub": ("a/b.xhtml", "{}"),
}


def archive_of(suffix: str, text: str) -> bytes:
    name, frame = PARTS[suffix]
    picture = ("image.png", bytes(range(256)))
    parts = ("mimetype", "application/x"), (zipfile.ZipInfo(name, (2002, 2, 3, 4, 5, 6)), frame.format(text)), picture
    return archive(*parts)


def content_of(suffix: str, text: str) -> bytes:
    return archive_of(suffix, text) if suffix in PARTS else text.encode()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_document_stays_as_it_is_if_every_text_does(suffix: str) -> None:
    content = content_of(suffix, TEXTS.get(suffix, TEXTS[".html"]))
    assert translate(content, f"a{suffix}") == content


@pytest.mark.parametrize(("suffix", "text", "expected"), [
    (".txt", "one two\r\n 12 \nthree", "TWO ONE\r\n 12 \nTHREE"),
    (".txt", "\ufeffone two", "\ufeffTWO ONE"), (".html", "\ufeff<b>one</b> two", "\ufeffTWO <b>ONE</b>"),
    (".md", "\ufeff---\na: one\n---\n# one two", "\ufeff---\na: one\n---\n# TWO ONE"),
    (".md", "> one\n> [two](u) `x`\n", "> `x` [TWO](u)\n> ONE\n"),
    (".txt", "a) one two\n(2) one two\n[3] one two", "a) TWO ONE\n(2) TWO ONE\n[3] TWO ONE"),
    (".txt", "---one two---\n== one --- ==\n[ ] One [x] Two", "---TWO ONE---\n= = - - - ONE = =\n[ ] ONE [x] TWO"),
    (".txt", "*** one ***\n.... one ..... 6\nthe f***", "*** ONE ***\n.... ONE ..... 6\n* * * F THE"),
    (".txt", "> one two\f→ one two\u2028•one two", "> TWO ONE\f→ TWO ONE\u2028•TWO ONE"),
    (".srt", CUE + "<i>one</i> two\n\n", CUE + "TWO <i>ONE</i>\n\n"),
    (".srt", "00:01,000 --> 00:02,000\r\none\r\ntwo\r\n", "00:01,000 --> 00:02,000\r\nTWO\r\nONE\r\n"),
    (".srt", "0:00:01 --> -0:00:02:10\none two\n", "0:00:01 --> -0:00:02:10\nTWO ONE\n"),
    (".srt", CUE + "(sighs) one two\n‐ one two", CUE + "(sighs) TWO ONE\n‐ TWO ONE"),
    (".srt", CUE + "ANNA:\none two\n•one two", CUE + "ANNA:\nTWO ONE\n•TWO ONE"),
    (".srt", CUE + "- one two\n-<i>one two</i>\n", CUE + "- TWO ONE\n-<i>TWO ONE</i>\n"),
    (".docx", "<w:p><w:r><w:t>one </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>two &amp;</w:t></w:r></w:p>",
     '<w:p><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">&amp; TWO</w:t></w:r>'
     '<w:r><w:t xml:space="preserve"> ONE</w:t></w:r></w:p>'),
])  # fmt: skip
def test_the_text_is_translated_and_the_markup_follows(suffix: str, text: str, expected: str) -> None:
    result = translate(content_of(suffix, text), f"a{suffix}", Shuffle())
    name, frame = PARTS.get(suffix, ("", "{}"))
    assert (unpack(result)[name] if name else result).decode() == frame.format(expected)


@pytest.mark.parametrize("suffix", PARTS)
def test_other_files_of_an_archive_are_kept(suffix: str) -> None:
    content = archive_of(suffix, TEXTS.get(suffix, TEXTS[".html"]))
    result = translate(content, f"a{suffix}", Shuffle())
    before, after = (zipfile.ZipFile(io.BytesIO(each)) for each in (content, result))
    assert [entry.filename for entry in before.infolist()] == [entry.filename for entry in after.infolist()]
    for one, other in zip(before.infolist(), after.infolist(), strict=True):
        assert (one.date_time, one.compress_type) == (other.date_time, other.compress_type)
        if one.filename != PARTS[suffix][0]:
            assert before.read(one) == after.read(other)
    assert before.read(PARTS[suffix][0]) != after.read(PARTS[suffix][0])


def test_each_segment_needs_one_translation() -> None:
    for count in (3, 5):
        with pytest.raises(ValueError, match="translations than segments"):
            document.write_documents([(b"one\n\ntwo", "a.txt", None)] * 2, ["x"] * count, [[]] * count)


@pytest.mark.parametrize(("suffix", "names"), [
    (".docx", ("word/document.xml", "word/footnotes.xml")), (".odt", ("content.xml", "styles.xml")),
    (".epub", ("a.xhtml", "b.xhtml")),
])  # fmt: skip
def test_an_archive_can_be_rendered_several_times(suffix: str, names: tuple[str, str]) -> None:
    frame = PARTS[suffix][1].format(TEXTS.get(suffix, TEXTS[".html"]))
    content = archive(*((name, frame) for name in names))
    source = document.Document(content, f"a{suffix}")
    texts = [segment.text for segment in source.segments]
    upper, middle = [text.upper() for text in texts], len(texts) // 2
    # Each file changes once and stays as it is once.
    for translations in ([*upper[:middle], *texts[middle:]], [*texts[:middle], *upper[middle:]], upper):
        result = source.render((each, []) for each in translations)
        assert result == document.Document(content, f"a{suffix}").render((each, []) for each in translations)
        changed = [unpack(result)[name].decode() != frame for name in names]
        assert changed == [translations[:middle] != texts[:middle], translations[middle:] != texts[middle:]]


BOMB = '<!DOCTYPE w [<!ENTITY a "aaaa">]><w:p xmlns:w="w">&a;</w:p>'


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.pdf", b"", "known format"),
    ("a.txt", b"one\nsch\xf6n", r"byte 4 of the line, 0xf6, is not UTF-8 \(a.txt:2\)"),
    ("a.srt", (CUE + "A --> B\n1:30 -> 2:45\n1:30 --> go\n0:00:01 --> x").encode(), r"line 6 \('0:00:01 --> x'\)"),
    ("a.srt", b"1\none", "has no subtitle times"),
    ("a.srt", b"1\n00:01,0 -> 00:02,0\none", r"line 2 \('00:01,0 -> 00:02,0'\) does not contain a valid start"),
    ("a.docx", b"PK\x03\x04 not a zip", "damaged"),
    ("a.docx", b"\xd0\xcf\x11\xe0", "is encrypted, or"),
    ("a.docx", archive_of(".docx", "<w:p>"), "damaged"),
    ("a.docx", archive(("word/document.xml", WORD.format("").replace("xmlns:w", "xmlns:v"))), "damaged"),
    ("a.docx", archive(("word/document.xml", b"\xff\xfe<\x00a")), "UTF-16"),
    ("a.docx", archive(("word/document.xml", b'<?xml version="1.0" encoding="no-such"?><a/>')), "NO-SUCH"),
    ("a.odt", archive_of(".odt", "").replace(b"\x00", b"\x01", 40), "damaged"),
    ("a.epub", archive_of(".epub", TEXTS[".html"])[:-30], "damaged"),
    ("a.epub", archive_of(".epub", '<?xml version="1.0" encoding="undefined"?><p>one</p>'), "decoded as UNDEFINED"),
])  # fmt: skip
def test_bad_documents_are_refused(name: str, content: bytes, message: str) -> None:
    assert refused(message, translate, content, name).hint


def test_documents_that_grow_without_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused("declares entities", translate, archive(("word/document.xml", BOMB)), "a.docx")
    monkeypatch.setattr(document, "MAX_DOCUMENT_BYTES", 1_000)
    refused("after decompression", translate, archive_of(".docx", "<w:p/>" * 1_000), "a.docx")


def test_any_bytes_give_a_document_or_an_error() -> None:
    generator = random.Random(1)
    for suffix in FORMATS:
        whole = content_of(suffix, TEXTS.get(suffix, TEXTS[".html"]))
        for _ in range(100):
            damaged = mutated(whole, generator)
            with suppress(ZooError):
                assert translate(damaged, f"a{suffix}") == damaged


HEAD = re.compile(r"(?:[0-9]+(?:\r\n|\r|\n))?[ ]?[0-9:,]+ --> [0-9:,]+[^\r\n]*")
TAG = re.compile(r"</?[ib]>|<font [^>]*>|</font>|\{[^}]*\}")


def random_line(draw: random.Random) -> str:
    marks = ["", "", "", "- ", "– ", ">> ", "♪ ", "[door slams] ", "ANNA: ", "(sighs) ", "a) ", "{\\an8}", "☐ ", "12 "]
    words = ["one", "Two", "three,", "four.", "x-y", "5", "<", "&", "A->B", "wash\u00ading", "☒", "|", "\uf0b7", "----"]
    words = draw.choices(words, k=draw.randint(0, 5))
    for name in ("i", "b", 'font color="red"'):
        if words and draw.random() < 0.2:
            start = draw.randrange(len(words))
            words[start] = f"<{name}>{words[start]}"
            last = draw.randrange(start, len(words))
            words[last] += f"</{name.split()[0]}>"
    return draw.choice(marks) + " ".join(words) + draw.choice(["", "", " ♪", " [sound]", " "])


@given(seed=st.integers(0, 10**9))
def test_random_subtitles_keep_their_times_lines_marks_and_letters(seed: int) -> None:
    draw = random.Random(seed)
    parts, end = [draw.choice(["", "", "\ufeff", "\n"])], draw.choice(["\n", "\r\n", "\r"])
    for number in range(draw.randint(1, 4)):
        lines = [random_line(draw) for _ in range(draw.randint(0, 3))]
        head = f"{number}{end}" * (draw.random() < 0.8) + "00:00:01,000 --> 00:00:02,000" + draw.choice(["", " X1:5"])
        parts.append(end.join([head, *lines]) + end * draw.randint(2, 3))
    text = "".join(parts)
    assert translate(text.encode(), "a.srt").decode() == text
    result = translate(text.encode(), "a.srt", Shuffle(seed)).decode()
    assert HEAD.findall(result) == HEAD.findall(text)
    for before, after in zip(HEAD.split(text), HEAD.split(result), strict=True):
        assert re.findall(r"\r\n|\r|\n", after) == re.findall(r"\r\n|\r|\n", before)
        assert letters(TAG.sub("", after)) == letters(TAG.sub("", before.replace("\u00ad", "")))
        assert set(TAG.findall(after)) == set(TAG.findall(before))
        assert after.count("<i>") == after.count("</i>")


@given(seed=st.integers(0, 10**9))
def test_random_plain_texts_keep_their_lines_gaps_and_letters(seed: int) -> None:
    draw, gaps = random.Random(seed), ["\n", "\r\n", "\r", "\n\n", "\t", "   ", "\f", "\u2028", "\u00a0\u00a0"]
    text = "".join(random_line(draw) + draw.choice(gaps) for _ in range(draw.randint(0, 6)))
    assert translate(text.encode(), "a.txt").decode() == text
    result = translate(text.encode(), "a.txt", Shuffle(seed)).decode()
    parts = [re.split("([\r\n\f\u2028]+|\t|   |\u00a0\u00a0)", each) for each in (text, result)]
    for before, after in zip(*parts, strict=True):
        assert after == before or letters(after) == letters(before.replace("\u00ad", ""))
