"""Building blocks of SVG drawings. All text in them is escaped."""

from __future__ import annotations

import re
import unicodedata

from zoo.visualization.page import DARK, LIGHT, escape_text, series_colour

_VARIABLE = re.compile(r"var\(--([\w-]+)\)")
_SERIES = re.compile(r'(fill|stroke)="var\(--(series-\d+)\)"')

_BOLD_FACTOR = 1.13  # width of a bold letter relative to a regular one
_NARROW = frozenset("!'(),-./:;I[\\]fijlrt|")


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """Return an SVG element.

    Args:
        name: Name of the element.
        content: Content of the element, as SVG.
        attributes: Attributes of the element. The attribute `class` is called `kind` here, and underscores stand for
            hyphens. Numbers are rounded to one decimal place.
    """
    kind = {"class": attributes.pop("kind")} if "kind" in attributes else {}
    written = "".join(f' {key.replace("_", "-")}="{_value(value)}"' for key, value in {**kind, **attributes}.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(kind: str, x: float, y: float, words: str, /, **attributes: str | float) -> str:
    """Return an SVG text whose baseline begins at (x, y)."""
    return element("text", escape_text(words), kind=kind, x=x, y=y, **attributes)


def image(title: str, style: str, width: float, height: float, *parts: str) -> str:
    """Return an SVG image that needs no other file, with a background of the class `page`.

    `style` and `parts` may use the colours of pages, such as `var(--ink)`. The image then follows light and dark mode.
    It contains no variables, because many programs cannot read variables in an SVG.

    Args:
        title: Description of the image for screen readers.
        style: The style sheet of the image.
        width: Width in pixels.
        height: Height in pixels.
        parts: The elements of the image.
    """
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    body = "\n".join(parts)
    themed = [line for line in style.splitlines() if "var(" in line]
    dark = [_with_colours(line, dark=True) for line in themed]
    for attribute, name in sorted(set(_SERIES.findall(body))):
        dark.append(f'[{attribute}="var(--{name})"] {{ {attribute}: {_colour(name, dark=True)} }}')
    if themed:
        style += "\n".join(["@media screen and (prefers-color-scheme: dark) {", *dark, "}\n"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>\n<title>{escape_text(title)}</title>\n'
        f'<style>\n{_with_colours(style)}</style>\n<rect class="page" width="100%" height="100%"/>\n'
        f"{_with_colours(body)}\n</svg>\n"
    )


def _with_colours(svg: str, *, dark: bool = False) -> str:
    """Replace the variables of colours by the colours of a theme."""
    return _VARIABLE.sub(lambda variable: _colour(variable[1], dark=dark), svg)


def _colour(name: str, *, dark: bool) -> str:
    kind, _, number = name.partition("-")
    return series_colour(int(number), dark=dark) if kind == "series" else (DARK if dark else LIGHT)[name]


def text_width(words: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text in pixels.

    Browsers use different fonts, so the estimate is large enough for wide fonts such as DejaVu Sans.

    Args:
        words: The text.
        size: Font size in pixels.
        bold: Whether the font is bold.
    """
    return (_BOLD_FACTOR if bold else 1.0) * size * sum(map(_relative_width, words))


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
