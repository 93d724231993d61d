"""Plain text (.txt), and subtitles in SubRip format (.srt)."""

from __future__ import annotations

import re

from specs import ZooError
from zoo.documents.fragments import DIVIDERS, Fragment, Kind, View
from zoo.text.sentences import excerpt

_GAP = re.compile(r"([\r\n\v\f\x85\u2028\u2029]+|\t+|[ \u00a0]{2,})")
_RULES = re.compile(
    DIVIDERS + r"|^([-=*~#+])\3{2,}|(?<![\w*~#+=-])([-=*~#+])\4{2,}\s*$|([-=])\5{2,}\s*$|(?<!\S)\.{4,}(?!\S)"
)
"""Text that is copied within a line, including rules such as `-----` at the edges, and leader dots between spaces.

Stars after a letter may replace letters. A rule of underscores may be a blank in a sentence, so it is not included.
"""
_LINE = r"(?>\r\n|\r|\n)"
_TIME = r"-?\d+:\d\d(?::\d\d)?(?:[,.:]\d+)?"
_HEAD = re.compile(
    rf"((?:^|(?<=[\r\n]))(?:[ \t]*\d+[ \t]*{_LINE})?[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*(?:{_LINE}|$))"
)
"""The number of a subtitle, which is optional, and its times."""
_EXACT = r"-?\d+:\d\d[:,.]\d[\d:,.]*+"
_DAMAGED = re.compile(rf"(?:(?<![^\r\n])[ \t]*+{_EXACT}[ \t]*+(?:-->|-+>[ \t]*+{_EXACT})|-->[ \t]*+{_EXACT})")
"""A line with only one of a subtitle's two times, or with a different arrow. Other arrows may be part of the text."""
_MARKUP = re.compile(
    r"<(?P<close>/?)(?P<name>[a-zA-Z]++)[^<>\r\n]*>|(?P<code>\{[^{}\r\n]*\})"
    rf"|(?P<blank>{_LINE}(?:[ \t]*+{_LINE})+)|(?P<line>{_LINE}|\\[Nn])"
)
_SOUND = r"\[[^\[\]]*\]|\([^\W\d_a-zß-öø-ÿ][^()a-zß-öø-ÿ]*\)|\((?=[a-zß-öø-ÿ])[^().!?]{1,40}\)"
_SPEAKER = r"[^\W\d_a-zß-öø-ÿ][^:a-zß-öø-ÿ]{0,40}:(?=\s|$)"
_LINE_MARKS = re.compile(rf"(?:(?:[-‐-―•▪●*]++|>>++|[♪♫#]++|{_SOUND}|{_SPEAKER})\s*+)++")
_LINE_END_MARKS = re.compile(rf"(?:\s*+(?:[♪♫#]++|{_SOUND}))++$")


def _parse_text(text: str) -> list[Fragment]:
    """Return the fragments of plain text. Line breaks, tabs and multiple spaces separate segments."""
    return [Fragment(Kind.BREAK, part) if index % 2 else _text(part) for index, part in enumerate(_GAP.split(text))]


def _parse_subtitles(text: str) -> list[Fragment]:
    """Return the fragments of subtitles. A segment never spans several subtitles.

    A line that begins a new sentence, or that has a different speaker, begins a new segment.

    Raises:
        ZooError: There are no subtitles, or the times of a subtitle are not valid.
    """
    before, *parts = _HEAD.split(text)
    for number, line in enumerate(_HEAD.sub(lambda head: "\n" * head[0].count("\n"), text).split("\n"), start=1):
        if _DAMAGED.search(line):
            problem = f"line {number:,} ({excerpt(line.strip())}) does not contain a valid start and end time"
            raise ZooError(problem, hint="write the line in the form `00:00:01,000 --> 00:00:02,500`")
    if not parts and before.strip():
        raise ZooError("the file has no subtitle times", hint="write times as in `00:00:01,000 --> 00:00:02,500`")
    fragments = [Fragment(Kind.BREAK, before)]
    for head, cue in zip(parts[::2], parts[1::2], strict=True):
        fragments += [Fragment(Kind.BREAK, head), *_parse_cue(cue)]
    return fragments


def _parse_cue(text: str) -> list[Fragment]:
    fragments, end = list[Fragment](), 0
    for match in _MARKUP.finditer(text):
        fragments.append(_text(text[end : match.start()]))
        raw, end = match[0], match.end()
        if match["name"]:
            fragments.append(Fragment(Kind.CLOSE if match["close"] else Kind.OPEN, raw, key=match["name"].lower()))
        elif match["line"]:
            fragments.append(Fragment(Kind.LINE, raw, " "))
        else:
            fragments.append(Fragment(Kind.UNIT if match["code"] else Kind.BREAK, raw))
    return [*fragments, _text(text[end:])]


def _text(raw: str) -> Fragment:
    return Fragment(Kind.TEXT, raw, raw)


TEXT = (View(_parse_text, str, dividers=_RULES),)
SUBTITLES = (View(_parse_subtitles, str, wraps=True, marks=_LINE_MARKS, end_marks=_LINE_END_MARKS),)
