"""One HTML page as one file: it asks for nothing from any network, and shows nothing but what stands in it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from json import dumps

from zoo.version import __version__
from zoo.visualization.style import SHEET, colours

_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""What HTML has no letter for, or what turns the letters after it round."""


def text(words: str) -> str:
    """Words as HTML, in a text or in a quoted attribute: whatever is in them, they are words."""
    return escape(showable(words))


def showable(words: str) -> str:
    """Words in which each letter can be shown, and turns no other one round."""
    return _UNSHOWABLE.sub("\ufffd", words)


def data(name: str, value: object) -> str:
    """A JSON value for the page's own script: the text of the element with this id, to be parsed."""
    inside = dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{text(name)}">{inside}</script>'


def page(title: str, *body: str, style: str = "", script: str = "", many: int = 0) -> str:
    """A whole page: the title is text, the parts of its body are HTML, under a heading that the first of them brings.

    `style` is added to the one sheet (`zoo/visualization/style.py`), where `many` colours `--series-0` and so on are at hand;
    `script` runs when all is there. The page allows itself no address but its own, and no script but this one.
    """
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="zoo {__version__}">',
            f"<title>{text(title)}</title>",
            f"<style>\n{colours(many)}{SHEET}{style}</style>\n</head>\n<body>\n<main>",
            *body,
            "</main>",
            *([f"<script>{script}</script>"] if script else []),
            "</body>\n</html>\n",
        ]
    )
