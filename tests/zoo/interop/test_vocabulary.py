"""Converted vocabularies: SentencePiece models with other IDs, and lists of words, tokenise text as before."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specs import BOS, EOS, UNK, ZooError
from tests.examples import small
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.data.prepare import prepare
from zoo.generation.preprocessing import Preprocessor
from zoo.generation.text_stream import TextStream
from zoo.interop import FORMATS
from zoo.interop.formats import format_named
from zoo.interop.huggingface import multilingual_vocabulary as multilingual
from zoo.interop.huggingface import t5 as t5_vocabulary
from zoo.interop.sentencepiece_model import SentencePieceModel, without_source_end, word_list_tokenizer
from zoo.interop.tensors import NEVER, TokenList
from zoo.models.weights import Weights
from zoo.report import Report
from zoo.text.languages import LanguagePair
from zoo.text.protobuf import encode_bytes, encode_integer, parse_fields
from zoo.text.vocabulary import Vocabulary

LIST = ["<s>", "<pad>", "</s>", "<unk>", "a", "bc", "d@@", "é", "<", "\u200c", "a b", "a", ""]
NUMBERING = TokenList(LIST, start=2, pad=1, end=2, unknown=3).numbering()
WORDS = ["a", "bc", "d@@", "é", "<", "\u200c"]


@pytest.fixture
def model(tmp_path: Path) -> SentencePieceModel:
    tiny.write_sentencepiece(tmp_path / "a.spm")
    return SentencePieceModel(tmp_path / "a.spm")


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_renumbered_model_tokenises_as_before(tmp_path: Path, byte_fallback: bool) -> None:
    file = tmp_path / "a.spm"
    file.write_bytes(tiny.train_sentencepiece(tiny.TEXT, 330 if byte_fallback else 60, byte_fallback=byte_fallback))
    before, names = tiny.processor(file.read_bytes()), SentencePieceModel(file).names()
    order = random.Random(3).sample(names[2:], len(names) - 2)
    numbering = TokenList(["</s>", "<unk>", *order], unknown=1, end=0).numbering()
    after = SentencePieceModel(file).renumbered(numbering)
    assert after.byte_fallback == byte_fallback
    for line in [*tiny.TEXT, "Ω is unknown", "old  spaces"]:
        tokens = before.encode(line, out_type=str)
        known = [name for name in tokens if before.piece_to_id(name) != 1]
        assert after.token_strings(after.encode(line)) == [name if name in known else "⁇" for name in tokens]
        assert [numbering.names[id] for id in after.encode(line) if id != UNK] == known
        assert after.decode(after.encode(line)) == before.decode(before.encode(line))


def test_added_tokens_are_never_produced_except_languages(model: SentencePieceModel) -> None:
    numbering = TokenList([*model.names(), "▁the▁old▁dog", "<s>", ">>deu<<"], unknown=1, end=0).numbering()
    tokenizer = model.renumbered(numbering)
    unused, language = (numbering.names.index(name) for name in ("▁the▁old▁dog", ">>deu<<"))
    assert unused not in tokenizer.encode("the old dog")
    assert tokenizer.decode([unused]) == "the old dog"
    assert tokenizer.encode(">>deu<< the dog") == [language, *tokenizer.encode("the dog")]


def test_bpe_models_with_additional_tokens_are_rejected(model: SentencePieceModel) -> None:
    model._trainer += encode_integer(3, 2)
    assert model.kind == "bpe"
    refused("the bpe model", model.renumbered, TokenList([*model.names(), "more"], unknown=1, end=0).numbering())
    model._trainer += encode_integer(3, 4)
    with pytest.raises(ZooError, match="characters"):
        _ = model.kind


@given(st.binary(max_size=60), st.integers(0, 2**63), st.binary(max_size=300))
def test_protobuf_fields_are_read_as_written(message: bytes, value: int, text: bytes) -> None:
    with suppress(ValueError):  # arbitrary bytes are either rejected, or their fields are those bytes
        assert b"".join(field.encoded for field in parse_fields(message)) == message
    first, second = parse_fields(encode_integer(3, value) + encode_bytes(1, text))
    assert (first.number, first.value, second.number, second.value) == (3, value, 1, text)


def test_each_word_of_a_list_has_its_id_and_each_other_word_is_one_unknown_token(tmp_path: Path) -> None:
    """Check repeated unknown words, and a vocabulary that was saved and loaded."""
    tokenizer = word_list_tokenizer(NUMBERING, "list")
    assert tokenizer.is_word_level
    assert tokenizer.size == len(NUMBERING.tokens)
    Vocabulary(tokenizer).save(tmp_path)
    texts = ["X Y Z", "a X Y a bc  Z X", "abc", "", *(f"a {word} a" for word in ("A", "bcd@@", "<s>", "▁a", "ａ"))]
    texts += [" ".join(words) for words in permutations(WORDS, 3)]
    for each in (tokenizer, Vocabulary.load(tmp_path).source):
        for text in texts:
            words = text.split()
            expected = [NUMBERING.ids[LIST.index(word)] if word in WORDS else UNK for word in words]
            assert each.encode(text) == expected
            assert each.encode_all([text, text]) == [expected, expected]
            assert UNK in expected or each.decode(expected) == text
            if "▁" not in text and "ａ" not in text:
                assert each.tokenize(text) == [f"▁{word}" for word in words]


def test_messages_name_unknown_words(report: Report) -> None:
    vocabulary = Vocabulary(word_list_tokenizer(NUMBERING, "list"))
    assert vocabulary.unknown("a Hund bc  Hund é X", "target") == ["Hund", "X"]
    preprocessor = Preprocessor(vocabulary, small(), None, None, LanguagePair("en", "de"))
    refused(r"'Hund', 'X'", preprocessor.encode, "a", "a Hund X", 0)
    with (stream := TextStream(preprocessor, report)).warnings:
        assert [len(each) for each in stream.read([[("a bc", ""), ("a Hund", "")]])] == [2]
    assert ["1 of 2" in warning for warning in report.warnings] == [True]  # type: ignore[attr-defined]


def test_sources_without_eos(home: Path) -> None:
    tokenizer = word_list_tokenizer(NUMBERING, "list")
    without = without_source_end(tokenizer, "list")
    assert (Vocabulary(tokenizer).source_suffix, Vocabulary(without, tokenizer).source_suffix) == ((EOS,), ())
    assert without.encode("a bc") == tokenizer.encode("a bc")
    assert without.token_strings(range(without.size)) == tokenizer.token_strings(range(tokenizer.size))
    refused("EOS", prepare, small(), Report(), Vocabulary(without, tokenizer))  # training would add EOS


def test_models_that_transformers_cannot_express_are_named() -> None:
    vocabulary = Vocabulary(word_list_tokenizer(NUMBERING, "list"))
    for name in FORMATS["families"]:
        require_sentencepiece = format_named(name, "families").require_sentencepiece
        refused(f"to {name}: its vocabulary is a list of words", require_sentencepiece, vocabulary)
    bias = torch.zeros(vocabulary.source.size)
    bias[BOS] = NEVER
    weights = Weights({"embedding": torch.arange(float(len(bias)))[:, None], "output_bias": bias})
    model: Any = SimpleNamespace(spec=SimpleNamespace(languages=()), vocabulary=vocabulary, weights=weights)
    refused("decoding starts with BOS, but this format requires", t5_vocabulary.written_ids, model, "hf-t5")
    refused("decoding starts with BOS", multilingual.written_ids, model, multilingual.NLLB_TOKENIZER)
