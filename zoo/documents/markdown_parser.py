"""Parser for Markdown and its common extensions. It records the source positions of all inline text and markup."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, heading, html_block, lheading, paragraph, table
from markdown_it.rules_inline import StateInline, backtick, escape, html_inline, image, link
from markdown_it.token import Token

from zoo.documents.markdown_escapes import Mode

_SPACES = " \t\n\r\f\v"
_EMAIL = r"(?<![^\W_])(?<![.+-])[^\W_][\w.+-]{0,63}@(?:[^\W_]|-)+(?:\.(?:[^\W_]|-)+)+"
_URL_PART = r"[^\s<>()\[\]\\`|]"
_URL = (
    rf"(?<![^\W_])(?<![/.])(?:https?://|ftp://|www\.)(?:{_URL_PART}|\({_URL_PART}*\))*"
    rf"(?:(?![?!.,:;*_~'\"]){_URL_PART}|\({_URL_PART}*\))"
)
_TEXT_END = re.compile(rf"(?<! ) *\n|[!&*<\[\]\\_`~$^:{{]|==|{_URL}|{_EMAIL}")
"""End of plain text: a line break, a character that may begin markup, a URL, or an email address."""
_LINE_BREAK = re.compile(r"( *)\n[ \t]*")
_START = re.compile(r"\[[ xX]\](?=\s)\s*|\[!\w[\w-]*\][+-]?\s*|\[(?:TOC|toc)\]$")
"""Start of a text, if it is copied: the check box of a task, or the type of an alert."""
ATTRIBUTES = re.compile(r"\{[ \t]*[:#.][^{}\n]*\}")
_MATH = (
    r"\$\$(?:[^$\\]|\\.)+\$\$",
    r"(?<![^\W_])\$(?![\s$])(?:[^$\\]|\\.)*(?<![\s\\])\$(?!\$|[^\W_])",
    r"\\\((?:[^\\]|\\(?![()]))+\\\)",
    r"\\\[(?=[^\[\]]*[\^_={])(?:[^\\]|\\(?![\[\]]))+\\\]",
)
_MARKS = (
    *(ATTRIBUTES.pattern, r"\[\^[^\[\]\s]+\]", r"\^\[[^\[\]]*\]", r"\[-?@[^\[\]\n]*\](?![\[(])"),
    r"(?<![^\W_])(?<!:):(?:[+-]1|(?=[\w+-]*[a-z])[\w+-]+):(?!:|[^\W_])",
    r"\{[ \t]*/\*(?:[^*{]|\*(?!/)|\{(?![ \t]*/\*))*+\*/[ \t]*\}",
)
"""Syntax extensions that are not words: attributes, footnotes, citations, names of emoji and MDX comments."""
_WORDS = (
    *(r"\{\{(?:[^{}]|\{(?!\{)|\}(?!\}))*\}\}", r"\{%(?:[^%{]|%(?!\})|\{(?!%))*%\}", r"<%[^%]*%>"),
    *(rf"<(?:[a-zA-Z][a-zA-Z0-9+.-]{{1,31}}:[^\s<>]*|{_EMAIL})>", _URL, _EMAIL),
)
_COPIED = re.compile(
    r"!?\[\[(?:[^\[\]|\n]*\|)?(?P<wiki>[^\[\]\n]+)\]\](?!\()"
    rf"|(?P<marks>{'|'.join(_MARKS)})|(?P<words>{'|'.join(_MATH + _WORDS)})",
    re.DOTALL,
)
_TITLED = re.compile(
    r":{3,}+[ \t]*+(?:\{[^{}]*\}|[\w.+-]*+)[ \t]*+(?:\{[^{}]*\}[ \t]*+)?"
    r"\[?(?P<title>[^\]{}]*+)\]?(?:\{[^{}]*\})?[ \t]*+$"
    r"|(?P<indented>!!!|\?\?\?\+?|===[+!]?)[ \t]++[\w \t-]*+(?:\"(?P<quoted>[^\"]*)\"[ \t]*+)?$"
)
"""First line of a container, with its title. The content of some containers is indented."""
_MARKED = re.compile(r"(?P<mark>==)(?=[^\s=])[^\n]{0,200}?[^\s=]==(?!=)|(?P<raised>~|\^)[^\s~^]{1,30}(?P=raised)(?!~)")
"""Marked text, subscript and superscript."""
_LABEL = re.compile(r"(?:\[\^[^\[\]\s]+\]:|\*\[[^\]]+\]:|[:~](?=[ \t]))[ \t]*")
"""Label of a footnote, an abbreviation or a definition."""


@dataclass(frozen=True, slots=True)
class Place:
    """Mapping from positions in the text of a Markdown block, such as a heading, to positions in the source.

    Attributes:
        content: The text of the block.
        offsets: Start positions, in `content`, of substrings that are contiguous in the source. The first offset is 0.
        positions: Start positions of the same substrings in the source.
    """

    content: str
    offsets: list[int]
    positions: list[int]

    def source(self, offset: int) -> int:
        """Return the source position of the character at `offset` in `content`."""
        index = bisect_right(self.offsets, offset) - 1
        return self.positions[index] + offset - self.offsets[index]


def make_parser() -> MarkdownIt:
    """Create the Markdown parser. For tokens that contain text, `token.meta["place"]` stores source positions."""
    parser = (
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["text_join", "fragments_join", "autolink"])
    )
    block, inline = parser.block.ruler, parser.inline.ruler
    ended = ["paragraph", "reference", "blockquote", "list"]
    for name, rule, place, count in (
        ("paragraph", paragraph, _place_lines, 0),
        ("lheading", lheading, _place_lines, 0),
        ("heading", heading, _place_heading, 3),
        ("table", table, _place_cells, 2),
        ("html_block", html_block, partial(_place_lines, mode=Mode.HTML), 3),
    ):
        block.at(name, _placed(rule, place), {"alt": ended[:count]})
    for name, added in (("math", _math_block), ("titled", _titled), ("labelled", _labelled)):
        block.before("table", name, added, {"alt": ended})
    for name, inline_rule in (("escape", escape), ("backticks", backtick), ("link", link), ("image", image)):
        inline.at(name, _measured(inline_rule))
    inline.at("html_inline", _html)
    inline.at("text", _text)
    inline.at("newline", _measured(_newline))
    inline.before("escape", "copied", _measured(_copied))
    inline.after("copied", "marked", _measured(_marked))
    return parser


_BlockRule = Callable[[StateBlock, int, int, bool], bool]
_InlineRule = Callable[[StateInline, bool], bool]


def _placed(rule: _BlockRule, place: Callable[[StateBlock, Sequence[Token]], None]) -> _BlockRule:
    """Wrap a block rule so that `place` records the source positions of the rule's tokens that contain text."""

    def placed(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        first = len(state.tokens)
        found = rule(state, start, end, silent)
        if found and not silent:
            place(state, [token for token in state.tokens[first:] if token.type in ("inline", "html_block")])
        return found

    return placed


def _set_place(state: StateBlock, token: Token, spans: Sequence[tuple[int, int]], mode: Mode = Mode.TEXT) -> None:
    offsets, length = list[int](), 0
    for start, end in spans:
        offsets.append(length)
        length += end - start
    token.content = "".join(state.src[start:end] for start, end in spans)
    token.meta.update(place=Place(token.content, offsets, [start for start, _ in spans]), mode=mode)


def _stripped(state: StateBlock, start: int, end: int) -> tuple[int, int]:
    text = state.src[start:end]
    start += len(text) - len(text.lstrip(_SPACES))
    return start, max(start, end - (len(text) - len(text.rstrip(_SPACES))))


def _place_lines(state: StateBlock, tokens: Sequence[Token], mode: Mode = Mode.TEXT) -> None:
    for token in tokens:
        first, last = token.map or (0, 0)
        starts = [state.bMarks[line] + state.tShift[line] for line in range(first, last)]
        spans = [(start, state.eMarks[line] + 1) for line, start in enumerate(starts, first)]
        _set_place(state, token, [*spans[:-1], _stripped(state, *spans[-1])], mode)


def _place_heading(state: StateBlock, tokens: Sequence[Token]) -> None:
    for token in tokens:
        line = (token.map or [0])[0]
        start = state.bMarks[line] + state.tShift[line]
        start, _ = _stripped(state, start + len(state.tokens[-1].markup), state.eMarks[line])
        _set_place(state, token, [(start, start + len(token.content))])


def _place_cells(state: StateBlock, tokens: Sequence[Token]) -> None:
    line, cells = -1, iter(list[tuple[int, int]]())
    for token in tokens:
        if token.map and token.map[0] != line:
            line = token.map[0]
            cells = iter(_cells(state, line))
        start, end = next(cells, (state.eMarks[line], state.eMarks[line]))
        pipes = [match.start() for match in re.finditer(r"\\\|", state.src[start:end])]
        place = Place(token.content, [0], [start])
        for number, pipe in enumerate(pipes):
            place.offsets.extend((pipe - number, pipe - number + 1))
            place.positions.extend((start + pipe, start + pipe + 2))
        token.meta.update(place=place, mode=Mode.CELL)


def _cells(state: StateBlock, line: int) -> list[tuple[int, int]]:
    """Return the start and end position of each cell in a table row."""
    start, end = _stripped(state, state.bMarks[line] + state.tShift[line], state.eMarks[line])
    bars = [start - 1, *(start + bar.start() for bar in re.finditer(r"(?<!\\)\|", state.src[start:end])), end]
    spans = [(one + 1, other) for one, other in pairwise(bars)]
    spans = spans[spans[0][0] == spans[0][1] :]
    if spans and spans[-1][0] == spans[-1][1]:
        spans.pop()
    return [_stripped(state, *span) for span in spans]


def _line(state: StateBlock, line: int) -> tuple[int, str]:
    """Return the position after the indentation of a line, and the text of the line from that position."""
    start = state.bMarks[line] + state.tShift[line]
    return start, state.src[start : state.eMarks[line]]


def _math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Skip a display formula, delimited by `$$` or escaped square brackets, so that it is copied unchanged."""
    first = _line(state, start)[1].rstrip()
    mark = "$$" if first.startswith("$$") else "\\]" if first == "\\[" else ""
    is_whole = len(first) > 3 and first.endswith(mark)
    is_text = mark in first[2:] and not is_whole
    if not mark or is_text or state.is_code_block(start) or f"no {mark} {end}" in state.env:
        return False
    lines = range(start if is_whole else start + 1, end)
    last = next((line for line in lines if _line(state, line)[1].rstrip().endswith(mark)), None)
    if last is None:
        state.env[f"no {mark} {end}"] = True  # do not search for the end again at later lines
    elif not silent:
        state.line = last + 1
    return last is not None


def _titled(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the first or last line of a container, such as `::: note`. Also parse the content if it is indented."""
    position, line = _line(state, start)
    match = _TITLED.match(line) if line[:3] in (":::", "!!!", "???", "===") else None
    if match is None or state.is_code_block(start):
        return False
    if not silent:
        state.line = start + 1
        group = "title" if match["title"] else "quoted"
        if match[group]:
            token = state.push("inline", "", 0)
            token.map, token.children = [start, start + 1], []
            span = _stripped(state, position + match.start(group), position + match.end(group))
            _set_place(state, token, [span], Mode.QUOTED if group == "quoted" else Mode.TEXT)
        if match["indented"]:
            _read_indented(state, start + 1, end)
    return True


def _labelled(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a footnote, an abbreviation or a definition. Its content follows the label and is indented."""
    line = _line(state, start)[1]
    match = _LABEL.match(line) if line[:1] in ("[", "*", ":", "~") else None
    if match is None or state.is_code_block(start):
        return False
    if not silent:
        shift, indent = state.tShift[start], state.sCount[start]
        state.line = start + 1
        state.tShift[start] += match.end()
        state.sCount[start] = state.blkIndent + 4
        _read_indented(state, start, end)
        state.tShift[start], state.sCount[start] = shift, indent
    return True


def _read_indented(state: StateBlock, start: int, end: int) -> None:
    """Parse the blocks that are indented by four columns."""
    state.push("container_open", "", 1)
    state.blkIndent += 4
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= 4
    state.push("container_close", "", -1)


def _measured(rule: _InlineRule) -> _InlineRule:
    """Wrap an inline rule so that it also records the end position of its last token."""

    def measured(state: StateInline, silent: bool) -> bool:
        count = len(state.tokens)
        found = rule(state, silent)
        if found and len(state.tokens) > count:
            state.tokens[-1].meta["end"] = state.pos
        return found

    return measured


def _text(state: StateInline, silent: bool) -> bool:
    start, match = state.pos, _TEXT_END.search(state.src, state.pos, state.posMax)
    state.pos = match.start() if match else state.posMax
    if state.pos > start and not silent:
        state.push("text", "", 0).content = state.src[start : state.pos]
    return state.pos > start


def _html(state: StateInline, silent: bool) -> bool:
    """Parse an HTML tag or comment.

    Unlike markdown-it's own rule, reject a tag that starts inside a Markdown element, such as highlighted text, and
    ends outside this element.
    """
    start = state.pos
    is_inside = html_inline(state, True) and state.pos <= state.posMax
    state.pos = start
    return is_inside and html_inline(state, silent)


def _newline(state: StateInline, silent: bool) -> bool:
    match = _LINE_BREAK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("hardbreak" if len(match[1]) > 1 else "softbreak", "br", 0)
    state.pos = match.end()
    return True


def _copied(state: StateInline, silent: bool) -> bool:
    start = _START.match(state.src, 0, state.posMax) if state.pos == 0 else None
    match = start or _COPIED.match(state.src, state.pos, state.posMax)
    if match is None or (silent and state.src[state.pos] == "["):  # brackets in a link's text do not end the link
        return False
    if not silent:
        token = state.push("start" if start else "copied", "", 0)
        if start is None:
            token.content = match["wiki"] or (match["words"] or "").strip("<>")
    state.pos = match.end()
    return True


def _marked(state: StateInline, silent: bool) -> bool:
    match = _MARKED.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        mark, end = match["mark"] or match["raised"], state.posMax
        state.push("marked_open", "mark", 1).markup = mark
        state.pos, state.posMax = state.pos + len(mark), match.end() - len(mark)
        state.md.inline.tokenize(state)
        state.push("marked_close", "mark", -1).markup = mark
        state.posMax = end
    state.pos = match.end()
    return True
