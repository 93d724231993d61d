"""Texts as a translator takes them: one line each."""

from collections.abc import Iterable

from specs import ZooError


def sentences(texts: Iterable[str]) -> list[str]:
    """The texts as a list. Raises TypeError for what is not text, ZooError for what is not one line."""
    several = list(texts)
    for number, text in enumerate(several, start=1):
        _check(text, number)
    return several


def pairs(sources: Iterable[str], targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Sources and their translations. Raises ZooError unless there are as many of the one as of the other."""
    left, right = sentences(sources), sentences(targets)
    if len(left) != len(right):
        raise ZooError(
            f"there are {len(left):,} sources and {len(right):,} targets",
            hint="line n of the targets translates line n of the sources: both need as many lines",
        )
    return left, right


def shown(text: str, width: int = 40) -> str:
    """The beginning of a text, to tell it from others in a message."""
    return repr(text if len(text) <= width else text[: width - 3] + "...")


def _check(text: object, number: int) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text {number} is a {type(text).__name__}: give a str, or a list of them")
    if "\n" in text.strip():
        raise ZooError(
            f"text {number} ({shown(text)}) has a line break in it",
            hint="a sentence is one line: split the text, or replace its line breaks with spaces",
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ZooError(
            f"text {number} ({shown(text)}) is not Unicode text: half of a surrogate pair is in it",
            hint="read the file as UTF-8, with errors='strict'",
        )
