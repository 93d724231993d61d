"""A page is one file, allows only its own script, escapes text, and has readable colours."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest

from tests.zoo.conftest import HtmlPage
from zoo.visualization.page import COLOURS, colour_sheet, escape_text, json_element, page, series_colour

HOSTILE = "</script><script>alert(1)</script>&amp;\"'\x00\u202e\ud800é"


def contrast(first: str, second: str) -> float:
    """Return the contrast of two hex colours as WCAG 2 defines it."""
    luminances = []
    for code in (first, second):
        channels = [int(code[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        luminances.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def test_text_is_escaped() -> None:
    parsed = HtmlPage(page(HOSTILE, f"<h1>{escape_text(HOSTILE)}</h1>", json_element("all", {"words": HOSTILE})))
    ((_, script),) = parsed.find("script")
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd").replace("\ud800", "\ufffd")
    assert parsed.find("title")[0][1] == parsed.find("h1")[0][1] == shown
    assert json.loads(script) == {"words": HOSTILE}


def test_page_allows_only_its_own_script() -> None:
    script = "document.title = 'é < é'"
    source = page("A page", "<h1>A page</h1>", script=script)
    parsed = HtmlPage(source)
    policy = parsed.find("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert [text for _, text in parsed.find("script")] == [script]
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in page("A page")
    assert not re.search(r"https?:|src=|href=|@import|url\(", source)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_have_contrast(dark: bool) -> None:
    theme = {name: pair[dark] for name, pair in COLOURS.items()}
    for background in ("page", "soft"):
        assert min(contrast(theme[text], theme[background]) for text in ("ink", "quiet", "accent")) >= 4.5
        assert contrast(theme["grey"], theme[background]) >= 3
    colours = [series_colour(number, dark=dark) for number in range(64)]
    assert len(set(colours)) == 64
    assert min(contrast(colour, theme["page"]) for colour in colours) >= 3


def test_print_is_light() -> None:
    sheet, (light, dark) = colour_sheet(2), COLOURS["page"]
    assert sheet.index(light) < sheet.index("@media screen") < sheet.index(dark)
    assert all(f"--series-1: {series_colour(1, dark=dark)}" in sheet for dark in (False, True))
