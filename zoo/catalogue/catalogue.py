"""Find cards in the catalogue by name or by language pair.

The catalogue consists of the cards in this package and those of the user, `catalogue/*.yaml` in the data folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from specs import ZooError
from specs.corpus import Direction
from zoo.catalogue.card import CODE, ModelCard, parse
from zoo.files import storage
from zoo.files.reading import read_bytes

_CARDS = Path(__file__).with_name("cards")
_MAX_CARD_BYTES = 1_000_000
_UNKNOWN_BYTES = 1 << 60  # models of unknown size come last
_PAIR = re.compile(f"({CODE})-({CODE})")


def cards() -> list[ModelCard]:
    """Return all cards, sorted by name. A card of the user replaces a card of the package with the same name.

    Raises:
        ZooError: A card of the user is invalid.
    """
    own = storage.home() / "catalogue"
    return [card for _, card in sorted({**_read(_CARDS), **_read_current(own)}.items())]


def packaged() -> list[ModelCard]:
    """Return the cards in this package, sorted by name."""
    return [card for _, card in sorted(_read(_CARDS).items())]


def find(name: str) -> ModelCard | None:
    """Return the card of a model, given the model's name or an alias. None if the catalogue does not have the model.

    The name of a member, such as `NAME.1`, gives the card of its ensemble. A
    pattern gives the card of one language pair.
    """
    all_cards = cards()
    for card in all_cards:
        if not card.is_pattern and name in (card.name, *card.aliases, *card.members):
            return card
    patterns = (card for card in all_cards if card.is_pattern)
    return next((found for card in patterns if (found := _match(card, name)) is not None), None)


def for_pair(source: str, target: str) -> list[ModelCard]:
    """Return the cards of all models for a language pair, the most recommended first.

    Models of a single pair precede multilingual models, and smaller models precede larger ones.
    """
    return sorted(_for_pair(source, target), key=_rank)


def matching(pattern: str | None) -> list[ModelCard]:
    """Return the cards that a filter selects.

    Args:
        pattern: A language pair such as `de-fr`; a pattern with `*`, `?` or `[` for names, or a part of a name. None
            selects all cards, and leaves patterns as they are.
    """
    if pattern is None:
        return cards()
    if pair := parse_pair(pattern):
        return for_pair(*pair)
    glob = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    found = (card for each in cards() for card in _expanded(each))
    return [card for card in found if any(fnmatchcase(name, glob) for name in (card.name, *card.aliases))]


def parse_pair(text: str) -> Direction | None:
    """Return the languages of a pair such as `de-fr`. None if no model of the catalogue translates this pair."""
    match = _PAIR.fullmatch(text)
    return (match[1], match[2]) if match and for_pair(match[1], match[2]) else None


def names() -> list[str]:
    """Return the names of all models. Patterns are listed for each language pair."""
    return [card.name for each in cards() for card in _expanded(each)]


def _for_pair(source: str, target: str) -> Iterator[ModelCard]:
    for card in cards():
        if (pair := card.direction(source, target)) is not None:
            yield card.of_pair(*pair) if card.is_pattern else card


def _rank(card: ModelCard) -> tuple[bool, int, str]:
    size = card.bytes or 4 * (card.parameters or 0) or _UNKNOWN_BYTES
    return card.is_multilingual, size, card.name


def _expanded(card: ModelCard) -> Iterator[ModelCard]:
    """Yield the card or, if it is a pattern, the card of each language pair."""
    if not card.is_pattern:
        yield card
        return
    for source, target in card.directions():
        yield card.of_pair(source, target)


def _match(card: ModelCard, name: str) -> ModelCard | None:
    """Return the card of the model that has this name according to a pattern. None if there is no such model."""
    for pattern in (card.name, *card.aliases):
        expression = re.escape(pattern).replace(r"\{source\}", f"(?P<source>{CODE})")
        match = re.fullmatch(expression.replace(r"\{target\}", f"(?P<target>{CODE})"), name)
        if match and (match["source"], match["target"]) in card.directions():
            return card.of_pair(match["source"], match["target"])
    return None


@cache
def _read(folder: Path) -> dict[str, ModelCard]:
    return _read_current(folder)


def _read_current(folder: Path) -> dict[str, ModelCard]:
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
