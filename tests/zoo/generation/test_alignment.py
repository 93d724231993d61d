"""Alignments between the tokens of texts and their translations: positions, batches, words, and invalid input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zoo
from tests.refusals import refused
from zoo.generation.alignment import AlignedToken, AlignmentHead, separate_words, word_links
from zoo.generation.translator import Translator
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

PAIRS = [
    ("the old dog sees a small house", "der alte Hund sieht ein kleines Haus"),
    ("  two   books ", "zwei Bücher  "),
    ("the ﬁrst Ｃat\u0007, e\u0301 😀", "die erste Katze, é 😀😀"),
    ("He sleeps. The cat sleeps.", "Er schläft. Die Katze schläft."),
    ("He sleeps. The cat sleeps.", "Er schläft"),
    ("", "er"),
    ("he", ""),
]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=30)


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return zoo.load(trained().folder, device="cpu")


@given(text=TEXT)
def test_each_token_has_a_place_in_the_text(tokens: Vocabulary, text: str) -> None:
    spans = tokens.source.spans(text)
    assert len(spans) == len(tokens.encode(text))
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    assert not any(text[start].isspace() or text[end - 1].isspace() for start, end in spans if start < end)


@given(text=st.text("ab é漢ﬁ", max_size=20))
def test_the_tokens_cover_all_characters(tokens: Vocabulary, text: str) -> None:
    covered = {position for start, end in tokens.source.spans(text) for position in range(start, end)}
    assert covered == {position for position, character in enumerate(text) if not character.isspace()}


@pytest.mark.parametrize("head", [None, AlignmentHead(1, 0, False), AlignmentHead(0, 1, True)], ids=str)
def test_positions_are_in_the_texts_and_do_not_depend_on_the_batch(translator, head):
    translator.alignment_head = head
    together = translator.align(*zip(*PAIRS, strict=True))
    assert [bool(tokens) for tokens in together] == [bool(source and target) for source, target in PAIRS]
    for (source, target), tokens in zip(PAIRS, together, strict=True):
        for token in tokens:
            for part in (source[slice(*token.source)], target[slice(*token.target)]):
                assert part.strip() == part != ""
            assert 0 < token.weight <= 1
        assert [token.target for token in tokens] == sorted(token.target for token in tokens)
        (alone,) = translator.align([source], [target])
        assert [token[:2] for token in alone] == [token[:2] for token in tokens]


def test_the_weights_are_those_of_the_attention(translator):
    translator.alignment_head = AlignmentHead(1, 1, True)
    source, target = PAIRS[0]
    attention, (tokens,) = translator.attention(source, target), translator.align([source], [target])
    spans = translator.vocabulary.target.spans(target)
    rows = [row[:-1] for row, (start, end) in zip(attention.cross[1, 1][1:], spans, strict=True) if start < end]
    aligned = [row.max().item() for row in rows if row.sum() >= 0.5]
    assert [token.weight for token in tokens] == pytest.approx(aligned)


def test_sentences_are_aligned_to_sentences(translator):
    source, target = PAIRS[3]
    (tokens,) = translator.align([source], [target])
    for token in tokens:
        assert (token.source[0] < source.index("The")) == (token.target[0] < target.index("Die"))


def test_a_word_is_linked_to_the_word_with_the_highest_sum():
    spans = [((0, 2), (4, 7), 0.6), ((2, 3), (0, 3), 0.4), ((3, 4), (0, 2), 0.3), ((5, 8), (4, 6), 0.2)]
    tokens = [AlignedToken(*each) for each in spans]
    assert word_links("one two", "abcd efg hij", tokens) == [(0, 0), (1, 1)]
    assert word_links("one two", "abcd", []) == []


def test_the_words_of_a_token_are_aligned_in_their_order():
    for source, target, words in (
        ("no. 5", "Nr. 5", [("Nr.", "no."), ("5", "5")]),
        ("9 a.m.", "um 9 Uhr", [("um 9 Uhr", "9 a.m.")]),
        ("5", "5", [("5", "5")]),
    ):
        texts = f"in {source}", f"am {target}"
        parts = separate_words(AlignedToken((3, len(texts[1])), (3, len(texts[0])), 0.5), *texts)
        assert [(texts[1][slice(*part.target)], texts[0][slice(*part.source)]) for part in parts] == words
        assert {part.weight for part in parts} == {0.5}


def test_a_head_is_the_same_after_writing_and_reading():
    head = AlignmentHead(2, 5, True)
    assert AlignmentHead.parse(str(head)) == head
    assert AlignmentHead.parse(None) is AlignmentHead.parse("2.5.sees") is None


def test_models_without_alignments_are_refused(translator):
    refused("a single model", Translator.ensemble([translator, translator]).align, ["he"], ["er"])
    refused("differ: 2 and 1", translator.align, ["he", "she"], ["er"])
