"""Escapes in Markdown. They depend on the surrounding text, so they are written when the document is complete.

Until then, lone surrogates mark their positions. No document contains lone surrogates, because UTF-8 cannot represent
them.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

_ESCAPE, _OPEN, _CLOSE, _LABEL, _LABEL_END, _LINE = "\ud800", "\ud801", "\ud802", "\ud803", "\ud804", "\ud809"


_MARKERS = "".join(map(chr, range(0xD800, 0xD80A)))


class Mode(Enum):
    """Type of Markdown block, which determines the characters to escape. The value is the marker before the block."""

    TEXT = chr(0xD805)
    CELL = chr(0xD806)
    HTML = chr(0xD807)
    QUOTED = chr(0xD808)


_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_ESCAPED = re.compile(r"((?!!\[)[!-/:-@\[-`{-~])")
_MARK = re.compile(f"([{_OPEN}{_CLOSE}](?:\\*\\*?|__?|~~))")
_LABELLED = re.compile(rf"(?:\[([^\[\]{_LABEL}]*+))?{_LABEL}([^{_LABEL}]*){_LABEL}([^{_LABEL_END}]*){_LABEL_END}")
_LINES = re.compile(
    rf"((?<![^\r\n])[ \t>]*+)?(?:{_LINE}(?P<line>[^{_LINE}]*){_LINE}[ \t]*)+"
    r"(?:(?P<end>(?=[\r\n]|\Z))|(?P<html>(?=<[!?])))?"
)
_MARKER = re.compile(f"[{_MARKERS}]")
_SPACES = re.compile(r"(?<!\s)[ \t]{2,}(?!\s)")
_ENTITIES = {Mode.HTML: {"<": "&lt;", "&": "&amp;"}, Mode.QUOTED: {'"': "&quot;"}}
_LAST_LINE = re.compile(r"[\r\n][ \t>]*\Z")
"""Line break at the end of a text, with the start of the next line, such as `>` in a block quote."""
_MAX_INDENT = 200
_MAX_MOVED = 10
"""Maximum number of characters by which a delimiter is moved."""
_MOVABLE = rf"(?:{_ESCAPE}.|\s|[^\x00-\x7f{_MARKERS}])"
_FIRST, _LAST = re.compile(rf"[\r\n][ \t>]*|{_MOVABLE}"), re.compile(_MOVABLE + r"\Z")
_TAGS = {"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del"}
_LINE_START = re.compile(
    r"(?:[ \t>]|[-+*:][ \t]|\d{1,9}[.)][ \t]|\[[ xX]\][ \t]|\[\^[^\[\]\s]+\]:[ \t]|\[![\w-]+\])*+(\d{1,9})?+"
)
"""Start of a line up to its text, or up to the punctuation mark after its number."""
_ENTITY = re.compile(r"&(?:#[xX]?[0-9a-fA-F]+|\w+);")
_BEGINS_BLOCK = re.compile(r"(?:#{1,6}|[-+*])(?:\s|$)|-[-|: \t]*$|=+[ \t]*$|:(?:\s|::|-|$)|[>|]", re.MULTILINE)
"""Text at the start of a line that would begin a block, or underline a heading."""


def escape(text: str) -> str:
    """Put a marker before each character that may need to be escaped."""
    return _ESCAPED.sub(rf"{_ESCAPE}\1", _SPACES.sub(" ", text))


def mark(raw: str, *, is_open: bool) -> str:
    """Return a delimiter, such as `**`, preceded by a marker for the start or end of an element."""
    return (_OPEN if is_open else _CLOSE) + raw


def line_break(raw: str) -> str:
    """Enclose a line break in markers, so that `finish` can remove it at the start or end of a line."""
    return f"{_LINE}{raw}{_LINE}"


def label_end(raw: str, label: str) -> str | None:
    """Return the end of a reference link without a label, such as `[x]` or `[x][]`. Return None for other links.

    The result contains markers and `label`, the original text of the link. If translation changes the text, `finish`
    adds the label, as in `[y][x]`.
    """
    if raw not in ("]", "][]"):
        return None
    written = " ".join(label.split()).replace("|", f"{_ESCAPE}|")
    return f"{_LABEL}{raw}{_LABEL}][{written}]{_LABEL_END}"


def finish(text: str) -> str:
    """Replace the markers in a translated document with the escapes and other syntax that the document needs."""
    if not _MARKER.search(text):
        return text
    text = _LINES.sub(_write_line, _LABELLED.sub(_write_label, text))
    return _write_escapes(_place_delimiters(text))


def _write_line(match: re.Match[str]) -> str:
    """Return the Markdown line break that replaces a sequence of marked line breaks.

    At the start or end of a line of text, or before a comment, the sequence is removed.
    """
    if match["html"] is not None:
        return (match[1] or "") + " "
    return match[1] or "" if match[1] is not None or match["end"] is not None else match["line"]


def _write_label(match: re.Match[str]) -> str:
    text, raw, label = match[1], match[2], match[3]
    if text is None:
        return label
    is_same = _MARKER.sub("", f"][{text}]") == _MARKER.sub("", label)
    return f"[{text}{raw if is_same else label}"


def _place_delimiters(text: str) -> str:
    """Move delimiters, such as `**`, next to letters, so that they open and close elements.

    If this is not possible, replace the delimiters with HTML tags.
    """
    parts = _MARK.split(text)
    opened, pairs = list[int](), list[tuple[int, int]]()
    for index in range(1, len(parts), 2):
        if parts[index][0] == _OPEN:
            opened.append(index)
        elif opened:
            start = opened.pop()
            if any(parts[start + 1 : index]):
                pairs.append((start, index))
            else:  # no words are in the element
                parts[start] = parts[index] = ""
    for start, end in pairs:
        _move_in(parts, start, end)
        _move_in(parts, end, start)
    for start, end in sorted(pairs):
        delimiter = parts[start][1:]
        if delimiter[0] == "_" and (_side(parts, start, -1).isalnum() or _side(parts, end, 1).isalnum()):
            delimiter = "*" * len(delimiter)
            parts[start], parts[end] = _OPEN + delimiter, _CLOSE + delimiter
        before = parts[start - 2] if start > 1 and not parts[start - 1] else ""
        is_run = before.startswith(_CLOSE) and before[1] == delimiter[0]
        if is_run or not (_is_flanking(parts, start, 1) and _is_flanking(parts, end, -1)):
            parts[start], parts[end] = f"<{_TAGS[delimiter]}>", f"</{_TAGS[delimiter]}>"
    return "".join(part[1:] if index % 2 and part[:1] != "<" else part for index, part in enumerate(parts))


def _side(parts: list[str], index: int, step: int) -> str:
    """Return the character after the run of delimiters at `parts[index]` (`step=1`), or before the run (`step=-1`)."""
    position = index + step
    while 0 <= position < len(parts):
        part = parts[position] if position % 2 else parts[position].strip(_MARKERS)
        if position % 2 and part and part[1:2] != parts[index][1:2]:
            return "*" if part[0] in (_OPEN, _CLOSE) else "<"
        if position % 2 == 0 and part:
            return part[0] if step > 0 else part[-1]
        position += step
    return "\n"


def _is_flanking(parts: list[str], index: int, step: int) -> bool:
    """Return whether the delimiter `parts[index]` can open an element (`step=1`) or close an element (`step=-1`)."""
    inside, outside = _side(parts, index, step), _side(parts, index, -step)
    return not inside.isspace() and (not _is_punctuation(inside) or outside.isspace() or _is_punctuation(outside))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _move_in(parts: list[str], index: int, partner: int) -> None:
    """Move punctuation and spaces out of an element, until its delimiter can open or close the element.

    Args:
        parts: Text and delimiters in alternation. The list is changed in place.
        index: Index of the delimiter.
        partner: Index of the delimiter at the other end of the element.
    """
    step = 1 if partner > index else -1
    for _ in range(_MAX_MOVED):
        inner = parts[index + step]
        match = _FIRST.match(inner) if step > 0 else _LAST_LINE.search(inner[-_MAX_INDENT:]) or _LAST.search(inner[-2:])
        is_whole = match is not None and match[0] == inner and index + 2 * step == partner
        if match is None or is_whole or _is_flanking(parts, index, step):
            return
        moved, outer = match[0], parts[index - step]
        parts[index + step] = inner[len(moved) :] if step > 0 else inner[: -len(moved)]
        parts[index - step] = outer + moved if step > 0 else moved + outer


def _write_escapes(text: str) -> str:
    markers = list(_MARKER.finditer(text))
    clean = _MARKER.sub("", text)
    lines = clean.replace("\r", "\n")
    positions = [marker.start() - index for index, marker in enumerate(markers)]
    output, mode, line, end = list[str](), Mode.TEXT, 0, 0
    for marker, position in zip(markers, positions, strict=True):
        line = max(line, lines.rfind("\n", end, position) + 1)
        output.append(clean[end:position])
        end = position
        if marker[0] != _ESCAPE:
            mode = Mode(marker[0])
        elif clean[position] in _ENTITIES.get(mode, {}):
            output.append(_ENTITIES[mode][clean[position]])
            end += 1
        elif mode is Mode.HTML:
            continue
        elif _is_special(lines, position, line, in_cell=mode is Mode.CELL):
            output.append("\\")
    return "".join((*output, clean[end:]))


def _is_special(text: str, position: int, line: int, *, in_cell: bool) -> bool:
    """Return whether the character at `position` would be read as markup. Its line starts at index `line`."""
    character = text[position]
    before, after = text[position - 1 : position] or "\n", text[position + 1 : position + 2] or "\n"
    start = _LINE_START.match(text, line, position)
    if start is not None and start.end() == position:
        if start[1]:
            return character in ".)" and after.isspace()
        if _BEGINS_BLOCK.match(text, position):
            return True
    match character:
        case "`" | "[" | "]":
            return True
        case "\\":
            return after == "\n" or _PUNCTUATION.match(after) is not None
        case "*":
            return not (before.isspace() and after.isspace())
        case "_":
            return not (before.isalnum() and after.isalnum()) and not (before.isspace() and after.isspace())
        case "~":
            return "~" in (before, after)
        case "<":
            return after.isalpha() or after in "/!?"
        case "&":
            return _ENTITY.match(text, position) is not None
        case "!":
            return after == "["
        case "#":
            return before.isspace() and re.compile(r"#*\s*$", re.MULTILINE).match(text, position) is not None
        case "|":
            return in_cell
    return False
