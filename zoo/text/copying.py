"""Copy symbols: tokens that replace spans, such as numbers and links, which a translation copies from its source.

A model whose vocabulary has copy symbols reads and writes symbols instead of the spans, in training and in inference.
After the search, each symbol is replaced with its span in the notation of the target language. Luong et al. (2015) do
the same for unknown words. A symbol is one character of a private use area, so that SentencePiece never joins it with
other characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from zoo.text.language_codes import base_language
from zoo.text.notation import notation_of
from zoo.text.span_kinds import CalendarSpan, LiteralSpan, Span, match_spans
from zoo.text.spans import find_names, find_spans, never

MAX_SYMBOLS = 64
_FIRST = 0xF0000
_SYMBOL = re.compile(rf"((?<!\w)\w+(?:\s['’]?|['’]))?([{chr(_FIRST)}-{chr(_FIRST + MAX_SYMBOLS - 1)}])( Uhr| h\b|\.)?")
"""A symbol, with the word before it, and the ending of a time or an ordinal that the model may write after it."""
_DASHES = str.maketrans("—―", "––")
"""Replacements for long dashes, which many vocabularies lack."""
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[^\W\d_]+(?:['’-][A-ZÀ-ÖØ-Þ][^\W\d_]+)*")
_SHORT_WORD = 5
"""A single word in capitals with fewer letters than this is an abbreviation."""
_FEW_WORDS = 4
"""If there are fewer words in capitals than this, and all of them have up to three letters, they are abbreviations."""
_ABBREVIATION = re.compile(
    r"(?<![\w'’])(?:[BCDFGHJKLMNPQRSTVWXZ]{3,}|TV|USA|USB|URL|ASCII|BIOS|JPEG|NASA|NATO|UNESCO|UNICEF)(?!\w)"
)
"""An abbreviation in a text in capitals: a word without vowels, or a well-known abbreviation."""
_DOTTED = frozenset({"tr", "az"})
"""Languages with a dotted and a dotless i. `str.lower` does not convert these letters correctly."""


class Replaced(NamedTuple):
    """Text in which copy symbols (placeholder tokens) replace spans, such as numbers and links."""

    text: str = ""
    spans: Mapping[str, Span] = {}
    """The span that each symbol stands for."""
    capitals: bool = False
    """Whether the original text is in capitals, but `text` is not."""

    def original_positions(self) -> list[int]:
        """Return the position in the original text for each character in `text`, and for the end of `text`."""
        lengths = (len(self.spans[each].text) if each in self.spans else 1 for each in self.text)
        return [0, *accumulate(lengths)]

    def restore(self, translation: str, language: str) -> str:
        """Replace each copy symbol in a translation with its span, as spelled in the language of the translation.

        Drop symbols that have no span. If the original text is in capitals, convert the translation to capitals.

        Args:
            translation: The translation of `text`.
            language: Language code of the translation. It determines the corrections of contractions and word order,
                such as "d'Annika" for "de Annika" and "our 5th child" for "our child 5th".
        """
        notation = notation_of(base_language(language))

        def spell(match: re.Match[str]) -> str:
            word, symbol, ending = match[1] or "", match[2], match[3] or ""
            if symbol not in self.spans:
                return word + ending
            span, after = self.spans[symbol], match.string[match.end() :]
            if not ending and not after.strip() and self.text.partition(symbol)[2].removeprefix(" h").strip() == ".":
                ending = "."  # a model may omit the full stop, because English times may end with "p.m."
            text = span.written(match.string[: match.start(2)], ending, after)
            text = word + (text.upper() if self.capitals and not isinstance(span, LiteralSpan) else text)
            return _corrected(text, notation.contractions) if word else text

        restored = _SYMBOL.sub(spell, translation.upper() if self.capitals else translation).strip()
        return _corrected(restored, notation.corrections) if self.spans else restored


def copy_symbols(count: int) -> tuple[str, ...]:
    """Return the first `count` copy symbols: placeholder tokens for numbers, links and names."""
    return tuple(chr(_FIRST + number) for number in range(count))


def replace_spans(
    text: str, symbols: Sequence[str], source: str, target: str, is_rare: Callable[[str], bool] = never
) -> Replaced:
    """Replace spans in a sentence, such as numbers and links, with copy symbols.

    If the sentence is in capitals, convert it to sentence case.

    Args:
        text: Sentence to translate.
        symbols: The copy symbols in the vocabulary. Each symbol replaces at most one span.
        source: Language code of the sentence.
        target: Language code of the translation. It determines how the spans are spelled in the translation.
        is_rare: Function that returns whether a word is rare. Rare capitalised words are replaced, as are the names in
            `names.txt` and names after titles such as "Mr".
    """
    if not symbols or has_symbol(text):  # `Replaced.restore` drops symbols that the original text contains
        return Replaced(text)
    found = find_spans(text, source, target)
    text = text.translate(_DASHES)
    if capitals := in_capitals(text) and not _DOTTED & {base_language(source), base_language(target)}:
        text = sentence_case(text, found, source)
    # In a text in capitals, only the first word in a sentence has a capital now, so names cannot be found.
    chosen = _copied("" if capitals else text, found, source, target, is_rare)[: len(symbols)]
    copied = sorted(chosen, key=lambda span: span.start)
    return _replace(text, dict(zip(symbols, copied, strict=False)), capitals)


def in_capitals(text: str) -> bool:
    """Return whether a text is in capitals, as headings and signs often are.

    Return False for abbreviations, such as HTML, and for lists of names, such as COUNT, SUM, AVERAGE.
    """
    # People write ß in words in capitals, and the ordinal indicators have no capitals.
    if not all(letter.isupper() or letter in "ßºª" for letter in text if letter.isalpha()):
        return False
    words = _WORD.findall(text)
    items = text.replace(";", ",").split(",")
    if len(items) > 2 and all(len(item.split()) == 1 for item in items):
        return False
    is_sentence = sum(len(word) > 1 for word in words) >= _FEW_WORDS
    return is_sentence or max(map(len, words), default=0) >= (_SHORT_WORD if len(words) == 1 else _SHORT_WORD - 1)


def sentence_case(text: str, spans: Iterable[Span], language: str) -> str:
    """Convert a text in capitals to sentence case: `THE DOG` becomes `The dog`. Its length does not change.

    The first letter, abbreviations, and the names of months and weekdays keep their capitals.

    Args:
        text: Text in capitals.
        spans: Spans in the text (see `find_spans`).
        language: Language code of the text.
    """
    lower = text.lower()
    if len(lower) != len(text):
        return text
    notation = notation_of(base_language(language))
    rows = [*notation.months, *notation.weekdays]
    names = {name.upper(): name for row in rows for name in row.split("|")}
    first = _WORD.search(text)
    kept = [(match.start(), match[0]) for match in _ABBREVIATION.finditer(text)]
    for match in _WORD.finditer(text):
        if len(match[0]) >= _SHORT_WORD - 1 and match[0] in names:  # shorter names are also words, such as MAY
            kept.append((match.start(), names[match[0]]))
    kept += [(span.start, names.get(span.text, span.text)) for span in spans if isinstance(span, CalendarSpan)]
    kept += [(first.start(), first[0][0])] if first else []
    letters = list(lower)
    for start, word in kept:
        letters[start : start + len(word)] = word
    return "".join(letters)


def replace_in_pair(
    source: str,
    target: str,
    symbols: Sequence[str],
    languages: tuple[str, str],
    is_rare: Callable[[str], bool] = never,
    first: int = 0,
) -> tuple[Replaced, Replaced]:
    """Replace matching spans, such as numbers, in a sentence and its translation with the same copy symbols.

    Args:
        source: Source sentence.
        target: Translation of the source sentence.
        symbols: The copy symbols of the vocabulary.
        languages: Language codes of the sentence and its translation.
        is_rare: Function that returns whether a word is rare. Rare capitalised words in the source are replaced, as are
            the names in `names.txt` and names after titles such as "Mr".
        first: Index of the first symbol to use. In training, the index varies, so that a model learns all symbols.
    """
    if not symbols or has_symbol(source + target):
        return Replaced(source), Replaced(target)
    first %= len(symbols)
    found = sorted(_copied(source, find_spans(source, *languages), *languages, is_rare), key=lambda span: span.start)
    others = _copied(target, find_spans(target, *languages[::-1]), *languages[::-1])
    names = {span.text for span in found if isinstance(span, LiteralSpan)}
    same_names = (LiteralSpan.at(word.start(), word[0]) for word in _NAME.finditer(target) if word[0] in names)
    others = _joined(others, same_names)
    matches = match_spans(found, others, lambda span: span.keys)
    pairs = dict(zip([*symbols[first:], *symbols[:first]], matches, strict=False))
    of_source, of_target = ({symbol: pair[side] for symbol, pair in pairs.items()} for side in (0, 1))
    return _replace(source, of_source), _replace(target, of_target)


def _corrected(text: str, corrections: Mapping[str, str]) -> str:
    """Replace all matches of each pattern in a text. `corrections` maps patterns to replacements."""
    for pattern, replacement in corrections.items():
        text = re.sub(pattern, replacement, text)
    return text


def has_symbol(text: str) -> bool:
    """Return whether a text contains a copy symbol."""
    return _SYMBOL.search(text) is not None


def _copied(
    text: str, spans: Sequence[Span], source: str, target: str, is_rare: Callable[[str], bool] = never
) -> list[Span]:
    """Return the spans in a text that copy symbols may replace: first numbers, links and the like, then names.

    Months, weekdays, and small numbers are omitted, because a translation may spell them as words.
    """
    return _joined([each for each in spans if not each.may_be_word], find_names(text, source, target, is_rare))


def _joined(spans: Sequence[Span], names: Iterable[Span]) -> list[Span]:
    """Append the spans of names to other spans. Omit names that overlap another span, such as "Smith" in a link."""
    apart = (each for each in names if not any(each.start < span.end and span.start < each.end for span in spans))
    return [*spans, *apart]


def _replace(text: str, spans: Mapping[str, Span], capitals: bool = False) -> Replaced:
    parts, end = list[str](), 0
    for symbol, span in sorted(spans.items(), key=lambda item: item[1].start):
        parts += text[end : span.start], symbol
        end = span.end
    return Replaced("".join([*parts, text[end:]]), spans, capitals)
