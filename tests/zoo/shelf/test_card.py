"""What the card of a bundle tells of its vocabulary, its scores and its task; test_bundle.py has the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import specs
from specs import Spec
from zoo.shelf.card import card
from zoo.text.vocabulary import Vocabulary


def test_it_says_what_becomes_of_unknown_characters(pieces: Vocabulary) -> None:
    spec = specs.load("tiny")
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    spelling = Vocabulary.learn(lambda: [("the old dog", "der alte Hund")] * 9, section)
    told = [card(spec, vocabulary, {}, {}) for vocabulary in (pieces, spelling)]
    assert ["have no word piece are unknown: " in each for each in told] == [True, False]
    assert ["are read and written in bytes" in each for each in told] == [False, True]


OF_A_SET = {"signature": "a|b", "perplexity": 9.8765, "sentences": 1234, "seconds": 1.0}
OF_TREES = {"f1": 92.108, "recall": 91.5, "precision": 92.7, "complete_match": 40.0}


def test_the_scores_are_those_of_its_task(pieces: Vocabulary, parsing: Callable[..., Spec]) -> None:
    told = card(specs.load("tiny"), pieces, {"dev": {"bleu": 93.758, **OF_A_SET}}, {})
    assert "| set | BLEU | perplexity a piece | sentences | signature |\n" in told
    assert "| dev | 93.76 | 9.877 | 1,234 | `a\\|b` |\n" in told
    told = card(parsing(), pieces, {"test": {**OF_TREES, **OF_A_SET}, "dev": {**OF_TREES, **OF_A_SET, "f1": None}}, {})
    heading = "| set | F1 | recall | precision | complete match | perplexity a piece | sentences | signature |\n"
    assert heading in told
    assert "| test | 92.11 | 91.50 | 92.70 | 40.00 | 9.877 | 1,234 | `a\\|b` |\n" in told
    assert "| dev | - | 91.50 |" in told


@pytest.mark.parametrize("missing", ["f1", "recall", "signature", "perplexity"])
def test_scores_of_another_task_are_not_its_own(pieces: Vocabulary, parsing: Callable[..., Spec], missing: str) -> None:
    scores = {**OF_TREES, **OF_A_SET, "bleu": 93.7}
    with pytest.raises(KeyError, match=missing):
        card(parsing(), pieces, {"dev": {name: score for name, score in scores.items() if name != missing}}, {})


def test_a_parsers_card_speaks_of_trees(pieces: Vocabulary, parsing: Callable[..., Spec]) -> None:
    trees = [{"grammar": 500}, {"trees": "/home/of/somebody/wsj/02"}]
    told = card(parsing(**{"corpus.train": trees}), pieces, {"dev": {**OF_TREES, **OF_A_SET}}, {})
    assert not [word for word in ("transl", "BLEU", "decode", "pairs", "somebody") if word in told]
    assert "- 500 trees of zoo's own grammar (no licence applies)\n- trees of the publisher: `02`\n" in told
    assert 'parser.parse("...")' in told
    assert "zoo parse --model transformer-tiny-ende < sentences.txt > trees.txt" in told
