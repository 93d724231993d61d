"""Functions that check input texts, and split lines into sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from sentencex import segment

from specs import ZooError
from zoo.text.span_patterns import patterns_of

MAX_TEXT_LENGTH = 1_000_000
"""Maximum number of characters per line. Longer lines are rejected, because tokenising them is slow."""
MAX_WORD_LENGTH = 100_000
"""Maximum number of characters per word. The time to tokenise a word grows with the square of its length."""

_LONGEST_TITLE = 16
"""Maximum length of a title and the white space after it, in characters."""

FILE = "file"
"""Label for texts that are file names."""
_LANGUAGE_TOKENS = re.compile(r"(\s*(>>[^\s<>]+<<|<2[^\s<>]+>)\s)*")


def checked_texts(texts: Iterable[str], *, first: int = 1, label: str = "text") -> list[str]:
    """Check that each text is one line of valid Unicode. Return the texts as a list.

    Args:
        texts: Texts to check.
        first: Number of the first text, for error messages.
        label: Word for a text in error messages, such as "source".

    Raises:
        TypeError: `texts` is not an iterable, or is a single string, or an item is not a string.
        ZooError: A text has a line break, is too long, or is not valid Unicode.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"`{label}s` is {texts!r:.60}: pass a list of strings")
    checked = list(texts)
    for number, text in enumerate(checked, start=first):
        check_text(text, number, label)
    return checked


def check_text(text: object, number: int, label: str) -> None:
    """Check that a text is one line of valid Unicode, and not too long.

    Args:
        text: Text to check. If the label is FILE, the text is a file name.
        number: Number of the text, for error messages.
        label: Word for the text in error messages, such as "source".

    Raises:
        TypeError: The text is not a string.
        ZooError: The text has a line break, is too long, or is not valid Unicode.
    """
    if not isinstance(text, str):
        raise TypeError(f"{label} {number} is a {type(text).__name__}: pass a str or a list of str")
    rename = "rename the file" if label == FILE else None
    if "\n" in text.strip():
        hint = rename or "split the text into sentences, or replace its line breaks with spaces"
        raise ZooError(f"{label} {number} ({excerpt(text)}) contains a line break", hint=hint)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        problem = f"{label} {number} ({excerpt(text)}) is not valid Unicode: it contains half of a surrogate pair"
        raise ZooError(problem, hint=rename or "read the file as UTF-8 with errors='strict'")
    check_length(text, f"{label} {number:,}")


def checked_pairs(sources: Iterable[str], targets: Iterable[str], *, first: int = 1) -> tuple[list[str], list[str]]:
    """Check sources and targets as `checked_texts` does. Return a list of sources and a list of targets.

    Args:
        sources: Source sentences.
        targets: Translations of the source sentences.
        first: Number of the first pair in error messages.

    Raises:
        ZooError: A text is not valid, or the numbers of sources and targets differ.
    """
    checked = checked_texts(sources, first=first, label="source"), checked_texts(targets, first=first, label="target")
    check_same_length(*checked, ("sources", "targets"))
    return checked


def check_same_length(first: Sequence[str], second: Sequence[str], names: tuple[str, str]) -> None:
    """Raise ZooError if two parallel lists have different lengths. `names` are the names of the lists in the error."""
    if len(first) != len(second):
        hint = "pass the same number of texts in both lists, in the same order; in a file, each line is one text"
        raise ZooError(f"the numbers of {' and '.join(names)} differ: {len(first):,} and {len(second):,}", hint=hint)


def zip_prefixes(texts: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    """Yield each text with the prefix that its translation must start with.

    Args:
        texts: Source texts.
        prefixes: One prefix per text, or None for no prefixes.

    Raises:
        ZooError: The numbers of texts and prefixes differ.
    """
    if prefixes is None:
        yield from ((text, "") for text in texts)
        return
    end: Any = object()  # None could be passed by mistake
    for number, (text, prefix) in enumerate(zip_longest(texts, prefixes, fillvalue=end)):
        if text is end or prefix is end:
            fewer, more = ("texts", "prefixes") if text is end else ("prefixes", "texts")
            hint = "pass one prefix for each text: the beginning of its translation, or an empty string"
            raise ZooError(f"there are more {more} than {fewer} (number of {fewer}: {number:,})", hint=hint)
        yield text, prefix


def split_sentences(text: str, language: str) -> list[str]:
    """Split a line into sentences, using the abbreviations and final punctuation marks of the language.

    Args:
        text: Line to split.
        language: Language code. For an unknown language, the rules for English are used.

    Returns:
        The sentences, including the white space around them, so joining them restores the line. A sentence without
        letters and digits is merged with a neighbouring sentence. These dots do not end a sentence: a dot directly
        before a capital letter or an ordinal indicator (º, ª), a dot after a title such as "Ms.", and the dot of a
        German ordinal, as in "im 3. Stock".
    """
    sentences: list[str] = []
    patterns = patterns_of(language)
    for sentence in segment(language, text):
        last = sentences[-1] if sentences else ""
        # The dot in `Math.Round` or `n.º` does not end a sentence.
        is_inside_word = last.endswith(".") and (sentence[0].isupper() or sentence[0] in "ºª")
        has_title = patterns.ends_with_title.search(last[-_LONGEST_TITLE:])
        has_ordinal = patterns.ordinal.match(last + sentence, max(len(last) - len("1. "), 0))
        if last and (is_inside_word or has_title or has_ordinal or not (_has_word(last) and _has_word(sentence))):
            sentences[-1] += sentence
        else:
            sentences.append(sentence)
    return sentences or [text]


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def language_tokens(text: str) -> str:
    """Return the language tokens at the beginning of a line, such as `>>deu<< ` or `<2de> `. The result may be ""."""
    match = _LANGUAGE_TOKENS.match(text)
    return match[0] if match else ""


def excerpt(text: str) -> str:
    """Quote the first 40 characters of a text, to identify the text in a message."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def check_length(text: str, label: str) -> None:
    """Check that a text and its words are not too long.

    Args:
        text: Text to check.
        label: Description of the text in error messages, such as "source 3".

    Raises:
        ZooError: The text exceeds MAX_TEXT_LENGTH, or one of its words exceeds MAX_WORD_LENGTH.
    """
    if len(text) <= MAX_WORD_LENGTH:
        return
    if len(text) > MAX_TEXT_LENGTH:
        problem = f"{label} ({excerpt(text)}) has {len(text):,} characters; the maximum is {MAX_TEXT_LENGTH:,}"
        raise ZooError(problem, hint="write one sentence per line: split the text at sentence boundaries")
    if (longest := max(map(len, text.split()), default=0)) > MAX_WORD_LENGTH:
        problem = f"{label} ({excerpt(text)}) has a word of {longest:,} characters; the maximum is {MAX_WORD_LENGTH:,}"
        raise ZooError(problem, hint="split the word, or remove it: tokenising it would take minutes")
