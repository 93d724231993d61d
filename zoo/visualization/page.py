"""HTML pages that consist of one file. They load nothing from a network, and all text in them is escaped."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from json import dumps

from zoo.version import __version__
from zoo.visualization.style import SHEET, colour_sheet

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML cannot contain, or that change the writing direction of the text after them."""


def escape_text(text: str) -> str:
    """Escape a text so that it can be the content of an HTML element or of a quoted attribute."""
    return escape(replace_unprintable(text))


def replace_unprintable(text: str) -> str:
    """Replace each character that cannot be shown, or that changes the writing direction, by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def json_element(id: str, value: object) -> str:
    """Return an HTML script element that contains a value as JSON. The page's script finds it by its id."""
    content = dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{escape_text(id)}">{content}</script>'


def page(title: str, *body: str, style: str = "", script: str = "", series_count: int = 0) -> str:
    """Return a complete HTML page. Its content security policy allows only `script` to run, and no network access.

    Args:
        title: The title, as text.
        body: The parts of the body, as HTML.
        style: CSS that is added after the common style sheet.
        script: JavaScript that runs after the body is loaded. Empty for none.
        series_count: The number of series colours (`--series-0`, `--series-1`, ...) to define in the style sheet.
    """
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="zoo {__version__}">',
            f"<title>{escape_text(title)}</title>",
            f"<style>\n{colour_sheet(series_count)}{SHEET}{style}</style>\n</head>\n<body>\n<main>",
            *body,
            "</main>",
            *([f"<script>{script}</script>"] if script else []),
            "</body>\n</html>\n",
        ]
    )
