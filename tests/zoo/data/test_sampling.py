"""Tokens drawn anew: the same text, by the seed alone, and never longer than a model may take."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import specs
from specs import UNK
from zoo.data.batches import Pairs
from zoo.data.builtin import sentences
from zoo.data.training_set import SubwordSampler
from zoo.text.vocabulary import Vocabulary

TEXT = [(pair.source, pair.target) for pair in sentences("train", 300)]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def vocabulary(kind: str) -> Vocabulary:
    section = specs.load("tiny", ["vocabulary.size=300", f"vocabulary.kind={kind}"]).vocabulary
    return Vocabulary.learn(lambda: TEXT, section)


@pytest.fixture
def pairs(vocabulary: Vocabulary) -> Pairs:
    sides = zip(*TEXT[:50], strict=True)
    source, target = ([np.array(vocabulary.encode(line), np.int32) for line in lines] for lines in sides)
    return Pairs(source, target)


def _lists(pairs: Pairs) -> list[list[list[int]]]:
    return [[row.tolist() for row in side] for side in pairs]


def test_the_text_stays_and_the_pieces_follow_from_the_seed(vocabulary: Vocabulary, pairs: Pairs) -> None:
    sampling = SubwordSampler(vocabulary, 0.3, 100)
    drawn = _lists(sampling(pairs, 5))
    assert drawn == _lists(sampling(pairs, 5))
    others: list[list[list[list[int]]]] = []
    thread = threading.Thread(target=lambda: others.append(_lists(sampling(pairs, 5))))
    thread.start()
    thread.join()
    assert others == [drawn]
    assert drawn != _lists(sampling(pairs, 6))
    assert drawn != _lists(pairs)
    for new, old in zip(drawn, _lists(pairs), strict=True):
        assert [vocabulary.decode(row) for row in new] == [vocabulary.decode(row) for row in old]


LITTLE, MUCH = {"bpe": 0.05, "unigram": 0.9}, {"bpe": 0.6, "unigram": 0.05}
"""Of a unigram model the exponent flattens the probabilities: the smaller, the more tokens."""


def test_more_is_left_out_the_more_it_is_asked_for(kind: str, vocabulary: Vocabulary, pairs: Pairs) -> None:
    little, much = LITTLE[kind], MUCH[kind]
    lengths = [sum(map(len, SubwordSampler(vocabulary, alpha, 500)(pairs, 1).sources)) for alpha in (little, much)]
    assert lengths[0] < lengths[1]


def test_what_came_out_too_long_keeps_its_pieces(kind: str, vocabulary: Vocabulary, pairs: Pairs) -> None:
    drawn = SubwordSampler(vocabulary, MUCH[kind], 1)(pairs, 1)
    assert all(len(new) <= len(old) for new, old in zip(drawn.sources, pairs.sources, strict=True))


def test_a_sentence_with_an_unknown_piece_keeps_its_pieces(vocabulary: Vocabulary) -> None:
    row = [*vocabulary.encode("the old dog sees a small house"), UNK]
    drawn = SubwordSampler(vocabulary, 0.9, 100)(Pairs([np.array(row)], [np.array(row)]), 1)
    assert drawn.sources[0].tolist() == row
