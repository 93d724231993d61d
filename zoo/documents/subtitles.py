"""Subtitles in SubRip's format (.srt)."""

from __future__ import annotations

import re

from zoo.documents.fragments import Fragment, Kind, Syntax, View

_CUE_HEAD = re.compile(r"(?:^|(?<=\n))(?:[^\n]*\r?\n)?[^\n]*-->[^\n]*(?:\n|$)")
"""The number and the times of a subtitle."""
_SUBTITLE_MARK = re.compile(r"</?([a-zA-Z]++)[^<>\n]*>|\{[^{}\n]*\}|\r?\n[ \t]*(?=-)|(?:\r?\n){2,}|\r?\n")


def _parse(text: str) -> list[Fragment]:
    """Return the fragments of subtitles in SubRip's format. Each subtitle is a segment, or each of its speakers."""
    fragments: list[Fragment] = []
    end = 0
    for head in _CUE_HEAD.finditer(text):
        fragments += _parse_cue(text[end : head.start()]) if fragments else [Fragment(Kind.BREAK, text[: head.start()])]
        fragments.append(Fragment(Kind.BREAK, head[0]))
        end = head.end()
    return fragments + (_parse_cue(text[end:]) if fragments else [Fragment(Kind.BREAK, text)])


def _parse_cue(text: str) -> list[Fragment]:
    end, fragments = 0, []
    for match in _SUBTITLE_MARK.finditer(text):
        fragments.append(_text(text[end : match.start()]))
        raw, name, end = match[0], match[1], match.end()
        if name:
            fragments.append(Fragment(Kind.CLOSE if raw.startswith("</") else Kind.OPEN, raw, name=name.lower()))
        elif raw.startswith("{"):
            fragments.append(Fragment(Kind.UNIT, raw))
        elif raw.count("\n") > 1 or text[end : end + 1] == "-":
            fragments.append(Fragment(Kind.BREAK, raw))
        else:
            fragments.append(Fragment(Kind.UNIT, raw, " "))
    return [*fragments, _text(text[end:])]


def _text(raw: str) -> Fragment:
    return Fragment(Kind.TEXT, raw, raw)


FORMAT = (View(_parse, Syntax(str, wraps=True)),)
