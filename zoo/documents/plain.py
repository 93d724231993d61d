"""Plain text and subtitles as pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zoo.documents.markup import Kind, Piece, Syntax

SYNTAX = Syntax(str)
_LINE_BREAK = re.compile(r"[\r\n]+")
_CUE_HEAD = re.compile(r"(?:^|(?<=\n))(?:[^\n]*\r?\n)?[^\n]*-->[^\n]*(?:\n|$)")
"""The number and the times of a subtitle."""
_SUBTITLE_MARK = re.compile(r"</?([a-zA-Z]++)[^<>\n]*>|\{[^{}\n]*\}|\r?\n[ \t]*(?=-)|(?:\r?\n){2,}|\r?\n")


def parse_text(text: str) -> list[Piece]:
    """Return the pieces of plain text. Each line is a segment."""
    return list(_split(text, _LINE_BREAK))


def parse_subtitles(text: str) -> list[Piece]:
    """Return the pieces of subtitles in SubRip's format. Each subtitle is a segment, or each of its speakers."""
    pieces: list[Piece] = []
    end = 0
    for head in _CUE_HEAD.finditer(text):
        pieces += _parse_cue(text[end : head.start()]) if pieces else [Piece(Kind.BREAK, text[: head.start()])]
        pieces.append(Piece(Kind.BREAK, head[0]))
        end = head.end()
    return pieces + (_parse_cue(text[end:]) if pieces else [Piece(Kind.BREAK, text)])


def _parse_cue(text: str) -> list[Piece]:
    end, pieces = 0, []
    for match in _SUBTITLE_MARK.finditer(text):
        pieces.append(_text(text[end : match.start()]))
        raw, name, end = match[0], match[1], match.end()
        if name:
            pieces.append(Piece(Kind.CLOSE if raw.startswith("</") else Kind.OPEN, raw, name=name.lower()))
        elif raw.startswith("{"):
            pieces.append(Piece(Kind.UNIT, raw))
        elif raw.count("\n") > 1 or text[end : end + 1] == "-":
            pieces.append(Piece(Kind.BREAK, raw))
        else:
            pieces.append(Piece(Kind.UNIT, raw, " "))
    return [*pieces, _text(text[end:])]


def _text(raw: str) -> Piece:
    return Piece(Kind.TEXT, raw, raw)


def _split(text: str, boundary: re.Pattern[str]) -> Iterator[Piece]:
    end = 0
    for match in boundary.finditer(text):
        yield _text(text[end : match.start()])
        yield Piece(Kind.BREAK, match[0])
        end = match.end()
    yield _text(text[end:])
