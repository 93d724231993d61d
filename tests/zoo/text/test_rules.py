"""Text rules split raw text as Moses and BPE do, join tokens into raw text, and know where tokens are."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
import sacremoses
from hypothesis import given, settings
from hypothesis import strategies as st

import specs
from specs import UNK
from tests.refusals import refused
from zoo.interop.sentencepiece_model import word_list_tokenizer
from zoo.interop.tensors import TokenList
from zoo.text.lines import clean
from zoo.text.protobuf import encode_bytes
from zoo.text.rules import TEXT_RULES, AddedTokens, TextRules
from zoo.text.tokenizer import Tokenizer

CODES = "#version: 0.2\nt h\nth e</w>\nh o\nho u\nhou s\nhous e</w>\n@-@ </w>\n"
MOSES = TextRules(tokenizer="moses", codes=CODES)
TEXT = 'The house-boat isn\'t "in"  the  U.S. [yet] & 3.5% ok.'
PARTS = [*"aZ9.,-'\"&|<[]@/%é中½ ", "...", "@-@", "&amp;", "Mr. ", " the"]
LINES = st.text() | st.lists(st.sampled_from(PARTS)).map("".join)


moses_tokenizer, moses_detokenizer = cache(sacremoses.MosesTokenizer), cache(sacremoses.MosesDetokenizer)


@settings(max_examples=50)
@given(LINES, st.sampled_from(["en", "fr", "xx"]), st.booleans(), st.booleans())
def test_words_are_those_of_sacremoses(line: str, language: str, dash_splits: bool, escape: bool) -> None:
    text = clean(line)
    rules = TextRules(tokenizer="moses", language=language, dash_splits=dash_splits, escape=escape)
    words = moses_tokenizer(language).tokenize(text, aggressive_dash_splits=dash_splits, escape=escape)
    assert rules.split(text) == words
    assert rules.join(words) == moses_detokenizer(language).detokenize(words)


@given(LINES)
def test_spans_are_those_of_the_characters(line: str) -> None:
    text = clean(line)
    tokens, spans = MOSES.split(text), list(MOSES.spans(text))
    assert len(tokens) == len(spans)
    if "MULTI" not in text:
        assert all(start < end for start, end in spans)
        covered = {position for start, end in spans for position in range(start, end)}
        assert {position for position, character in enumerate(text) if not character.isspace()} <= covered


def test_texts_are_split_and_joined() -> None:
    tokens = MOSES.split(TEXT)
    assert " ".join(tokens[:8]) == "T@@ h@@ e house @@@ -@@ @ b@@"
    assert MOSES.join(tokens) == re.sub(" +", " ", TEXT)
    found = [(TEXT[start:end], token) for (start, end), token in zip(MOSES.spans(TEXT), tokens, strict=True)]
    assert found[3:8] == [("house", "house"), ("-", "@@@"), ("-", "-@@"), ("-", "@"), ("b", "b@@")]
    assert ('"', "q@@") in found
    assert MOSES.join(["a@@", "⁇"]) == "a⁇"
    space = TextRules(tokenizer="space", codes=CODES)
    assert space.split("house  @-@ the ") == ["house", "@@@", "-@@", "@", "the"]
    assert [*space.spans("house  @-@")] == [(0, 5), (7, 8), (8, 9), (9, 10)]
    assert MOSES.split(">>deu<< the >>") == [">>deu<<", "the", "&@@", "g@@", "t@@", ";", "&@@", "g@@", "t@@", ";"]
    assert [*MOSES.spans(" >>deu<< the")] == [(1, 8), (9, 12)]


def test_an_error_of_sacremoses_in_czech_is_avoided() -> None:
    assert TextRules(tokenizer="moses", language="cs").join(["a'", "-", "li", "b"]) == "a' - li b"


def test_true_cases() -> None:
    rules = TextRules(tokenizer="moses", cases="the The\nUS us\nParis\nbig")
    words = ["&quot;", "the", "big", "US", ":", "big", "us", ".", "the", "Paris", "The"]
    assert rules.split('"The big US: BIG us. The PARIS The') == words
    assert rules.join(["&quot;", "the", "big", "us", ".", "the"]) == '"The big us. The'
    changed = TextRules(tokenizer="moses", cases="straße", codes=CODES)  # another length
    assert changed.split("STRASSE STRAßE")[-1] == "e"
    assert len([*changed.spans("STRASSE STRAßE")]) == len(changed.split("STRASSE STRAßE"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    names = ["</s>", "<unk>", "the", "house", "b@@", "o@@", "a@@", "t", "."]
    return word_list_tokenizer(TokenList(names, unknown=1, end=0).numbering(), "list", MOSES)


def test_tokenizers_apply_their_rules(tokenizer: Tokenizer) -> None:
    text = "the\u00ad boat  house x."
    ids = tokenizer.encode(text)
    tokens = ["▁the", "▁b@@", "▁o@@", "▁a@@", "▁t", "▁house", "▁x", "▁."]
    assert tokenizer.tokenize(text) == tokens
    assert tokenizer.token_strings(ids) == ["⁇" if token == "▁x" else token for token in tokens]
    assert tokenizer.encode_all([text, ""]) == [ids, []]
    assert tokenizer.decode(ids) == "the boat house ⁇."
    assert ids.count(UNK) == 1
    assert [text[start:end] for start, end in tokenizer.spans(text)] == ["the", "b", "o", "a", "t", "house", "x", "."]
    assert tokenizer.sample(ids[:3], 0.1) == ids[:3]
    assert Tokenizer(tokenizer.content).rules == MOSES


@pytest.mark.parametrize("content", [
    *(b"[]", b"{}", b"\xff", b"{" * 5000, b'{"tokenizer": "penn"}', b'{"tokenizer": "moses", "language": "../en"}'),
    *(b'{"tokenizer": "moses", "more": 1}', b'{"tokenizer": "space", "codes": "a"}'),
])  # fmt: skip
def test_damaged_rules_are_reported(content: bytes, tokenizer: Tokenizer) -> None:
    plain = tokenizer.content.removeprefix(MOSES.prepended_to(b""))
    assert Tokenizer(plain).rules is None
    refused("is damaged.*text rules", Tokenizer, encode_bytes(TEXT_RULES, content) + plain)


def test_stored_rules_may_list_the_known_subwords(tokenizer: Tokenizer) -> None:
    """Models that earlier versions imported have such a list. Subwords that are not in the list are split again."""
    plain = tokenizer.content.removeprefix(MOSES.prepended_to(b""))
    rules = {"tokenizer": "space", "codes": CODES, "vocabulary": "the ho@@ u@@"}
    stored = Tokenizer(encode_bytes(TEXT_RULES, json.dumps(rules).encode()) + plain)
    assert stored.tokenize("the house") == ["▁the", "▁ho@@", "▁u@@", "▁s@@", "▁e"]


def test_fields_that_would_be_ignored_are_refused(tokenizer: Tokenizer) -> None:
    plain = tokenizer.content.removeprefix(rules := MOSES.prepended_to(b""))
    added = AddedTokens({"the": 5}).prepended_to(b"")
    for content in (rules + rules + plain, rules + added + plain, added + rules + plain, plain + rules, plain + added):
        refused("is damaged", Tokenizer, content)


def test_only_lists_of_words_have_rules() -> None:
    section = specs.load("tiny", ["vocabulary.size=40"]).vocabulary
    learned = Tokenizer.learn(["the old dog reads a book"] * 9, section, "source", (), {})
    refused("not a list of words", learned.extended, MOSES, "model")
