"""E-books: pages are found by their media types, and titles, the table of contents and languages are translated."""

from __future__ import annotations

import io
import zipfile

import pytest

from tests.zoo.documents.translators import Shuffle, archive, translate, unpack

CONTAINER = '<container><rootfiles><rootfile media-type="a/b" full-path="{}"/></rootfiles></container>'
PAGE = '<html lang="en"><body><p>one <b>two</b></p></body></html>'
TRANSLATED = '<html lang="de"><body><p><b>TWO</b> ONE</p></body></html>'
XHTML, CONTENTS = "application/xhtml+xml", "application/x-dtbncx+xml"


def package(items: dict[str, str], metadata: str = "") -> str:
    listed = "".join(f'<item href="{name}" id="i" media-type="{kind}"/>' for name, kind in items.items())
    return f"<package><metadata>{metadata}</metadata><manifest>{listed}</manifest></package>"


def book(files: dict[str, str | bytes], root: str | None = "OPS/content.opf") -> bytes:
    container = [] if root is None else [("META-INF/container.xml", CONTAINER.format(root))]
    return archive(("mimetype", "application/epub+zip"), *container, *files.items())


def translated(content: bytes) -> dict[str, str]:
    result = translate(content, "a.epub", Shuffle(), "de")
    first = zipfile.ZipFile(io.BytesIO(result)).infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    return {name: part.decode() for name, part in unpack(result).items()}


@pytest.mark.parametrize(("name", "href", "kind", "is_page"), [
    ("OPS/a.xml", "a.xml", XHTML, True),
    ("OPS/a b.dat", "a%20b.dat", XHTML, True),
    ("a.xhtml", "../a.xhtml#x", XHTML, True),
    ("OPS/a.html", "./a.html", "text/html", True),
    ("OPS/a.xhtml", "a.xhtml", "application/xml", False),
    ("OPS/b.xhtml", "a.xhtml", XHTML, False),
])  # fmt: skip
def test_pages_are_found_by_their_media_type(name: str, href: str, kind: str, is_page: bool) -> None:
    other = {"OPS/page.xml": PAGE}
    content = book({"OPS/content.opf": package({href: kind, "page.xml": XHTML}), name: PAGE, **other})
    assert translated(content)[name] == (TRANSLATED if is_page else PAGE)


@pytest.mark.parametrize(("files", "root"), [
    ({}, None),
    ({}, "missing.opf"),
    ({"content.opf": "no package"}, "content.opf"),
    ({"content.opf": package({"missing.xhtml": XHTML})}, "content.opf"),
])  # fmt: skip
def test_pages_are_found_by_their_suffix_if_there_is_no_package(files: dict[str, str], root: str | None) -> None:
    result = translated(book({**files, "a.XHTML": PAGE, "b.htm": PAGE, "c.xml": PAGE}, root))
    assert [result[name] for name in ("a.XHTML", "b.htm", "c.xml")] == [TRANSLATED, TRANSLATED, PAGE]


@pytest.mark.parametrize(("before", "after"), [
    ('<dc:title id="a>b">one &amp; two</dc:title>', '<dc:title id="a>b">TWO &amp; ONE</dc:title>'),
    ("<dc:description>one two</dc:description>", "<dc:description>TWO ONE</dc:description>"),
    ("<dc:description>&lt;p>one two", "<dc:description>&lt;p>one two"),
    ("<dc:language>en</dc:language>", "<dc:language>de</dc:language>"),
    ("<dc:creator>one two</dc:creator>", "<dc:creator>one two</dc:creator>"),
    ("<!-- <dc:title>one two -->", "<!-- <dc:title>one two -->"),
    ('<meta property="title">one two</meta>', '<meta property="title">one two</meta>'),
])  # fmt: skip
def test_the_package_has_the_title_and_language_of_the_translation(before: str, after: str) -> None:
    items = {"a.xml": XHTML}
    result = translated(book({"OPS/content.opf": package(items, before), "OPS/a.xml": PAGE}))
    assert result["OPS/content.opf"] == package(items, after)


def test_the_table_of_contents_is_translated_except_its_author() -> None:
    contents = (
        '<ncx:ncx xml:lang="{}"><ncx:docTitle>\n<ncx:text>{}</ncx:text></ncx:docTitle><docAuthor><text>one two</text>'
        "</docAuthor><navMap><navPoint><navLabel><text>{}</text></navLabel></navPoint></navMap>"
        "<pageList><pageTarget id='a'><navLabel><text>iv</text></navLabel></pageTarget></pageList></ncx:ncx>"
    )
    files = {"OPS/content.opf": package({"a.xml": CONTENTS}), "OPS/a.xml": contents.format("en", "one two", "a b")}
    content = book(files)
    assert translated(content)["OPS/a.xml"] == contents.format("de", "TWO ONE", "B A")
    assert translate(content, "a.epub") == content


def test_pages_keep_their_encoding() -> None:
    page = '<?xml version="1.0" encoding="UTF-16"?>' + PAGE
    content = book({"OPS/content.opf": package({"a.xml": XHTML}), "OPS/a.xml": page.encode("utf-16")})
    result = unpack(translate(content, "a.epub", Shuffle(), "de"))
    assert result["OPS/a.xml"].decode("utf-16").endswith(TRANSLATED)
