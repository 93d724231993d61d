"""Where the sentences of a line end, and what is none."""

import pytest

from specs import ZooError
from zoo.text.sentences import LONGEST_TEXT, LONGEST_WORD, checked_texts, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        [""],
        ["no end"],
        ["One.", "Two!", "Three?", "Four…", "five"],
        ["He said: „Go.“", "She went (at last!).", "«Oui.»", "Then"],
        ["It costs 3.50 and e.g.this", "or that"],
        ["...", "?!", "x" * 1000 + "."],
    ],
)
def test_sentences_end_at_their_marks(checked_texts):
    text = " ".join(checked_texts)
    if checked_texts[0].startswith("It costs"):
        checked_texts = [text]
    assert split_sentences(text) == checked_texts


def test_sentences_need_no_space_where_a_script_has_none():
    assert split_sentences("你好。「再见！」走吗？好") == ["你好。", "「再见！」", "走吗？", "好"]
    assert split_sentences("a.  \t b") == ["a.", "b"]


@pytest.mark.parametrize("text", ["你好。", "Hello. ", "Hello.", "Hello", " "])
def test_what_ends_in_a_mark_or_has_none_is_one(text):
    assert [each.strip() for each in split_sentences(text)] == [text.strip()]


def test_long_rows_of_marks_are_quickly_told():
    assert split_sentences("." * 200_000 + " a") == ["." * 200_000, "a"]
    assert split_sentences('"' * 200_000 + " a") == ['"' * 200_000 + " a"]


def test_a_word_without_end_is_refused_by_its_number():
    most = "x" * LONGEST_WORD
    assert checked_texts([f"{most} {most}"]) == [f"{most} {most}"]
    with pytest.raises(ZooError, match=r"text 2 .*has a word of 100,001 characters, and 100,000 are the most"):
        checked_texts(["a", f"a {most}x b"])


def test_a_text_without_end_is_refused_by_its_number():
    most = "ab " * (LONGEST_TEXT // 3)
    assert checked_texts([most]) == [most]
    with pytest.raises(ZooError, match=r"prefix 8 .*has 1,000,002 characters, and 1,000,000 are the most"):
        checked_texts([most, most + "ab "], first=7, called="prefix")
