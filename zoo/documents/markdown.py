"""Markdown: its texts and inline markup as fragments. Code, tables' frames, lists' marks and HTML blocks are copied."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from zoo.documents.markup import Fragment, Kind, Syntax

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


SYNTAX = Syntax(_escape)


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
        positions = _find(token.content, lines, max(cursor, starts[token.map[0]]))
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


def _find(content: str, text: str, start: int) -> list[int] | None:
    """Return where each character of an inline text, and its end, are in the document. None if it is not found.

    Lines of the text follow each other in the document, but marks of quotes and lists may precede each of them.
    """
    positions: list[int] = []
    for line in content.split("\n"):
        start = text.find(line, start)
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
        rest = content[position:]
        if is_copied:  # the text of an automatic link
            is_copied = child.type != "link_close"
            continue
        kind, text = Kind.UNIT, ""
        if child.type == "text":
            kind, text = Kind.TEXT, child.content
            length = _raw_length(rest, child.content)
        elif child.type in ("em_open", "strong_open", "s_open"):
            kind, length = Kind.OPEN, _expect(rest, child.markup)
        elif child.type in ("em_close", "strong_close", "s_close"):
            kind, length = Kind.CLOSE, _expect(rest, child.markup)
        elif child.type == "link_open" and child.markup == "autolink":
            is_copied, length = True, _match(_AUTOLINK, rest)
        elif child.type == "link_open":
            kind, length = Kind.OPEN, _expect(rest, "[")
        elif child.type == "link_close":
            kind, length = Kind.CLOSE, _match(_LINK_END, rest)
        elif child.type == "code_inline":
            length = _match(re.compile(rf"{child.markup}(?!`).*?(?<!`){child.markup}(?!`)", re.DOTALL), rest)
        elif child.type == "image":
            length = _match(_IMAGE, rest)
        elif child.type == "softbreak":
            text, length = " ", _match(_SOFT_BREAK, rest)
        elif child.type == "hardbreak":
            kind, length = Kind.BREAK, _match(_HARD_BREAK, rest)
        elif child.type == "html_inline":
            length = _expect(rest, child.content)
        else:
            raise _Mismatch
        if length:
            yield Fragment(kind, rest[:length], text, child.type.partition("_")[0])
        position += length


def _expect(rest: str, expected: str) -> int:
    if not rest.startswith(expected):
        raise _Mismatch
    return len(expected)


def _match(pattern: re.Pattern[str], rest: str) -> int:
    match = pattern.match(rest)
    if match is None:
        raise _Mismatch
    return match.end()


def _raw_length(rest: str, text: str) -> int:
    """Return how many characters of the document a text has, with escapes and entities."""
    position = done = 0
    while done < len(text):
        if rest.startswith(text[done], position):
            position, done = position + 1, done + 1
        elif rest.startswith("\\" + text[done], position):
            position, done = position + 2, done + 1
        elif entity := _ENTITY.match(rest, position):
            decoded = html.unescape(entity[0])
            if not text.startswith(decoded, done):
                raise _Mismatch
            position, done = entity.end(), done + len(decoded)
        else:
            raise _Mismatch
    return position
