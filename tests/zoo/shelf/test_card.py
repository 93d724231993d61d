"""What the card of a bundle tells of its vocabulary; test_bundle.py has the rest."""

from __future__ import annotations

import specs
from zoo.shelf.card import card
from zoo.text.vocabulary import Vocabulary


def test_it_says_what_becomes_of_unknown_characters(pieces: Vocabulary) -> None:
    spec = specs.load("tiny")
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    spelling = Vocabulary.learn(lambda: [("the old dog", "der alte Hund")] * 9, section)
    told = [card(spec, vocabulary, {}, {}) for vocabulary in (pieces, spelling)]
    assert ["have no word piece are unknown: " in each for each in told] == [True, False]
    assert ["are read and written in bytes" in each for each in told] == [False, True]
