"""Where the sentences of a line end."""

import pytest

from zoo.text.sentences import sentences_of


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
def test_sentences_end_at_their_marks(sentences):
    text = " ".join(sentences)
    if sentences[0].startswith("It costs"):
        sentences = [text]
    assert sentences_of(text) == sentences


def test_sentences_need_no_space_where_a_script_has_none():
    assert sentences_of("你好。「再见！」走吗？好") == ["你好。", "「再见！」", "走吗？", "好"]
    assert sentences_of("a.  \t b") == ["a.", "b"]


def test_long_rows_of_marks_are_quickly_told():
    assert sentences_of("." * 200_000 + " a") == ["." * 200_000, "a"]
    assert sentences_of('"' * 200_000 + " a") == ['"' * 200_000 + " a"]
