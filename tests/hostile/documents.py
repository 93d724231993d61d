"""Documents that once took hours or all memory, most of them small. Each must be read, or refused, in seconds."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

PARTS = {".docx": "word/document.xml", ".odt": "content.xml", ".epub": "a.xhtml"}
"""The file with text in each kind of archive."""
_WORD_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
WORD = f'<w:document xmlns:w="{_WORD_NAMESPACE}"><w:body>{{}}</w:body></w:document>'
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
_MANY_FILES, _MANY_PAGES = "archive, many files", "EPUB, many pages"
FULL_SIZE = 1_000_000


def document_names() -> list[str]:
    """Return a short description of each document."""
    return [*_texts(1), *_archives(1)]


def make_document(name: str, size: int = FULL_SIZE) -> tuple[str, bytes]:
    """Return the file name and the content of the document with a description.

    Args:
        name: The description.
        size: Number of characters of the text.
    """
    if name in (texts := _texts(size)):
        suffix, text = texts[name]
        return f"a{suffix}", text.encode()
    if name == _MANY_FILES:
        return "a.docx", _many_files(size // 5, "")
    if name == _MANY_PAGES:
        return "a.epub", _many_files(size // 100, ".xhtml")
    suffix, make = _archives(size)[name]
    return f"a{suffix}", archive(suffix, make())


def _texts(size: int) -> dict[str, tuple[str, str]]:
    return {**_html_texts(size), **_markdown_texts(size), **_plain_texts(size)}


def _archives(size: int) -> dict[str, tuple[str, Callable[[], str]]]:
    depth = size // 16
    return {
        "Word, nested elements": (".docx", lambda: WORD.format(_nested("w:p", depth))),
        "Word, nested runs": (".docx", lambda: WORD.format(_nested("w:r", depth))),
        "Word, nested links": (".docx", lambda: WORD.format(_nested("w:hyperlink", depth, "one"))),
        "Word, many runs": (".docx", lambda: WORD.format("<w:r><w:t>one </w:t></w:r>" * depth)),
        "Word, nested fields": (".docx", lambda: WORD.format(f"<w:p>{_fields(depth // 8)}</w:p>")),
        "Word, many tabs of a long style": (".docx", lambda: WORD.format(f"<w:p>{_tabs(depth)}</w:p>")),
        "Word, many tags": (".docx", lambda: WORD.format("<w:p/>" * (5 * size))),
        "Word, many lines": (".docx", lambda: WORD.format("\n" * (10 * size))),
        "OpenDocument, nested spans": (".odt", lambda: _paragraph(_nested("text:span", depth, "one"))),
        "OpenDocument, nested frames": (".odt", lambda: _paragraph("one" + _nested("draw:frame", depth))),
        "EPUB, a declaration of unclosed comments": (".epub", lambda: "<!doctype [" + "<!--" * (size // 4)),
        "EPUB, unclosed comments": (".epub", lambda: "<!--" * (size // 4)),
        "EPUB, unclosed declarations": (".epub", lambda: _repeated("<!doctype[>", size)),
        _MANY_FILES: (".docx", str),
        _MANY_PAGES: (".epub", str),
    }


def _fields(depth: int) -> str:
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{part}"/></w:r>' for part in ("begin", "separate", "end"))
    return (begin + separate) * depth + "<w:r><w:t>one</w:t></w:r>" + end * depth


def _tabs(count: int) -> str:
    return f"<w:r><w:rPr>{'<w:b/>' * count}</w:rPr>{'<w:t>one</w:t><w:tab/>' * count}</w:r>"


def _paragraph(text: str) -> str:
    names = " ".join(f'xmlns:{name}="{_OPEN_DOCUMENT.format(name)}"' for name in ("office", "text", "draw"))
    return f"<office:text {names}><text:p>{text}</text:p></office:text>"


def _html_texts(size: int) -> dict[str, tuple[str, str]]:
    return {
        f"HTML, {name}": (".html", text)
        for name, text in {
            "unclosed CDATA": _repeated("<![CDATA[", size),
            "unclosed comments": _repeated("<!--", size),
            "unclosed tags": _repeated("<a ", size),
            "unclosed attributes": _repeated('<a b="', size),
            "unclosed end tags": _repeated("</a ", size),
            "unclosed scripts": _repeated("<script>", size),
            "unclosed comments in scripts": _repeated("<script><!--<script>", size),
            "unclosed annotations": "<ruby>" + _repeated("one<rt>two", size),
            "attributes with text": _repeated("<b id=a title='one'>x</b> ", size),
            "unclosed attributes with text": _repeated('<img alt="', size),
            "unclosed elements that are copied": _repeated("<p translate=no>one", size),
            "unclosed declarations": _repeated("<!", size) + _repeated("<?", size),
            "quotation marks": _repeated("<a b='\"<a b=\"'", size),
            "a tag of quotation marks": "<a " + "'" * size + ">",
            "a tag of slashes": "<a " + _repeated("x/", size) + ">",
            "a tag of values": "<a" + _repeated("=x", size) + ">",
            "equals signs": "<a " + _repeated("= ", size),
            "nested inline elements": _nested("b", size // 7, "one"),
            "inline elements, each nested in the last": _repeated("<b>x", size),
            "text in each of nested inline elements": "<b>x" * (size // 8) + "</b>" * (size // 8),
            "nested blocks": _nested("div", size // 11, "one"),
            "many inline elements": _repeated("<b>x</b> ", size),
            "many empty inline elements": "one " + _repeated("<b></b>", size) + " two",
            "elements inside of a word": _repeated("x<b>y</b>", size),
            "exponents": _repeated("m<sup>2</sup> ", size),
            "many units": "one " + _repeated("<br-x/><wbr>", size) + " two",
            "many copied elements": _repeated("<code>x</code>", size),
            "many parts of a copied element": "one <code>" + _repeated("<b></b>", size) + "</code> two",
            "a number of many digits": f"one &#{'9' * 5_000}; two",
            "ampersands": _repeated("&", size),
            "one word": "x" * size,
        }.items()
    }


def _markdown_texts(size: int) -> dict[str, tuple[str, str]]:
    return {
        f"Markdown, {name}": (".md", text)
        for name, text in {
            "many inline elements": _repeated("*x* ", size),
            "many code spans": _repeated("`x` ", size),
            "many links": _repeated("[x](y) ", size),
            "paragraphs with tabs": _repeated("a\tb\n\n", size),
            "lines of a paragraph": _repeated("*one* two\n", size),
            "unclosed brackets": _repeated("[", size) + "\n\n" + _repeated("[a](", size),
            "unclosed code spans": "".join("`" * (length % 50) + "a" for length in range(size // 25)),
            "unclosed emphasis": _repeated("**a *b ~~c _d ", size),
            "unclosed formulas": _repeated("$a ", size) + "\n\n" + _repeated("\\(a", size) + _repeated("\n\n$$a", size),
            "unclosed template tags": _repeated("{{", size) + _repeated("{%", size) + _repeated("[[a|", size),
            "unclosed HTML": _repeated("<code>", size) + _repeated("a <!--", size),
            "nested quotes": "".join("> " * (depth % 60) + "a\n" for depth in range(size // 64)),
            "nested containers": "".join("    " * (depth % 30) + "!!! a\n" for depth in range(size // 66)),
            "a long table": "|a|b|\n|-|-|\n" + _repeated("|a\\||*b*|\n", size),
            "a wide table": f"|{_repeated('a|', size // 2)}\n|{_repeated('-|', size // 2)}\n",
            "references": "[x]: u\n\n" + _repeated("[x] [a][x] [y][] ", size),
            "addresses": _repeated("http://a.b/c_d a@b.c ", size) + _repeated("a_b_", size),
            "a number of many digits": f"one &#{'9' * 5_000}; two",
        }.items()
    }


def _plain_texts(size: int) -> dict[str, tuple[str, str]]:
    return {
        "text, spaces": (".txt", " " * size),
        "text, dashes": (".txt", _repeated("- ", size) + "a"),
        "text, line breaks": (".txt", "a\n" * (2 * size)),
        "subtitles, arrows": (".srt", _repeated("-->", size)),
        "subtitles, marks": (".srt", CUE + "a" + "#" * size + "a"),
        "subtitles, brackets": (".srt", CUE + "[" * size),
        "subtitles, speakers": (".srt", CUE + _repeated("A: ", size)),
        "subtitles, lines": (".srt", CUE + _repeated("one\n", size)),
        "subtitles, tags": (".srt", CUE + _repeated("<a", size)),
        "subtitles, spaces": (".srt", CUE + _repeated("\n   ", size)),
    }


def archive(suffix: str, text: str) -> bytes:
    """Return an archive of this kind with a text."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(PARTS[suffix], text)
    return written.getvalue()


def _many_files(number: int, suffix: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as target:
        for index in range(number):
            target.writestr(f"{index}{suffix}", b"")
    return written.getvalue()


def _repeated(part: str, size: int) -> str:
    return part * (size // len(part))


def _nested(name: str, depth: int, text: str = "") -> str:
    return f"<{name}>" * depth + text + f"</{name}>" * depth
