"""Building blocks of SVG drawings. All text in them is escaped."""

from __future__ import annotations

import unicodedata

from zoo.visualization.page import escape_text

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

    Args:
        title: Description of the image for screen readers.
        style: The style sheet of the image.
        width: Width in pixels.
        height: Height in pixels.
        parts: The elements of the image.
    """
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape_text(title)}</title>\n<style>\n{style}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *parts,
            "</svg>\n",
        ]
    )


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
