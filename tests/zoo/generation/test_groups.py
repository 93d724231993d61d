"""Batches of sentences of about the same length."""

import random

from specs import PAD
from zoo.generation.batching import MIN_ROW_TOKENS, group_by_length, pad_sequences


def test_groups_are_all_sentences_once_sorted_and_within_the_budget():
    draw = random.Random(1)
    for tokens in (1, 40, 500, 10_000):
        lengths = [draw.randrange(1, 90) for _ in range(200)]
        made = group_by_length(lengths, tokens)
        order = [index for group in made for index in group]
        assert order == sorted(range(200), key=lambda index: (-lengths[index], index))
        for group in made:
            assert len(group) == 1 or len(group) * max(lengths[index] for index in group) <= tokens


def test_a_short_sentence_takes_room_for_its_translation():
    assert [len(group) for group in group_by_length([2] * 10, 4 * MIN_ROW_TOKENS)] == [4, 4, 2]
    assert group_by_length([], 100) == []


def test_rows_are_filled_up_with_padding():
    assert pad_sequences([[5, 3], [3]], "cpu").tolist() == [[5, 3], [3, PAD]]
