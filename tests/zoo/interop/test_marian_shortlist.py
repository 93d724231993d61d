"""Shortlists in Marian's binary format; damaged files are rejected."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from specs import EOS
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from tests.zoo.interop.test_marian import STUDENT, read
from tests.zoo.interop.test_marian_binary import write
from zoo.interop.formats import ImportRequest
from zoo.interop.marian.vocabulary import MAGIC, read_shortlist, read_vocabulary

FREQUENT = 5
NAME = "lex.50.50.deen.s2t.bin"


def pack(lists: Sequence[Sequence[int]], frequent: int = FREQUENT) -> bytes:
    """Lay out a shortlist as Marian does."""
    offsets = np.cumsum([0, *map(len, lists)])
    tokens = [token for each in lists for token in sorted(each)]
    head = struct.pack("<4Q", frequent, 50, len(offsets), len(tokens))
    return with_checksum(head + offsets.astype("<u8").tobytes() + np.array(tokens, "<u4").tobytes())


def with_checksum(body: bytes) -> bytes:
    state = 0
    for (word,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        state = state ^ (word + 0x9E3779B9 + state * 64 + state // 4) % 2**64
    return struct.pack("<2Q", MAGIC, state) + body


@pytest.fixture
def student(tmp_path: Path) -> SimpleNamespace:
    """Write a model, and draw a list for each of its tokens but the last three."""
    processor = tiny.write_sentencepiece(tmp_path / "vocab.deen.spm")
    size = processor.get_piece_size()
    write(tmp_path, options := tiny.MARIAN_OPTIONS | STUDENT, tiny.marian_weights(options, size), int8=True)
    draw = random.Random(0)
    lists = [draw.sample(range(size), draw.randrange(9)) for _ in range(size - 3)]
    vocabulary = read_vocabulary((tmp_path / "vocab.deen.spm",) * 2, (size, size), ImportRequest("mine"))
    names = [processor.id_to_piece(token) for token in range(size)]
    return SimpleNamespace(folder=tmp_path, size=size, lists=lists, names=names, vocabulary=vocabulary)


def test_an_import_converts_the_shortlist_to_its_own_token_ids(student: SimpleNamespace) -> None:
    (student.folder / NAME).write_bytes(pack(student.lists))
    imported = read(student.folder)
    assert imported.model.shortlist is not None
    assert imported.model.spec.decoding.shortlist is False
    assert any(NAME in note and "--shortlist" in note for note in imported.notes)
    tokens = imported.model.vocabulary.token_strings(range(imported.model.vocabulary.sizes[1]))
    id_of = {name: tokens.index(name) for name in student.names if name in tokens}
    assert len(id_of) > student.size - 4
    common = {id_of[name] for name in student.names[:FREQUENT] if name in id_of}
    for row, name in enumerate(student.names):
        if name in id_of and name not in ("<unk>", "</s>"):
            listed = {*imported.model.shortlist.tokens_of([id_of[name]]).tolist()}
            own = student.lists[row] if row < len(student.lists) else []
            expected = {id_of[student.names[token]] for token in own if student.names[token] in id_of}
            assert expected | common | {id_of[name], EOS} <= listed, "a token can be copied"
            assert len(listed) <= len(own) + FREQUENT + 2


def test_a_folder_has_no_shortlist_or_several(student: SimpleNamespace) -> None:
    assert read(student.folder).model.shortlist is None
    for name in (NAME, "lex.50.50.ende.s2t.bin"):
        (student.folder / name).write_bytes(pack(student.lists))
    imported = read(student.folder)
    assert imported.model.shortlist is None
    assert any("the folder has 2" in note for note in imported.notes)


def test_damaged_files_are_rejected(student: SimpleNamespace) -> None:
    size, content = student.size, pack(student.lists)

    def open_bytes(content: bytes) -> None:
        (student.folder / NAME).write_bytes(content)
        read_shortlist(student.folder / NAME, student.vocabulary, (size, size))

    open_bytes(content)
    for length in range(0, len(content), 97):
        refused("is damaged: it", open_bytes, content[:length])
    flipped = bytearray(content)
    flipped[-9] ^= 1
    body, token = struct.Struct("<7Q"), struct.pack("<I", 1)
    for wrong, message in (
        (bytes(flipped), "checksum"),
        (pack([[1]] * (size + 1)), "source tokens, but the vocabulary"),
        (pack([[size]]), "outside the target vocabulary"),
        (with_checksum(body.pack(5, 50, 3, 1, 0, 2**63, 1) + token), "offsets do not match"),
        (with_checksum(body.pack(5, 50, 3, 1, 0, 1, 0) + token), "offsets do not match"),
        (with_checksum(struct.pack("<4Q", 5, 50, 0, 0)), "do not match its header"),
        (with_checksum(struct.pack("<4Q", 5, 50, 2**61, 0)), "do not match its header"),
    ):
        refused(message, open_bytes, wrong)
    open_bytes(pack([[1]], frequent=2**64 - 1))
