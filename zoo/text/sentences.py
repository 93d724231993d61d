"""Texts as a translator takes them: one line each, and the sentences of a line."""

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from specs import ZooError

LONGEST_TEXT = 1_000_000
"""Characters of a line: no sentence is as long, and to find out that one of more is too long takes a while."""
LONGEST_WORD = 100_000
"""Characters without a space: the time to find the tokens of more grows with their square."""


def sentences(texts: Iterable[str], *, first: int = 1, called: str = "text") -> list[str]:
    """The texts as a list. Raises TypeError for what is not text, ZooError for what is not one line.

    Errors call the texts so, and the first one by that number.
    """
    several = list(texts)
    for number, text in enumerate(several, start=first):
        _check(text, number, called)
    return several


def sentences_of(text: str) -> list[str]:
    """The sentences of a line, as far as their marks tell: a text that ends in one, or that has none, is one."""
    begin, found = 0, []
    for space in _SPACE.finditer(text):
        before = text[max(begin, space.start() - _CLOSERS) : space.start()].rstrip(_CLOSING)
        if before.endswith(_ENDS):
            found.append(text[begin : space.start()])
            begin = space.end()
    rest = text[begin:]
    return found if found and not rest.strip() else [*found, rest]


def pairs(sources: Iterable[str], targets: Iterable[str], *, first: int = 1) -> tuple[list[str], list[str]]:
    """Sources and their translations. Raises ZooError unless there are as many of the one as of the other.

    Errors call the first pair by that number.
    """
    left = sentences(sources, first=first, called="source")
    right = sentences(targets, first=first, called="target")
    if len(left) != len(right):
        raise ZooError(
            f"there are {len(left):,} sources and {len(right):,} targets",
            hint="line n of the targets translates line n of the sources: both need as many lines",
        )
    return left, right


def with_prefixes(texts: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    """Each text with what its translation must start with. Raises ZooError where there are not as many of both."""
    if prefixes is None:
        yield from ((text, "") for text in texts)
        return
    both: Iterator[tuple[str | _End, str | _End]] = zip_longest(texts, prefixes, fillvalue=_End())
    for number, (text, prefix) in enumerate(both):
        if isinstance(text, _End) or isinstance(prefix, _End):
            fewer, more = ("texts", "prefixes") if isinstance(text, _End) else ("prefixes", "texts")
            raise ZooError(
                f"there are {number:,} {fewer}, and more {more}",
                hint="line n of the prefixes begins the translation of line n: both need as many lines",
            )
        yield text, prefix


def shown(text: str, width: int = 40) -> str:
    """The beginning of a text, to tell it from others in a message."""
    return repr(text if len(text) <= width else text[: width - 3] + "...")


_SPACE = re.compile(r"\s+|(?<=[。！？])(?![」』”）])|(?<=[。！？][」』”）])")
_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CLOSING, _CLOSERS = "\"'”’“‘»«›‹)]」』）", 4
"""What may stand behind such a mark, and how many of them with it are looked at."""


def require_length(text: str, called: str) -> None:
    """Raises ZooError, calling it so, for a text of more characters than may be, or with a word of more."""
    if len(text) <= LONGEST_WORD:
        return
    if len(text) > LONGEST_TEXT:
        problem = f"{called} ({shown(text)}) has {len(text):,} characters, and {LONGEST_TEXT:,} are the most"
        raise ZooError(problem, hint="a sentence a line: break it where its sentences end")
    if (most := max(map(len, text.split()), default=0)) > LONGEST_WORD:
        problem = f"{called} ({shown(text)}) has a word of {most:,} characters, and {LONGEST_WORD:,} are the most"
        raise ZooError(problem, hint="to find its tokens would take minutes: break it, or leave it out")


class _End:
    """Stands for what is no longer there: None may be given by mistake."""


def _check(text: object, number: int, called: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{called} {number} is a {type(text).__name__}: give a str, or a list of them")
    if "\n" in text.strip():
        raise ZooError(
            f"{called} {number} ({shown(text)}) has a line break in it",
            hint="a sentence is one line: split the text, or replace its line breaks with spaces",
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ZooError(
            f"{called} {number} ({shown(text)}) is not Unicode text: half of a surrogate pair is in it",
            hint="read the file as UTF-8, with errors='strict'",
        )
    require_length(text, f"{called} {number:,}")
