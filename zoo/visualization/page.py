"""Write HTML pages that are one file: they load nothing from a network, and all text in them is escaped."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from json import dumps

from zoo.version import __version__
from zoo.visualization.style import SHEET, colour_sheet

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML cannot contain, or that change the direction of the text after them."""


def escape_text(text: str) -> str:
    """Escape text for HTML, as content or in a quoted attribute."""
    return escape(replace_unprintable(text))


def replace_unprintable(text: str) -> str:
    """Replace characters that cannot be shown, or that reverse others, by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def json_element(id: str, value: object) -> str:
    """Return a script element with this id that contains the value as JSON, for the page's own script to parse."""
    content = dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{escape_text(id)}">{content}</script>'


def page(title: str, *body: str, style: str = "", script: str = "", series_count: int = 0) -> str:
    """Return a complete HTML page. Its content security policy allows only this script, and no network access.

    Args:
        title: The title, as text.
        body: The parts of the body, as HTML.
        style: CSS after the common style sheet.
        script: JavaScript that runs after the body is loaded.
        series_count: The number of colours `--series-0`, `--series-1`, ... that the style sheet defines.
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
