"""Damaged SentencePiece models that would end the process are refused before SentencePiece reads them."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest
import sentencepiece

from specs import BOS, EOS, PAD, UNK
from tests import forks
from tests.refusals import refused
from zoo.interop.sentencepiece_model import TokenEntry, TokenType
from zoo.text.protobuf import encode_bytes, encode_integer, parse_fields
from zoo.text.tokenizer import Tokenizer, check_model

TOKENS, NORMALIZER, CHARACTER_MAP = 1, 3, 2


def trained(**options: object) -> bytes:
    model = io.BytesIO()
    lines = iter(["the old dog sees a small house", "zwei Bücher"] * 20)
    ids = {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS}
    options = {"vocab_size": 400, "hard_vocab_limit": False, "minloglevel": 2, **ids, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, **options)
    return model.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return trained(byte_fallback=True)


def replaced(model: bytes, number: int, new: bytes) -> bytes:
    """Return a model with another last field of this number."""
    fields = list(parse_fields(model))
    last = max(index for index, field in enumerate(fields) if field.number == number)
    return b"".join(new if index == last else field.encoded for index, field in enumerate(fields))


def field_of(message: bytes, number: int) -> bytes:
    (value,) = (field.value for field in parse_fields(message) if field.number == number)
    return value


def with_character_map(model: bytes, content: bytes) -> bytes:
    normalizer = field_of(model, NORMALIZER)
    new = encode_bytes(CHARACTER_MAP, content)
    fields = [new if field.number == CHARACTER_MAP else field.encoded for field in parse_fields(normalizer)]
    return replaced(model, NORMALIZER, encode_bytes(NORMALIZER, b"".join(fields)))


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_models_of_sentencepiece_are_accepted(rule: str, kind: str) -> None:
    check_model(trained(normalization_rule_name=rule, model_type=kind, user_defined_symbols=["<x>"]))


@pytest.mark.parametrize("type_", TokenType)
@pytest.mark.parametrize("name", ["\0", "a\0b", "ab\0"])
def test_a_token_with_nul_is_refused(model: bytes, name: str, type_: TokenType) -> None:
    entry = TokenEntry(name, -1.0, type_)
    refused("damaged", Tokenizer, replaced(model, TOKENS, entry.encode()))


def test_no_spelling_of_a_token_hides_nul(model: bytes) -> None:
    name, score, type_ = encode_bytes(1, b"a\0b"), b"\x15\0\0\0\0", encode_integer(3, TokenType.USER_DEFINED)
    long = encode_bytes(1, b"x" * 200 + b"\0")
    for message in (name + score + type_, type_ + name, encode_bytes(1, b"ab") + name + type_, long + score + type_):
        with pytest.raises(ValueError, match="NUL"):
            check_model(replaced(model, TOKENS, encode_bytes(TOKENS, message)))


def test_a_map_that_refers_outside_of_itself_is_refused(model: bytes) -> None:
    whole = field_of(field_of(model, NORMALIZER), CHARACTER_MAP)
    (size,) = struct.unpack_from("<I", whole)
    assert size > 1_000
    cut = [whole[:4], whole[: 4 + size], whole[:-1], whole[: 4 + size] + b"\0"]
    other_sizes = [struct.pack("<I", wrong) + whole[4:] for wrong in (3, 2**31)]
    for content in (*cut, *other_sizes, struct.pack("<II", 4, 1 << 30) + b"\0"):
        refused("damaged", Tokenizer, with_character_map(model, content))


@pytest.mark.integration
def test_no_damaged_map_ends_the_process(model: bytes, tmp_path: Path) -> None:
    whole = field_of(field_of(model, NORMALIZER), CHARACTER_MAP)
    generator, folder = random.Random(1), tmp_path / "models"
    folder.mkdir()
    for number in range(100):
        damaged = bytearray(whole)
        for _ in range(generator.choice([1, 10, 200])):
            damaged[generator.randrange(4, len(damaged))] = generator.randrange(256)
        (folder / str(number)).write_bytes(with_character_map(model, bytes(damaged)))
    program = (
        "import sys; from pathlib import Path; from contextlib import suppress; from specs import ZooError\n"
        "from zoo.text.tokenizer import Tokenizer\n"
        "for file in Path(sys.argv[1]).iterdir():\n"
        "    with suppress(ZooError):\n"
        "        Tokenizer(file.read_bytes()).encode('Hello \\ufdfa \\uff71 \\u00e4 \\u2460 \\u4f60 ' * 20)\n"
    )
    done = forks.run(program, str(folder))
    assert done.wait() == 0, done.stderr[-2_000:]
