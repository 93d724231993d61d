"""Documents that once took hours or all memory, most of them small. Each must be read, or refused, in seconds."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping

PARTS = {".docx": "word/document.xml", ".odt": "content.xml", ".epub": "a.xhtml"}
"""The file with text in each kind of archive."""
_WORD_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
WORD = f'<w:document xmlns:w="{_WORD_NAMESPACE}"><w:body>{{}}</w:body></w:document>'
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
_MANY = {"Word, many files": ("{}", 5), "EPUB, many pages": ("{}.xhtml", 100)}
"""Archives of many files: the names of the files, and the size of the text that adds a file."""
FULL_SIZE = 1_000_000
_SUFFIXES = {
    "HTML": ".html",
    "Markdown": ".md",
    "text": ".txt",
    "subtitles": ".srt",
    "Word": ".docx",
    "OpenDocument": ".odt",
    "EPUB": ".epub",
}


def document_names() -> list[str]:
    """Return a short description of each document."""
    return [*_texts(1), *_archives(1), *_MANY]


def make_document(name: str, size: int = FULL_SIZE) -> tuple[str, bytes]:
    """Return the file name and the content of the document with a description.

    Args:
        name: The description.
        size: Number of characters of the text.
    """
    suffix = _SUFFIXES[name.partition(",")[0]]
    if name in (texts := _texts(size)):
        return f"a{suffix}", texts[name].encode()
    if name in _MANY:
        file, characters = _MANY[name]
        return f"a{suffix}", zipped((file.format(index), b"") for index in range(size // characters))
    return f"a{suffix}", archive(suffix, _archives(size)[name]())


def _archives(size: int) -> dict[str, Callable[[], str]]:
    depth = size // 16
    return {
        "Word, nested elements": lambda: WORD.format(_nested("w:p", depth)),
        "Word, nested runs": lambda: WORD.format(_nested("w:r", depth)),
        "Word, nested links": lambda: WORD.format(_nested("w:hyperlink", depth, "one")),
        "Word, many runs": lambda: WORD.format("<w:r><w:t>one </w:t></w:r>" * depth),
        "Word, nested fields": lambda: WORD.format(f"<w:p>{_fields(depth // 8)}</w:p>"),
        "Word, many tabs of a long style": lambda: WORD.format(f"<w:p>{_tabs(depth)}</w:p>"),
        "Word, many tags": lambda: WORD.format("<w:p/>" * (5 * size)),
        "Word, many lines": lambda: WORD.format("\n" * (10 * size)),
        "OpenDocument, nested spans": lambda: _paragraph(_nested("text:span", depth, "one")),
        "OpenDocument, nested frames": lambda: _paragraph("one" + _nested("draw:frame", depth)),
        "EPUB, a declaration of unclosed comments": lambda: "<!doctype [" + "<!--" * (size // 4),
        "EPUB, unclosed comments": lambda: "<!--" * (size // 4),
        "EPUB, unclosed declarations": lambda: _repeated("<!doctype[>", size),
    }


def _fields(depth: int) -> str:
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{part}"/></w:r>' for part in ("begin", "separate", "end"))
    return (begin + separate) * depth + "<w:r><w:t>one</w:t></w:r>" + end * depth


def _tabs(count: int) -> str:
    return f"<w:r><w:rPr>{'<w:b/>' * count}</w:rPr>{'<w:t>one</w:t><w:tab/>' * count}</w:r>"


def _paragraph(text: str) -> str:
    names = " ".join(f'xmlns:{name}="{_OPEN_DOCUMENT.format(name)}"' for name in ("office", "text", "draw"))
    return f"<office:text {names}><text:p>{text}</text:p></office:text>"


def _texts(size: int) -> dict[str, str]:
    def many(part: str) -> str:
        return _repeated(part, size)

    def third(part: str) -> str:
        return _repeated(part, size // 3)

    return {
        "HTML, unclosed CDATA": many("<![CDATA["),
        "HTML, unclosed comments": many("<!--"),
        "HTML, unclosed tags": many("<a "),
        "HTML, unclosed attributes": many('<a b="'),
        "HTML, unclosed end tags": many("</a "),
        "HTML, unclosed scripts": many("<script>"),
        "HTML, unclosed comments in scripts": many("<script><!--<script>"),
        "HTML, unclosed annotations": "<ruby>" + many("one<rt>two"),
        "HTML, attributes with text": many("<b id=a title='one'>x</b> "),
        "HTML, unclosed attributes with text": many('<img alt="'),
        "HTML, unclosed elements that are copied": many("<p translate=no>one"),
        "HTML, unclosed declarations": many("<!") + many("<?"),
        "HTML, quotation marks": many("<a b='\"<a b=\"'"),
        "HTML, a tag of quotation marks": "<a " + many("'") + ">",
        "HTML, a tag of slashes": "<a " + many("x/") + ">",
        "HTML, a tag of values": "<a" + many("=x") + ">",
        "HTML, equals signs": "<a " + many("= "),
        "HTML, nested inline elements": _nested("b", size // 7, "one"),
        "HTML, inline elements, each nested in the last": many("<b>x"),
        "HTML, text in each of nested inline elements": "<b>x" * (size // 8) + "</b>" * (size // 8),
        "HTML, check boxes in nested elements": _nested("b", 100, many("☐a&nbsp;")),
        "HTML, nested blocks": _nested("div", size // 11, "one"),
        "HTML, many inline elements": many("<b>x</b> "),
        "HTML, many empty inline elements": "one " + many("<b></b>") + " two",
        "HTML, elements inside of a word": many("x<b>y</b>"),
        "HTML, exponents": many("m<sup>2</sup> "),
        "HTML, many units": "one " + many("<br-x/><wbr>") + " two",
        "HTML, many copied elements": many("<code>x</code>"),
        "HTML, many parts of a copied element": "one <code>" + many("<b></b>") + "</code> two",
        "HTML, a number of many digits": f"one &#{'9' * 5_000}; two",
        "HTML, ampersands": many("&"),
        "HTML, template code": "".join(map(many, ("{{", "{% ", "<%", "<?php", "{#", "\n {{}}", "<a b='{% ", "<a {{ "))),
        "HTML, one word": many("x"),
        "Markdown, many inline elements": many("*x* "),
        "Markdown, many code spans": many("`x` "),
        "Markdown, many links": many("[x](y) "),
        "Markdown, paragraphs with tabs": many("a\tb\n\n"),
        "Markdown, lines of a paragraph": many("*one* two\n"),
        "Markdown, unclosed brackets": third("[") + "\n\n" + third("[a]("),
        "Markdown, unclosed code spans": "".join("`" * (length % 50) + "a" for length in range(size // 25)),
        "Markdown, unclosed emphasis": many("**a *b ~~c _d "),
        "Markdown, unclosed formulas": third("$a ") + "\n\n" + third("\\(a") + third("\n\n$$a"),
        "Markdown, unclosed template tags": third("{{") + third("{%") + third("[[a|"),
        "Markdown, unclosed HTML": many("<code>") + many("a <!--"),
        "Markdown, nested quotes": "".join("> " * (depth % 60) + "a\n" for depth in range(size // 64)),
        "Markdown, nested containers": "".join("    " * (depth % 30) + "!!! a\n" for depth in range(size // 66)),
        "Markdown, a long table": "|a|b|\n|-|-|\n" + many("|a\\||*b*|\n"),
        "Markdown, a wide table": f"|{_repeated('a|', size // 2)}\n|{_repeated('-|', size // 2)}\n",
        "Markdown, references": "[x]: u\n\n" + many("[x] [a][x] [y][] "),
        "Markdown, addresses": many("http://a.b/c_d a@b.c ") + many("a_b_"),
        "Markdown, a number of many digits": f"one &#{'9' * 5_000}; two",
        "text, spaces": many(" "),
        "text, dashes": many("- ") + "a" + many(" --- |"),
        "text, line breaks": "a\n" * (2 * size),
        "subtitles, arrows": many("-->"),
        "subtitles, marks": f"{CUE}a{many('#')}a",
        "subtitles, brackets": CUE + many("["),
        "subtitles, speakers": CUE + many("A: "),
        "subtitles, lines": CUE + many("one\n"),
        "subtitles, tags": CUE + many("<a"),
        "subtitles, spaces": CUE + many("\n   "),
    }


def archive(suffix: str, text: str, others: Mapping[str, bytes] | None = None) -> bytes:
    """Return an archive of this kind with a text and other files."""
    return zipped([(PARTS[suffix], text), *(others or {}).items()], zipfile.ZIP_DEFLATED)


def zipped(members: Iterable[tuple[str, str | bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip file with these members."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as target:
        for name, content in members:
            target.writestr(name, content)
    return written.getvalue()


def _repeated(part: str, size: int) -> str:
    return part * (size // len(part))


def _nested(name: str, depth: int, text: str = "") -> str:
    return f"<{name}>" * depth + text + f"</{name}>" * depth
