"""Template code in HTML. It is copied, and divides the text or stands for a word of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

from zoo.documents.fragments import Fragment, Kind, unescape
from zoo.documents.segments import PLACEHOLDER

CODE = (
    r"(?s:\{\{(?:(?!\{\{|\}\}|</?[a-zA-Z]).)*+\}\}\}?+|\{%(?:(?!\{%|%\}|</?[a-zA-Z]).)*+%\}"
    r"|\{#(?:(?!\{#|#\}|</(?:p|h[1-6]|li|td|th|div|code|pre|kbd|samp|body)\b).)*+#\}|<%(?:(?!<%|%>).)*+%>|<\?(?:php|=)(?:(?!<\?|\?>).)*+\?>)"
)
"""Template code in HTML, as in Jinja, Handlebars, ERB and PHP."""
_SEPARATOR = r"(?<=</a>)(?:\s|&nbsp;)*+[|·•](?:\s|&nbsp;)*+\Z"
HTML_CODE = re.compile(
    rf"(?P<alone>^[ \t]*+(?:{CODE}[ \t]*+)++(?=\r?\n))|(?P<between>{_SEPARATOR})|{CODE}", re.MULTILINE
)
"""Template code, or a separator between two links. Code in a line of its own is in the group `alone`."""
XML_CODE = re.compile(r"&[a-zA-Z_][\w.-]*+;")
"""Entity. If HTML does not define it, the document does."""
_DIVIDING = re.compile(r"\{[%#]|\{\{\{?\s*(?:[#/^!]|else\b)|<%(?![=-])|<\?php\s+(?:\}|else|end)|(?s:<\?.*[:{]\s*\?>)")
"""Template code that divides text, such as a condition or a comment."""
_VARIABLE = re.compile(r'\{\{(?!\s*(?:[#/^!]|else\b))[^{}<>&"]*+\}\}')
"""Template code that stays in the text, because the translator keeps such placeholders."""


def has_only_variables(text: str) -> bool:
    """Return whether all template code in the text is variables, which stay in the text."""
    return all(_VARIABLE.fullmatch(code[0]) for code in HTML_CODE.finditer(text))


def split_code(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, Fragment]]:
    """Split `text[start:end]` into text and template code. Yield the position and the fragment of each part.

    Code on a line of its own, and code such as `{% if %}`, is a BREAK. Other code is a UNIT in the sentence around it.
    """
    for code in pattern.finditer(text, start, end):
        is_last = code.lastgroup == "between" and not text.startswith("<a", code.end())  # no link follows
        if is_last or code[0][1:] in html5 or _VARIABLE.fullmatch(code[0].strip()):
            continue
        if start < code.start():
            yield start, Fragment(Kind.TEXT, text[start : code.start()], unescape(text[start : code.start()]))
        continues = text[max(start, code.start() - 50) : code.start()].rstrip()[-1:].isalnum()
        is_alone = code.lastgroup == "between" or (code.lastgroup and not continues)
        kind = Kind.BREAK if is_alone or _DIVIDING.match(code[0].lstrip()) else Kind.UNIT
        yield code.start(), Fragment(kind, code[0], PLACEHOLDER if kind is Kind.UNIT else "")
        start = code.end()
    if start < end:
        yield start, Fragment(Kind.TEXT, text[start:end], unescape(text[start:end]))
