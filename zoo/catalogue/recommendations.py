"""Recommend models of the catalogue where the models on this machine do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from statistics import median

from specs import ZooError
from zoo.catalogue import catalogue
from zoo.catalogue.card import ModelCard
from zoo.report import size

EVERYDAY = "everyday"
"""Name of the included model. It was trained on short sentences."""
_EVERYDAY_WORDS = 15
"""Median number of words in a sentence up to which a text is one that the included model is made for."""


def recommended(source: str, target: str) -> ModelCard | None:
    """Return the card of the most recommended model for a language pair. None if the catalogue has none."""
    with suppress(ZooError):  # an invalid card of the user must not hide what the recommendation is about
        return next(iter(catalogue.for_pair(source, target)), None)
    return None


def describe(card: ModelCard) -> str:
    """Return the name, size and licence of a model in a few words."""
    bytes = f"{size(card.bytes)}, " if card.bytes else ""
    return f"the public model `{card.name}` ({bytes}licence: {card.short_licence or 'not documented'})"


def better_for(sentences: Sequence[str], source: str, target: str) -> tuple[ModelCard, str] | None:
    """Return a public model for a text that the included model is not made for, and a message that names this model.

    The included model is not made for a text if most of its sentences are long.

    Returns:
        None if the included model fits, or the catalogue has no model for the language pair.
    """
    if not sentences or median(len(sentence.split()) for sentence in sentences) <= _EVERYDAY_WORDS:
        return None
    if (card := recommended(source, target)) is None:
        return None
    problem = f"`{EVERYDAY}` is made for short everyday sentences, and most of these are longer"
    return card, f"{problem}; {describe(card)} may translate them better"
