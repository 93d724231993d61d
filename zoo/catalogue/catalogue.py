"""Find cards in the catalogue by name or by language pair.

The catalogue consists of the cards in this package and those of the user, `catalogue/*.yaml` in the data folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median

from specs import ZooError
from zoo.catalogue.card import CODE, ModelCard, parse
from zoo.files import storage
from zoo.files.reading import read_bytes

EVERYDAY = "everyday"
"""Name of the included model. It was trained on short sentences."""
_EVERYDAY_WORDS = 15
"""If the median number of words in a sentence is larger, another model is recommended."""
_CARDS = Path(__file__).with_name("cards")
_MAX_CARD_BYTES = 1_000_000
_UNKNOWN_BYTES = 1 << 60  # models of unknown size come last


def cards() -> list[ModelCard]:
    """Return all cards, sorted by name. A card of the user replaces a card of the package with the same name.

    Raises:
        ZooError: A card of the user is invalid.
    """
    own = _read(storage.home() / "catalogue")
    return [card for _, card in sorted({**_packaged(), **own}.items())]


def packaged() -> list[ModelCard]:
    """Return the cards in this package, sorted by name."""
    return [card for _, card in sorted(_packaged().items())]


def models() -> list[ModelCard]:
    """Return the cards of all models. A pattern is replaced by the cards for its language pairs."""
    found = []
    for card in cards():
        pairs = card.languages.directions
        found += [card.for_pair(*pair) for pair in pairs] if card.is_pattern else [card]
    return found


def names() -> list[str]:
    """Return the names of all models."""
    return [card.name for card in models()]


def find(name: str) -> ModelCard | None:
    """Return the card of a model, given the model's name or an alias. None if the catalogue does not have the model.

    The name of a member, such as `NAME.1`, gives the card of its ensemble. A name that matches a pattern gives the card
    for one language pair.
    """
    patterns = []
    for card in cards():
        if card.is_pattern:
            patterns.append(card)
        elif name in (card.name, *card.aliases, *card.members):
            return card
    return next((found for card in patterns if (found := _match(card, name)) is not None), None)


def for_pair(source: str, target: str) -> list[ModelCard]:
    """Return the cards of all models for a language pair, the most recommended first.

    Models of a single pair precede multilingual models, and smaller models precede larger ones.
    """
    found = []
    for card in cards():
        if (pair := card.languages.direction(source, target)) is not None:
            found.append(card.for_pair(*pair) if card.is_pattern else card)
    return sorted(found, key=_rank)


def recommended(source: str, target: str) -> ModelCard | None:
    """Return the card of the most recommended model for a language pair. None if the catalogue has none."""
    with suppress(ZooError):  # an invalid card of the user must not hide the message that contains the recommendation
        return next(iter(for_pair(source, target)), None)
    return None


def better_for(sentences: Sequence[str], source: str, target: str) -> tuple[ModelCard, str] | None:
    """Recommend a public model for a text with long sentences, for which the included model was not trained.

    Returns:
        The card of the public model, and a message that names it. None if most sentences are short, or if the catalogue
        has no model for the language pair.
    """
    if not sentences or median(len(sentence.split()) for sentence in sentences) <= _EVERYDAY_WORDS:
        return None
    if (card := recommended(source, target)) is None:
        return None
    problem = f"`{EVERYDAY}` is made for short sentences, and most of these are longer"
    return card, f"{problem}; {card.summary} may translate them better"


def _rank(card: ModelCard) -> tuple[bool, int, str]:
    size = card.bytes or 4 * (card.parameters or 0) or _UNKNOWN_BYTES
    return card.is_multilingual, size, card.name


def _match(card: ModelCard, name: str) -> ModelCard | None:
    """Return the card of the model that has this name according to a pattern. None if there is no such model."""
    for pattern in (card.name, *card.aliases):
        expression = re.escape(pattern).replace(r"\{source\}", f"(?P<source>{CODE})")
        match = re.fullmatch(expression.replace(r"\{target\}", f"(?P<target>{CODE})"), name)
        if match and (match["source"], match["target"]) in card.languages.directions:
            return card.for_pair(match["source"], match["target"])
    return None


@cache
def _packaged() -> dict[str, ModelCard]:
    return _read(_CARDS)


def _read(folder: Path) -> dict[str, ModelCard]:
    """Return the cards in a folder by their names. Empty if there is no such folder."""
    found: dict[str, ModelCard] = {}
    for file in sorted(folder.glob("*.yaml")):
        try:
            text = read_bytes(file, _MAX_CARD_BYTES).decode("utf-8")
        except UnicodeDecodeError:
            raise ZooError("the card is not UTF-8", where=str(file), hint="save the file as UTF-8") from None
        card = parse(text, str(file))
        if card.name in found:
            hint = "rename or remove one of them"
            raise ZooError(f"two cards have the name `{card.name}`", where=str(file), hint=hint)
        found[card.name] = card
    return found
