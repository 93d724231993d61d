"""E-books (.epub): the text of their pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zoo.documents import html
from zoo.documents.fragments import Archive, Format


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    return {name: html.FORMAT for name in names if name.lower().endswith((".xhtml", ".html", ".htm", ".ncx"))}


FORMAT = Archive(_formats)
