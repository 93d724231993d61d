"""The web page of the server, at `/`. It uses the HTTP APIs and loads nothing from other hosts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

from zoo.visualization.page import SHEET, colour_sheet, theme_sheet

_FOLDER = Path(__file__).parent / "page"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TYPES = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


def router() -> APIRouter:
    """Return the paths of the page."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def index() -> Response:
        return _file("index.html")

    @routes.get("/page.css")
    async def style() -> Response:
        return _file("page.css")

    @routes.get("/page.js")
    async def script() -> Response:
        return _file("page.js")

    return routes


def _file(name: str) -> Response:
    return Response(_content(name), media_type=f"{_TYPES[name]}; charset=utf-8", headers=_HEADERS)


@cache
def _content(name: str) -> str:
    text = (_FOLDER / name).read_text("utf-8")
    return colour_sheet() + theme_sheet() + SHEET + text if name == "page.css" else text
