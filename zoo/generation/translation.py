"""Result of translating a text, and a function that joins the translations of a text's parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from zoo.text.sentences import language_tokens


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text.

    Attributes:
        text: The translation as text.
        score: `log_probability` divided by the length penalty (paper, section 6.1).
        log_probability: Natural log-probability. It includes EOS, unless the translation was cut off at the maximum
            length.
        tokens: Token IDs without BOS and EOS.
        parts: If the text was translated in parts, each part and its translation. Otherwise empty.
        unkept: Amounts, links and the like of the text that the translation lacks, and numbers that it has added.
        uncertain: Sentences of the text whose translations have a low probability.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    parts: tuple[tuple[str, str], ...] = ()
    unkept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = field(default=(), compare=False)


_UNCERTAIN = -0.7
"""Mean log-probability of a token, with EOS, below which a translation is uncertain."""
MARKS = ("unkept", "uncertain")
"""Fields of a translation that a user should check. They are shown only if they are not empty."""
EMPTY_TRANSLATION = Translation("", 0.0, 0.0, ())
"""The translation of an empty text."""


def uncertain_sentences(text: str, log_probability: float, tokens: Sequence[int]) -> tuple[str, ...]:
    """Return the field `uncertain` of a sentence: the sentence if the mean log-probability of a token is low."""
    return (text,) if log_probability < _UNCERTAIN * (len(tokens) + 1) else ()


def unchanged(text: str) -> Translation:
    """Return a text, without language tokens, as its own translation."""
    return Translation(text[len(language_tokens(text)) :], 0.0, 0.0, ())


def join_parts(sources: Sequence[str], parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    """Return the translation of a text, joined from the translations of its parts. Scores are summed.

    Args:
        sources: The parts of the text, in order.
        parts: Their translations.
        gaps: The white space between each part and the next.
    """
    text = ""
    for part, gap in zip(parts, ("", *gaps), strict=True):
        if part.text:
            text += (gap if text else "") + part.text
    return Translation(
        text,
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        tuple(token for part in parts for token in part.tokens),
        tuple((source, part.text) for source, part in zip(sources, parts, strict=True)),
        **join_marks(parts),
    )


def join_marks(parts: Sequence[Translation]) -> dict[str, tuple[str, ...]]:
    """Return the fields `unkept` and `uncertain` of a text, joined from its parts."""
    return {name: tuple(chain.from_iterable(getattr(part, name) for part in parts)) for name in MARKS}
