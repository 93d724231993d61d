"""A page is one file: no address, no script but its own, words that are only words, colours that can be read."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from zoo.visualization.page import data, page, text
from zoo.visualization.style import DARK, LIGHT, colours, series

HOSTILE = "</script><script>alert(1)</script>&amp;\"'\x00\u202e\ud800é"
VOID = {"meta", "br", "input", "link", "img", "hr"}


class Reader(HTMLParser):
    """The tags that are open must be closed in turn; scripts and texts are kept."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.policy = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script":
            self.scripts.append((given, ""))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        self.texts.append(data)


def contrast(one: str, other: str) -> float:
    """As WCAG 2 has it, of two hex colours."""
    lights = []
    for code in (one, other):
        parts = [int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_whatever_is_in_words_they_are_words() -> None:
    read = Reader(page(HOSTILE, f"<h1>{text(HOSTILE)}</h1>", data("all", {"words": HOSTILE})))
    assert len(read.scripts) == 1
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd").replace("\ud800", "\ufffd")
    assert read.texts.count(shown) == 2  # the title and the heading
    assert json.loads(read.scripts[0][1]) == {"words": HOSTILE}


def test_a_page_allows_itself_its_own_script_and_no_address() -> None:
    script = "document.title = 'é < é'"
    made = page("A page", "<h1>A page</h1>", script=script)
    read = Reader(made)
    assert [code for _, code in read.scripts] == [script]
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in read.policy
    assert "default-src 'none'" in read.policy
    assert "script-src 'none'" in Reader(page("A page")).policy
    assert not re.search(r"https?:|src=|href=|@import|url\(", made)
    made.encode()


@pytest.mark.parametrize("named", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_written_can_be_read(named: Mapping[str, str]) -> None:
    for ground in ("page", "soft"):
        for ink in ("ink", "quiet", "accent"):
            assert contrast(named[ink], named[ground]) >= 4.5
        assert contrast(named["grey"], named[ground]) >= 3


@pytest.mark.parametrize("dark", [False, True])
def test_neighbours_differ_in_colour_and_are_seen(dark: bool) -> None:
    drawn = [series(number, dark=dark) for number in range(64)]
    assert len(set(drawn)) == 64
    assert min(contrast(each, (DARK if dark else LIGHT)["page"]) for each in drawn) >= 3


def test_paper_is_light() -> None:
    sheet = colours(2)
    assert sheet.index(LIGHT["page"]) < sheet.index("@media screen") < sheet.index(DARK["page"])
    assert f"--series-1: {series(1)}" in sheet
    assert f"--series-1: {series(1, dark=True)}" in sheet
