"""Copy symbols: tokens that stand for the numbers, links and the like of a sentence, which its translation copies.

A model whose vocabulary has copy symbols reads and writes them in place of the spans, in training and in use. After the
search, the spans replace them, in the notation of the target language (Luong et al. 2015 do the same for unknown
words). A symbol is one character of a private use area, so that SentencePiece never joins it with other characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from zoo.text.spans import Span, find_spans, match_spans

MAX_SYMBOLS = 64
_FIRST = 0xF0000
_SYMBOL = re.compile(rf"([{chr(_FIRST)}-{chr(_FIRST + MAX_SYMBOLS - 1)}])( Uhr|\.)?")
"""A symbol. Both the model and a spelling may write the ending of a German time or ordinal number."""
_WORD = re.compile(r"[^\W\d_]+")
_SHORT_WORD = 5
"""Single words in capitals with fewer letters are abbreviations."""


class Replaced(NamedTuple):
    """Text with copy symbols, and the span that each symbol stands for."""

    text: str
    spans: Mapping[str, Span] = {}

    def original_positions(self) -> list[int]:
        """Return the position in the original text of each character of `text`, and that of the end."""
        lengths = (len(self.spans[each].text) if each in self.spans else 1 for each in self.text)
        return [0, *accumulate(lengths)]


def copy_symbols(count: int) -> tuple[str, ...]:
    """Return the first `count` copy symbols."""
    return tuple(chr(_FIRST + number) for number in range(count))


def replace_spans(text: str, symbols: Sequence[str], source: str, target: str) -> Replaced:
    """Return a sentence with copy symbols in place of its first spans, and without capitals if it has only these.

    Args:
        text: The sentence.
        symbols: The copy symbols of the vocabulary, which limit the number of replaced spans.
        source: Code of the language of the sentence.
        target: Code of the language of the translation, for the spellings.
    """
    if not symbols or has_symbol(text):  # a symbol that is already in the text is dropped
        return Replaced(text)
    found = find_spans(text, source, target)
    if in_capitals(text):
        text = sentence_case(text)
        for span in found:
            if span.is_name:
                text = text[: span.start] + span.text.capitalize() + text[span.end :]
    return _replace(text, dict(zip(symbols, filter(_is_copied, found), strict=False)))


def in_capitals(text: str) -> bool:
    """Return whether a text is in capitals, as headings and signs are. Abbreviations, such as HTML, are not."""
    words = _WORD.findall(text)
    longest = max(map(len, words), default=0)
    return text.upper() == text and longest >= (_SHORT_WORD if len(words) == 1 else _SHORT_WORD - 1)


def sentence_case(text: str) -> str:
    """Return a text whose letters after the first one are lower-case. Its length does not change."""
    first = _WORD.search(text)
    end = first.start() + 1 if first else 0
    lower = text[:end] + text[end:].lower()
    return lower if len(lower) == len(text) else text


def replace_in_pair(
    source: str, target: str, symbols: Sequence[str], languages: tuple[str, str], first: int = 0
) -> tuple[Replaced, Replaced]:
    """Return a sentence and its translation with the same copy symbols in place of the spans that both have.

    Args:
        source: The sentence.
        target: Its translation.
        symbols: The copy symbols of the vocabulary.
        languages: Codes of the languages of both.
        first: Number of the first symbol. In training it varies, so that a model learns all symbols.
    """
    if not symbols or has_symbol(source + target):
        return Replaced(source), Replaced(target)
    first %= len(symbols)
    found, others = (
        list(filter(_is_copied, find_spans(text, language)))
        for text, language in zip((source, target), languages, strict=True)
    )
    matches = match_spans(found, others, lambda span: [(reading, span.unit) for reading in span.readings])
    pairs = dict(zip([*symbols[first:], *symbols[:first]], matches, strict=False))
    of_source, of_target = ({symbol: pair[side] for symbol, pair in pairs.items()} for side in (0, 1))
    return _replace(source, of_source), _replace(target, of_target)


def restore(translation: str, spans: Mapping[str, Span], *, capitals: bool = False) -> str:
    """Return a translation with the spelling of the spans in place of their symbols. Other symbols are dropped.

    If `capitals` is true, all other letters become capitals, as in the source.
    """

    def spell(match: re.Match[str]) -> str:
        span, ending = spans.get(match[1]), match[2] or ""
        spelling = span.spellings[0] if span else ""
        return spelling if spelling.endswith(ending) else spelling + ending

    return _SYMBOL.sub(spell, translation.upper() if capitals else translation).strip()


def symbol_span(symbol: str) -> Span:
    """Return a copy symbol as a span, which a `SpanConstraint` can require."""
    return Span(0, symbol, frozenset([symbol]), numeric=False, spellings=(symbol,))


def has_symbol(text: str) -> bool:
    """Return whether a text contains a copy symbol."""
    return _SYMBOL.search(text) is not None


def _is_copied(span: Span) -> bool:
    """Return whether a symbol replaces a span. Names and small numbers, which may become words, are translated."""
    is_time = any(reading.startswith("time") for reading in span.readings)
    return not span.is_name and (span.small < 0 or bool(span.unit) or is_time)


def _replace(text: str, spans: Mapping[str, Span]) -> Replaced:
    parts, end = list[str](), 0
    for symbol, span in sorted(spans.items(), key=lambda item: item[1].start):
        parts += text[end : span.start], symbol
        end = span.end
    return Replaced("".join([*parts, text[end:]]), spans)
