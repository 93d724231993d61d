"""Splitting a line into sentences, and checks of texts."""

import pytest

from specs import ZooError
from zoo.text.sentences import MAX_TEXT_LENGTH, MAX_WORD_LENGTH, checked_texts, split_sentences


def test_sentences_end_at_punctuation_marks():
    for sentences in (
        [""],
        ["no end"],
        ["One.", "Two!", "Three?", "Four…", "five"],
        ["He said: „Go.“", "She went (at last!).", "«Oui.»", "Then"],
        ["It costs 3.50 and e.g.this or that"],
        ["...", "?!", "x" * 1000 + "."],
        ["a.", "b"],
    ):
        assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("a.  \t b") == ["a.", "b"]
    assert split_sentences("你好。「再见！」走吗？好") == ["你好。", "「再见！」", "走吗？", "好"]


def test_texts_with_at_most_a_final_mark_are_one_sentence():
    for text in ("你好。", "Hello. ", "Hello.", "Hello", " "):
        assert [sentence.strip() for sentence in split_sentences(text)] == [text.strip()]


def test_long_runs_of_marks_take_linear_time():
    assert split_sentences("." * 200_000 + " a") == ["." * 200_000, "a"]
    assert split_sentences('"' * 200_000 + " a") == ['"' * 200_000 + " a"]


def test_too_long_words_and_texts_are_rejected_with_their_number():
    word = "x" * MAX_WORD_LENGTH
    assert checked_texts([f"{word} {word}"]) == [f"{word} {word}"]
    with pytest.raises(ZooError, match=r"text 2 .*has a word of 100,001 characters; the maximum is 100,000"):
        checked_texts(["a", f"a {word}x b"])
    text = "ab " * (MAX_TEXT_LENGTH // 3)
    assert checked_texts([text]) == [text]
    with pytest.raises(ZooError, match=r"prefix 8 .*has 1,000,002 characters; the maximum is 1,000,000"):
        checked_texts([text, text + "ab "], first=7, label="prefix")
