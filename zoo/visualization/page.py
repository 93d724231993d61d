"""Self-contained HTML pages and SVG drawings in one style, with light and dark colours.

Pages and drawings load nothing from the network, and their text is escaped.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterable, Sequence
from colorsys import hls_to_rgb
from hashlib import sha256
from html import escape
from json import dumps
from pathlib import Path
from string import Template
from struct import pack
from zlib import compress, crc32

import numpy as np
import numpy.typing as npt

from zoo.version import __version__

COLOURS = {
    "page": ("#ffffff", "#16181d"),
    "soft": ("#f1f3f6", "#21242b"),
    "line": ("#c4c8ce", "#444952"),
    "quiet": ("#5c6069", "#a2a7b0"),
    "ink": ("#111111", "#eeeeee"),
    "accent": ("#1f5fa8", "#8ab8f0"),
    "grey": ("#7c8088", "#7f858f"),
}
"""Colours for light and dark mode, in this order: background, second background, lines, secondary text, text, links and
selections, borders of controls. On both backgrounds, text has a contrast of at least 4.5, and borders of at least 3
(WCAG 2)."""
_GOLDEN = 137.508
"""Golden angle in degrees. Consecutive series differ by this hue angle, so that any number of hues stay distinct."""
_FIRST_HUE = 212.0


def asset(name: str) -> str:
    """Return the text of a style sheet or a script in the folder `assets`."""
    return (Path(__file__).parent / "assets" / name).read_text("utf-8")


SHEET = asset("page.css")
"""Style sheet of every page. Classes: `quiet` for secondary text, `number` for cells, `wide` for boxes that scroll,
`plots` for a grid of figures, `hidden` for text that only screen readers read, `screen` for controls that are not
printed."""


def series_colour(number: int, *, dark: bool = False) -> str:
    """Return the colour of a series (an attention head or a line in a plot) as a hex code, such as "#1f5fa8".

    Args:
        number: The number of the series, counted from 0.
        dark: Whether the background is dark.
    """
    hue = (_FIRST_HUE + number * _GOLDEN) % 360
    luminance = 0.72 if 35 < hue < 200 else 1.0  # yellow and green look lighter than blue and red
    light = 0.66 if dark else 0.46 * luminance
    red, green, blue = hls_to_rgb(hue / 360, light, 0.68)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in (red, green, blue))


def colour_sheet(series_count: int = 0) -> str:
    """Return CSS that defines all colours for light mode, dark mode and print, with `series_count` series colours."""
    names = [*COLOURS, *(f"series-{number}" for number in range(series_count))]
    return (
        f":root {{ color-scheme: light dark; {_variables(names, dark=False)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(names, dark=True)} }} }}\n"
        "@media print { :root { color-scheme: light; print-color-adjust: exact; -webkit-print-color-adjust: exact } }\n"
    )


def theme_sheet() -> str:
    """Return CSS that lets a page's `data-theme` attribute, `light` or `dark`, override the system's colour scheme."""
    return "".join(
        f"@media screen {{ :root[data-theme={name}] {{ color-scheme: {name}; {_variables(COLOURS, dark=dark)} }} }}\n"
        for name, dark in (("light", False), ("dark", True))
    )


def _variables(names: Iterable[str], *, dark: bool) -> str:
    return "; ".join(f"--{name}: {_colour(name, dark=dark)}" for name in names)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML cannot contain, or that change the writing direction of the text after them."""


def escape_text(text: str) -> str:
    """Escape a text so that it can be the content of an HTML element or of a quoted attribute."""
    return escape(replace_unprintable(text))


def replace_unprintable(text: str) -> str:
    """Replace each character that cannot be shown, or that changes the writing direction, with U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def json_element(id: str, value: object) -> str:
    """Return an HTML script element that contains a value as JSON. The page's script finds it by its id."""
    content = dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{escape_text(id)}">{content}</script>'


def grey_picture(pixels: npt.NDArray[np.uint8]) -> str:
    """Convert a greyscale image, [height, width], to a data URL that contains a PNG file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return pack(">I", len(content)) + kind + content + pack(">I", crc32(kind + content))

    height, width = pixels.shape
    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = np.pad(pixels, ((0, 0), (1, 0)))  # each row begins with its filter type: 0, no filter
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", compress(rows.tobytes())) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(bytes.fromhex('89504e470d0a1a0a') + chunks).decode()}"


def page(title: str, *body: str, style: str = "", script: str = "", series_count: int = 0) -> str:
    """Return a complete HTML page. Its content security policy blocks network access and all scripts except `script`.

    Args:
        title: The title, as plain text.
        body: The parts of the body, as HTML.
        style: CSS that is added after the common style sheet.
        script: JavaScript that runs after the body is loaded. Empty for no script.
        series_count: The number of series colours (`--series-0`, `--series-1`, ...) to define in the style sheet.
    """
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"
    return Template(asset("page.html")).substitute(
        policy=policy,
        version=__version__,
        title=escape_text(title),
        style=f"{colour_sheet(series_count)}{SHEET}{style}",
        body="".join(f"{part}\n" for part in body),
        script=f"<script>{script}</script>\n" if script else "",
    )


def table(caption: str, columns: Sequence[str], rows: Iterable[str], kind: str = "wide") -> str:
    """Return an HTML table.

    Args:
        caption: The caption, as HTML.
        columns: The names of the columns. If a name ends in `>`, its cells are right-aligned.
        rows: The `tr` elements.
        kind: CSS classes of the `div` element around the table.
    """
    head = "".join(f'<th scope="col"{cell_class(name)}>{escape_text(name.rstrip(">…"))}</th>' for name in columns)
    body = "\n".join(rows)
    content = f"<caption>{caption}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="{kind}"><table>{content}</table></div>'


def table_cells(columns: Sequence[str], cells: Iterable[str]) -> str:
    """Return the `td` elements of a table row, from the HTML of its cells. The columns determine the cells' classes."""
    return "".join(f"<td{cell_class(name)}>{cell}</td>" for name, cell in zip(columns, cells, strict=True))


def cell_class(column: str) -> str:
    """Return the `class` attribute for cells: `number` if the column's name ends in `>`, `words` if it ends in `…`."""
    return {">": ' class="number"', "…": ' class="words"'}.get(column[-1:], "")


_VARIABLE = re.compile(r"var\(--([\w-]+)\)")
_SERIES = re.compile(r'(fill|stroke)="var\(--(series-\d+)\)"')

_NARROW = frozenset("!'(),-./:;I[\\]fijlrt|")


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """Return an SVG element.

    Args:
        name: Name of the element, such as "path".
        content: Content of the element, as SVG.
        attributes: Attributes of the element. The `class` attribute is called `kind` here, and underscores stand for
            hyphens. Numbers are rounded to one decimal place.
    """
    kind = {"class": attributes.pop("kind")} if "kind" in attributes else {}
    written = "".join(f' {key.replace("_", "-")}="{_value(value)}"' for key, value in {**kind, **attributes}.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(kind: str, x: float, y: float, words: str, /, **attributes: str | float) -> str:
    """Return an SVG text element of the class `kind`, whose baseline begins at (x, y)."""
    return element("text", escape_text(words), kind=kind, x=x, y=y, **attributes)


def image(title: str, style: str, width: float, height: float, *parts: str) -> str:
    """Return a self-contained SVG image with a background rectangle of the `page` class.

    `style` and `parts` may use the colour variables of pages, such as `var(--ink)`. Many programs do not support
    variables in an SVG, so each variable is replaced with its colour for light mode. A media query with the
    colours for dark mode is added, so that the image follows the reader's light or dark mode.

    Args:
        title: Description of the image for screen readers.
        style: The style sheet of the image.
        width: Width in pixels.
        height: Height in pixels.
        parts: The elements of the image.
    """
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    body = "\n".join(parts)
    dark = [_with_colours(line, dark=True) for line in style.splitlines() if "var(" in line]
    for attribute, name in sorted(set(_SERIES.findall(body))):
        dark.append(f'[{attribute}="var(--{name})"] {{ {attribute}: {_colour(name, dark=True)} }}')
    style += "\n".join(["@media screen and (prefers-color-scheme: dark) {", *dark, "}\n"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>\n<title>{escape_text(title)}</title>\n'
        f'<style>\n{_with_colours(style)}</style>\n<rect class="page" width="100%" height="100%"/>\n'
        f"{_with_colours(body)}\n</svg>\n"
    )


def _with_colours(svg: str, *, dark: bool = False) -> str:
    """Replace the colour variables in an SVG with the colours for light or dark mode."""
    return _VARIABLE.sub(lambda variable: _colour(variable[1], dark=dark), svg)


def _colour(name: str, *, dark: bool) -> str:
    kind, _, number = name.partition("-")
    return series_colour(int(number), dark=dark) if kind == "series" else COLOURS[name][dark]


def text_width(words: str, size: float) -> float:
    """Estimate the width of a text in pixels, in a font of this size.

    Browsers use different fonts, so the estimate is large enough for wide fonts such as DejaVu Sans.
    """
    return size * sum(map(_relative_width, words))


def _relative_width(letter: str) -> float:
    """Return the width of a letter relative to the font size."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # a combining or invisible character
        return 0.0
    if letter in _NARROW:
        return 0.42
    if letter in "%@MWmw" or not (letter.isascii() or letter.isalnum()) or unicodedata.east_asian_width(letter) in "WF":
        return 1.02
    return 0.66 if letter.islower() or letter.isdigit() else 0.85


def _value(value: str | float) -> str:
    return escape_text(value) if isinstance(value, str) else f"{round(value, 1):.10g}"
