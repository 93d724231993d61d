"""Markdown: its texts and inline markup as fragments. Code, tables' frames, lists' marks and HTML blocks are copied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from zoo.documents.fragments import Format, Fragment, Kind, Syntax, View, unescape

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n.*?^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")
_MARK_AT_START = re.compile(r"^(\d*)([#+.)-])(?=\s)")
_LINK_END = re.compile(r"\](?:\((?:[^()\\]|\\.|\([^()]*\))*\)|\[[^\]]*\])?", re.DOTALL)
_IMAGE = re.compile(r"!\[(?:[^\[\]\\]|\\.|\[[^\]]*\])*\](?:\((?:[^()\\]|\\.|\([^()]*\))*\)|\[[^\]]*\])?", re.DOTALL)
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")
_AUTOLINK = re.compile(r"<[^<>\s]*>")
_SOFT_BREAK = re.compile(r" *\n *")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\n *")


_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class _Mismatch(Exception):
    """The source of an inline text is not what its tokens say."""


def _escape(text: str) -> str:
    return _MARK_AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text))


def parse(text: str) -> list[Fragment]:
    """Return the fragments of a Markdown document."""
    front = _FRONT_MATTER.match(text)
    end = cursor = front.end() if front else 0
    fragments = [Fragment(Kind.BREAK, text[:end])]
    lines = text.replace("\r\n", " \n")  # of the same length, so that positions stay valid
    starts = [end, *(match.end() for match in re.finditer("\n", lines) if match.end() > end)]
    for token in _PARSER.parse(lines[end:]):
        if token.type != "inline" or token.map is None:
            continue
        last = starts[token.map[1]] if token.map[1] < len(starts) else len(lines)
        positions = _find(token.content, lines, max(cursor, starts[token.map[0]]), last)
        if positions is None:
            continue
        fragments.append(Fragment(Kind.BREAK, text[cursor : positions[0]]))
        start = 0
        for fragment in _inline_fragments(token):
            stop = start + len(fragment.raw)
            fragments.append(replace(fragment, raw=text[positions[start] : positions[stop]]))
            start = stop
        cursor = positions[-1]
    return [*fragments, Fragment(Kind.BREAK, text[cursor:])]


def _find(content: str, text: str, start: int, end: int) -> list[int] | None:
    """Return where each character of an inline text, and its end, are in the document. None if it is not found.

    The search is limited to its lines, from `start` to `end`.

    Lines of the text follow each other in the document, but marks of quotes and lists may precede each of them.
    """
    positions: list[int] = []
    for line in content.split("\n"):
        start = text.find(line, start, end)
        if start < 0:
            return None
        positions += range(start, start + len(line) + 1)
        start += len(line)
    return positions


def _inline_fragments(token: Token) -> list[Fragment]:
    """Return the fragments of an inline text, or the whole text as one fragment if its markup is not recognised."""
    try:
        fragments = list(_walk(token.content, token.children or []))
        if "".join(fragment.raw for fragment in fragments) == token.content:
            return fragments
    except _Mismatch:
        pass
    return [Fragment(Kind.UNIT, token.content)]


def _walk(content: str, children: Sequence[Token]) -> Iterator[Fragment]:
    position, is_copied = 0, False
    for child in children:
        if is_copied:  # the text of an automatic link
            is_copied = child.type != "link_close"
            continue
        kind, text, start = Kind.UNIT, "", position
        if child.type == "text":
            kind, text = Kind.TEXT, child.content
            position = _raw_end(content, start, child.content)
        elif child.type in ("em_open", "strong_open", "s_open"):
            kind, position = Kind.OPEN, _expect(content, start, child.markup)
        elif child.type in ("em_close", "strong_close", "s_close"):
            kind, position = Kind.CLOSE, _expect(content, start, child.markup)
        elif child.type == "link_open" and child.markup == "autolink":
            is_copied, position = True, _match(_AUTOLINK, content, start)
        elif child.type == "link_open":
            kind, position = Kind.OPEN, _expect(content, start, "[")
        elif child.type == "link_close":
            kind, position = Kind.CLOSE, _match(_LINK_END, content, start)
        elif child.type == "code_inline":
            code = re.compile(rf"{child.markup}(?!`).*?(?<!`){child.markup}(?!`)", re.DOTALL)
            position = _match(code, content, start)
        elif child.type == "image":
            position = _match(_IMAGE, content, start)
        elif child.type == "softbreak":
            text, position = " ", _match(_SOFT_BREAK, content, start)
        elif child.type == "hardbreak":
            kind, position = Kind.BREAK, _match(_HARD_BREAK, content, start)
        elif child.type == "html_inline":
            position = _expect(content, start, child.content)
        else:
            raise _Mismatch
        if position > start:
            yield Fragment(kind, content[start:position], text, child.type.partition("_")[0])


def _expect(content: str, start: int, expected: str) -> int:
    if not content.startswith(expected, start):
        raise _Mismatch
    return start + len(expected)


def _match(pattern: re.Pattern[str], content: str, start: int) -> int:
    match = pattern.match(content, start)
    if match is None:
        raise _Mismatch
    return match.end()


def _raw_end(content: str, start: int, text: str) -> int:
    """Return where a text ends in the document, which has escapes and entities."""
    position, done = start, 0
    while done < len(text):
        if content.startswith(text[done], position):
            position, done = position + 1, done + 1
        elif content.startswith("\\" + text[done], position):
            position, done = position + 2, done + 1
        elif entity := _ENTITY.match(content, position):
            decoded = unescape(entity[0])
            if not text.startswith(decoded, done):
                raise _Mismatch
            position, done = entity.end(), done + len(decoded)
        else:
            raise _Mismatch
    return position


FORMAT: Format = (View(parse, Syntax(_escape)),)
