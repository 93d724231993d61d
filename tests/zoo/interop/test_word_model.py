"""Vocabularies made of a list: text that comes cut into its tokens gets their numbers, and comes back as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs import EOS, PAD, UNK, Spec, ZooError
from zoo.data.prepare import prepare
from zoo.generation.preprocessing import Preprocessor
from zoo.interop.numbering import Numbering
from zoo.interop.word_model import endless, word_model
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary

NAMES = ["<s>", "<pad>", "</s>", "<unk>", "a", "bc", "d@@", "é", "<", "\u200c", "a b", "a", ""]
NUMBERING = Numbering.of(NAMES, start=2, pad=1, end=2, unknown=3)
WORDS = ["a", "bc", "d@@", "é", "<", "\u200c"]


@given(st.lists(st.sampled_from(WORDS)))
def test_words_get_their_numbers_and_come_back(words: list[str]) -> None:
    tokens = word_model(NUMBERING, "list")
    text = " ".join(words)
    found = tokens.encode(text)
    assert found == [NUMBERING.id(NAMES.index(word)) for word in words]
    assert tokens.decode(found) == text


@pytest.mark.parametrize("word", ["abc", "A", "bcd@@", "<s>", "▁a", "ａ"])
def test_other_words_are_unknown(word: str) -> None:
    found = word_model(NUMBERING, "list").encode(f"a {word} a")
    assert UNK in found
    assert found[0] == found[-1] == NUMBERING.id(4)


@pytest.mark.parametrize("text", ["X Y Z", "a X Y a bc  Z X", "abc", "X", ""])
def test_each_unknown_word_is_one_unknown_piece(text: str, tmp_path: Path) -> None:
    """In a row, too, and of a vocabulary that was saved."""
    Vocabulary(word_model(NUMBERING, "list")).save(tmp_path)
    words = text.split()
    expected = [NUMBERING.id(NAMES.index(word)) if word in WORDS else UNK for word in words]
    for tokens in (word_model(NUMBERING, "list"), Vocabulary.load(tmp_path).source):
        assert tokens.encode(text) == expected
        assert tokens.encode_all([text, text]) == [expected, expected]
        assert tokens.tokenize(text) == [f"▁{word}" for word in words]


def test_what_is_unknown_of_words_are_words() -> None:
    vocabulary = Vocabulary(word_model(NUMBERING, "list"))
    assert vocabulary.unknown("a Hund bc  Hund é X", "target") == ["Hund", "X"]


def test_what_a_model_does_not_know_or_cannot_write_are_words(small: Callable[..., Spec], report: Report) -> None:
    intake = Preprocessor(Vocabulary(word_model(NUMBERING, "list")), small(), None, None, report)
    with pytest.raises(ZooError, match=r"prefix 1 .* has words that the model cannot write: 'Hund', 'X'") as caught:
        intake.encode_sources(["a"], ["a Hund X"], 0)
    assert "a list of all words" in str(caught.value.hint)
    with intake.warnings:
        assert [len(each) for each in intake.read_chunks([[("a bc", ""), ("a Hund", "")]], 0)] == [2]
    (warning,) = report.warnings  # type: ignore[attr-defined]
    assert warning.startswith("1 of 2 texts have words that the model does not know, the first is text 2 ('a Hund')")


def test_it_is_told_from_models_that_cut() -> None:
    tokens = word_model(NUMBERING, "list")
    assert tokens.is_word_level
    assert tokens.size == len(NUMBERING.tokens)


def test_a_source_without_an_end_is_told_by_its_model() -> None:
    tokens = word_model(NUMBERING, "list")
    without = endless(tokens, "list")
    assert (Vocabulary(tokens).source_end, Vocabulary(without, tokens).source_end) == (EOS, PAD)
    assert without.encode("a bc") == tokens.encode("a bc")
    assert without.token_strings(range(without.size)) == tokens.token_strings(range(tokens.size))


def test_a_training_puts_an_end_behind_sources_and_says_so(small: Callable[..., Spec], home: Path) -> None:
    tokens = word_model(NUMBERING, "list")
    with pytest.raises(ZooError, match="reads no EOS behind a source"):
        prepare(small(), Report(), Vocabulary(endless(tokens, "list"), tokens))


def test_pieces_of_sentencepiece_are_not_words() -> None:
    numbering = Numbering.of([*NAMES, "▁the", "▁of", "and"], start=2, pad=1, end=2, unknown=3)
    with pytest.raises(ZooError, match="the model that cuts text into them is not beside it"):
        word_model(numbering, "list")
