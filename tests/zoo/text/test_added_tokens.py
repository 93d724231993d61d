"""Added tokens are found in raw text, before SentencePiece splits the text between them."""

from __future__ import annotations

import pytest

import specs
from specs import EOS
from tests.refusals import refused
from zoo.text.rules import AddedTokens
from zoo.text.tokenizer import Tokenizer

IDS = {"<x>": 7, "<x>y": 8, "</s>": EOS, "<never>": None}


@pytest.fixture(scope="module")
def plain() -> Tokenizer:
    section = specs.load("tiny", ["vocabulary.size=40"]).vocabulary
    return Tokenizer.learn(["the old dog reads a book"] * 9, section, "source", (), {})


def test_texts_are_split_at_the_longest_token() -> None:
    assert list(AddedTokens(IDS).split("a <x> b<x>y</s>")) == ["a ", 7, " b", 8, "", EOS, ""]
    refused("the text contains `<never>`", list, AddedTokens(IDS).split("a <never>"))


def test_tokens_survive_in_the_model_file(plain: Tokenizer) -> None:
    many = {f"<token {number}>": number for number in range(40)}
    for ids in (IDS, many):
        with_added = plain.extended(AddedTokens(ids), "model")
        assert with_added.added is not None
        assert with_added.added.ids == ids
        assert with_added.encode("the dog") == plain.encode("the dog")
    assert plain.added is None
    tokenizer = plain.extended(AddedTokens(IDS), "model")
    words = [*plain.encode("the dog"), 7, *plain.encode("reads")]
    assert tokenizer.encode("the dog<x> reads") == words
    assert tokenizer.encode_all(["the dog<x> reads"]) == [words]
    assert tokenizer.tokenize("the dog<x> reads") == tokenizer.token_strings(words)
    assert tokenizer.sample(words, 0.1) == words


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b'{"": 5}', b'{"a": 999}', b'{"a": true}', b'{"a": -1}', b"\xff", b"x"]
)
def test_damaged_fields_are_reported(content: bytes, plain: Tokenizer) -> None:
    for model in (b"\xc2\x0c" + bytes([len(content)]) + content + plain.content, plain.content[:0] + b"\xc2\x0c\x05"):
        refused("is damaged", Tokenizer, model)
