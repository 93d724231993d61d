"""A SentencePiece model with other numbers cuts text as it did."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.interop import wire
from zoo.interop.numbering import NEVER, Numbering
from zoo.interop.sentence_model import SentenceModel


def model(tiny: SimpleNamespace, folder: Path, **settings: object) -> SentenceModel:
    size = 330 if settings.get("byte_fallback") else 60
    (folder / "a.spm").write_bytes(tiny.sentence_pieces(tiny.TEXT, size, **settings))
    return SentenceModel(folder / "a.spm")


@pytest.mark.parametrize("settings", [{}, {"byte_fallback": True}], ids=["letters", "bytes"])
def test_text_is_cut_as_before(tiny: SimpleNamespace, tmp_path: Path, settings: dict[str, object]) -> None:
    read = model(tiny, tmp_path, **settings)
    before = tiny.opened(read.file.read_bytes())
    names = read.named()
    order = random.Random(3).sample(names[2:], len(names) - 2)
    bytes_first = [name for name in names if name.startswith("<0x")]
    numbering = Numbering.of(["</s>", "<unk>", *order], unknown=1, end=0, first=bytes_first)
    tokens = read.numbered(numbering)
    assert tokens.byte_fallback == bool(settings)
    for line in [*tiny.TEXT, "Ω is unknown", "old  spaces"]:
        cut = before.encode(line, out_type=str)
        known = [name if before.piece_to_id(name) != 1 else "⁇" for name in cut]
        assert tokens.named(tokens.encode(line)) == known
        assert [numbering.names[number] for number in tokens.encode(line) if number != UNK] == [
            name for name in known if name != "⁇"
        ]


def test_pieces_it_does_not_know_are_never_cut_off(tiny: SimpleNamespace, tmp_path: Path) -> None:
    read = model(tiny, tmp_path)
    numbering = Numbering.of([*read.named(), "▁the▁old▁dog", "<s>"], unknown=1, end=0)
    tokens = read.numbered(numbering)
    unused = numbering.names.index("▁the▁old▁dog")
    assert unused not in tokens.encode("the old dog")
    assert tokens.decode([unused]) == "the old dog"


def test_a_code_of_a_language_is_cut_off_at_the_beginning(tiny: SimpleNamespace, tmp_path: Path) -> None:
    read = model(tiny, tmp_path)
    numbering = Numbering.of([*read.named(), ">>deu<<"], unknown=1, end=0)
    tokens = read.numbered(numbering)
    assert tokens.encode(">>deu<< the dog") == [numbering.names.index(">>deu<<"), *tokens.encode("the dog")]


def test_two_models_of_merges_are_refused(tiny: SimpleNamespace, tmp_path: Path) -> None:
    read = model(tiny, tmp_path)
    read._trainer += wire.whole(3, 2)
    assert read.kind == "bpe"
    with pytest.raises(ZooError, match="merges pairs"):
        read.numbered(Numbering.of([*read.named(), "more"], unknown=1, end=0))
    read._trainer += wire.whole(3, 4)
    with pytest.raises(ZooError, match="characters"):
        _ = read.kind


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x0a", b"\x0a\x02\x0a\xff", b"text"])
def test_what_is_no_model_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.spm").write_bytes(content)
    with pytest.raises(ZooError, match="is damaged"):
        SentenceModel(tmp_path / "a.spm")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(message: bytes) -> None:
    with suppress(ValueError):
        assert b"".join(field.written for field in wire.fields(message)) == message


@given(st.integers(0, 2**63), st.binary(max_size=300))
def test_a_message_is_read_as_it_was_written(value: int, text: bytes) -> None:
    first, second = wire.fields(wire.whole(3, value) + wire.of_bytes(1, text))
    assert (first.number, first.value, second.number, second.value) == (3, value, 1, text)


def test_rows_and_biases_follow_the_numbers() -> None:
    names = ["</s>", "<unk>", "a", "b", "<pad>"]
    numbering = Numbering.of(names, unknown=1, end=0, start=4, read_as_unknown=["c"])
    assert numbering.names == ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "c"]
    table = torch.arange(5.0)[:, None] + 1
    assert numbering.rows(table).flatten().tolist() == [0, 2, 5, 1, 3, 4, 2]
    assert numbering.bias(torch.arange(5.0)).tolist() == [NEVER, 1, 4, 0, 2, 3, NEVER]
    assert [numbering.id(row) for row in range(5)] == [EOS, UNK, 4, 5, BOS]
    assert PAD == 0
