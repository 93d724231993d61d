"""The cards of the package are valid, name existing formats, and can be found by their names."""

from __future__ import annotations

import re

import pytest

from zoo.interop import FORMATS
from zoo.models.catalogue import ModelCard, find, packaged

CARDS = packaged()


def test_names_and_aliases_are_unique() -> None:
    names = [name for card in CARDS for name in (card.name, *card.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_card(card: ModelCard) -> None:
    assert card.format in FORMATS["import"]
    assert card.source.startswith("hf:") == card.format.startswith("hf-")
    assert (card.tokenizer == "moses") == (card.format == "fairseq")
    assert all((card.licence, card.trained_by, card.reference))
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", card.facts.date)
    listed = (card.languages.pairs or card.languages.codes or "").split()
    assert len(listed) == len(set(listed))
    for each in card.check:
        assert card.languages.direction(*(each.pair or listed[0]).split("-"))
        assert each.pair or len(listed) == 1
    if not card.is_pattern:
        assert find(card.name) == card


def test_patterns_give_the_cards_of_pairs_and_multilingual_models_have_two_letter_codes() -> None:
    assert find("opus-mt-de-fr").source == "hf:Helsinki-NLP/opus-mt-de-fr"
    assert find("opus-mt-xx-yy") is find("opus-mt-de-tlh-xx") is None
    pairs = {"nllb-200-3.3B": ("deu_Latn", "fra_Latn"), "mbart-50-many-to-one": None, "m2m100-418M": ("de", "fr")}
    assert {name: find(name).languages.direction("de", "fr") for name in pairs} == pairs
