"""Markdown: text and inline markup as fragments. Code, formulas, syntax extensions and block markup are copied."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from markdown_it.token import Token

from zoo.documents import html
from zoo.documents.fragments import Format, Fragment, Kind, View, unescape
from zoo.documents.markdown_escapes import Mode, escape, finish, label_end, line_break, mark
from zoo.documents.markdown_parser import ATTRIBUTES, make_parser

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n.*?^(?:---|\.\.\.)|\+\+\+[ \t]*\n.*?^\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_COPIED = re.compile(r"<(code|kbd|samp|var)(?=[\s/>])", re.IGNORECASE)
"""Start tag of an HTML element that is copied with its content."""
_CODE = re.compile(
    r"import\s.*['\"];?|export\s(?:const|default|function|let)\b.*|\\[a-zA-Z]+(?:\{[^{}]*\}|\[[^\[\]]*\])*"
)
"""Line of code or LaTeX between paragraphs."""
_MAX_INDENT = 100
_TEMPLATE = ("{%", "{{<", "{{%")
_BLOCK_TAG = re.compile(r"(?:\{%|<%(?![-=]?=))[-~+]?\s*(?:if|unless|for|each|case|when|els|end|block|with)")
_BLOCK_END = re.compile(r"(?:\{%|<%)[-~+]?\s*end")
"""Start of template tags that may enclose text, and the end tag. If there is no end tag, they do not enclose text."""
_PARSER = make_parser()
_ATTRIBUTES, _PARSE_HTML = html.FORMAT[0], html.FORMAT[1].parse


def parse(text: str, attributes: Callable[[str], list[Fragment]] | None = None) -> list[Fragment]:
    """Return the fragments of a Markdown document.

    Args:
        text: The document.
        attributes: Function that splits an HTML block into fragments, in which the attribute values are the text. If it
            is given, everything outside HTML blocks is copied. If None, all text except attribute values is translated.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    removed = [match.start() - index for index, match in enumerate(re.finditer("\r\n", text))]

    def cut(start: int, end: int) -> str:
        return text[start + bisect_left(removed, start) : end + bisect_left(removed, end)]

    front = _FRONT_MATTER.match(lines)
    base = front.end() if front else 0
    fragments, cursor, mode = list[Fragment](), 0, Mode.TEXT
    for token in _PARSER.parse(lines[base:]):
        place = token.meta.get("place")
        if place is None or not place.content or all(map(_CODE.fullmatch, place.content.split("\n"))):
            continue
        if attributes and token.meta["mode"] is not Mode.HTML:
            continue
        start = base + place.source(0)
        previous, mode = mode, token.meta["mode"]
        raw = cut(cursor, start)
        fragments.append(Fragment(Kind.BREAK, raw, output=None if mode is previous else raw + mode.value))
        cursor, offset = start, 0
        if attributes:
            inner: Iterable[Fragment] = attributes(place.content)
        elif mode is Mode.HTML:
            inner = _read_html(place.content)
        else:
            inner = _merge(_inline(place.content, token.children or ()))
        for fragment in inner:
            offset += len(fragment.raw)
            end = base + place.source(offset)
            raw = cut(cursor, end)
            is_line = fragment.kind is Kind.LINE and mode is not Mode.HTML
            fragments.append(replace(fragment, raw=raw, output=line_break(raw) if is_line else fragment.output))
            cursor = end
    return [*fragments, Fragment(Kind.BREAK, cut(cursor, len(lines)))]


def _read_html(content: str) -> Iterator[Fragment]:
    """Yield the fragments of an HTML block. Tags on a line of their own become segment boundaries."""
    end = 0
    for fragment in _PARSE_HTML(content):
        start, end = end, end + len(fragment.raw)
        before, after = content[max(start - _MAX_INDENT, 0) : start], content[end : end + _MAX_INDENT]
        is_alone = not before.rpartition("\n")[2].strip() and not after.partition("\n")[0].strip()
        is_tag = fragment.kind in (Kind.OPEN, Kind.CLOSE)
        yield replace(fragment, kind=Kind.BREAK) if is_tag and is_alone else fragment


def _inline(content: str, tokens: Sequence[Token]) -> Iterator[Fragment]:
    """Yield the fragments of inline Markdown. Attributes, such as `{#id}`, are copied unchanged."""
    spans = list(_spans(tokens))
    closed = {token.content: index for index, (token, _, _) in enumerate(spans) if token.content.startswith("</")}
    """The last end tag of each HTML element."""
    has_blocks = _BLOCK_END.search(content) is not None
    has_text = any(token.type == "text" and any(map(str.isalpha, token.content)) for token, _, _ in spans)
    index = link = 0
    has_title = content.startswith("[!") and "\n" not in content[: spans[0][2]]
    while index < len(spans):
        token, start, end = spans[index]
        index += 1
        copied = _COPIED.match(token.content) if token.type == "html_inline" else None
        end_tag = f"</{copied[1]}>" if copied else ""
        if index <= closed.get(end_tag, 0):
            while spans[index][0].content != end_tag:
                index += 1
            end = spans[index][2]
            index += 1
            visible = unescape(re.sub("<[^>]*>", "", content[start:end]))
            yield Fragment(Kind.UNIT, content[start:end], visible)
            continue
        if token.type == "image" and not has_text:
            start, middle = start + 2, start + 2 + len(token.content)
            raw = content[middle:end]
            yield Fragment(Kind.BREAK, "![")
            yield from _inline(token.content, token.children or ())
            yield Fragment(Kind.BREAK, raw, output=label_end(raw, token.content))
            continue
        if token.type == "softbreak":
            around = content[spans[index - 2][1] :], content[end:]
            if has_title or any(each.startswith(_TEMPLATE) for each in around):
                yield Fragment(Kind.BREAK, content[start:end])
                has_title = False
                continue
        link = start if token.type == "link_open" else link
        label = content[link + 1 : start] if token.type == "link_close" else ""
        is_block = token.type == "copied" and has_blocks and _BLOCK_TAG.match(content, start)
        yield Fragment(Kind.BREAK, content[start:end]) if is_block else _fragment(token, content[start:end], label)


def _spans(tokens: Sequence[Token]) -> Iterator[tuple[Token, int, int]]:
    """Yield each inline token with its start and end offset."""
    end = 0
    for token in tokens:
        start = end
        if token.type == "link_open":
            end += 1
        elif "end" in token.meta:
            end = token.meta["end"]
        else:  # strong text has two tokens for each mark, and one of them is an empty text
            end += len(token.markup or token.content)
        if end > start:
            yield token, start, end


def _fragment(token: Token, raw: str, label: str) -> Fragment:
    """Convert a token to a fragment. If the token ends a link, `label` is the content of the link."""
    if token.type in ("text", "text_special"):
        return Fragment(Kind.TEXT, raw, token.content)
    if token.nesting:
        kind = Kind.OPEN if token.nesting > 0 else Kind.CLOSE
        name = token.type.removesuffix("_open").removesuffix("_close")
        output = None
        if token.type == "link_close":
            output = label_end(raw, label)
        elif name not in ("link", "marked"):
            output = mark(raw, is_open=kind is Kind.OPEN)
        return Fragment(kind, raw, key=name + token.markup, output=output, is_link=token.type == "link_open")
    if token.type == "softbreak":
        return Fragment(Kind.LINE, raw, " ")
    if token.type == "html_inline" and not raw.lower().startswith("<br"):
        found = [fragment for fragment in _PARSE_HTML(raw) if fragment.raw]
        return found[0] if len(found) == 1 else Fragment(Kind.UNIT, raw)
    if token.type in ("hardbreak", "start", "html_inline"):
        return Fragment(Kind.BREAK, raw)
    return Fragment(Kind.UNIT, raw, token.content if token.type in ("code_inline", "copied") else "")


def _merge(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Append attributes, such as `{#id}`, to the elements before them, and merge adjacent text fragments."""
    attached = list[Fragment]()
    for fragment in fragments:
        if attached and attached[-1].kind in (Kind.CLOSE, Kind.UNIT) and ATTRIBUTES.fullmatch(fragment.raw):
            last = attached[-1]
            output = None if last.output is None else last.output + fragment.raw
            attached[-1] = replace(last, raw=last.raw + fragment.raw, text=last.text + fragment.text, output=output)
        else:
            attached.append(fragment)
    for kind, group in groupby(attached, lambda fragment: fragment.kind):
        if kind is Kind.TEXT:
            run = list(group)
            yield Fragment(kind, "".join(each.raw for each in run), "".join(each.text for each in run))
        else:
            yield from group


FORMAT: Format = (
    replace(_ATTRIBUTES, parse=partial(parse, attributes=_ATTRIBUTES.parse), finish=finish),
    View(parse, escape, wraps=True, finish=finish),
)
