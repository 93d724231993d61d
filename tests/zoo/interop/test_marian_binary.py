"""Models in Marian's binary format are the models in the .npz file; damaged files are rejected."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from specs import ZooError
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from tests.zoo.interop.test_marian import STUDENT, read
from zoo.interop.marian.files import read_arrays

INT8, FLOAT32, INTGEMM8 = 0x101, 0x404, 0x4101
Item = tuple[str, int, tuple[int, ...], bytes]


def pack(items: list[Item], version: int = 1) -> bytes:
    """Lay out a .bin file as Marian does. Quantised tensors are padded to 256 bytes, as in published models."""
    items = [(name, type, shape, data + bytes(-len(data) % 256)) for name, type, shape, data in items]
    names = [name.encode() + b"\0" for name, *_ in items]
    head = struct.pack("<QQ", version, len(items))
    for stored, (_, type, shape, data) in zip(names, items, strict=True):
        head += struct.pack("<4Q", len(stored), type, len(shape), len(data))
    head += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = 256 - (len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(data for *_, data in items)


def quantise(name: str, matrix: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Return the stored bytes of a matrix in intgemm8, and the float values that they stand for."""
    multiplier = np.float32(127 / np.abs(matrix).max())
    integers = np.rint(matrix * multiplier).astype(np.int8)
    stored = integers if "Wemb" in name else integers.T
    return stored.tobytes() + multiplier.tobytes(), integers * (np.float32(1) / multiplier)


def write(folder: Path, options: dict[str, Any], weights: dict[str, np.ndarray], int8: bool) -> dict[str, np.ndarray]:
    """Write `model.bin` and return the values of its tensors."""
    content = yaml.safe_dump(options).encode() + b"\0"
    items: list[Item] = [("special:model.yml", INT8, (len(content),), content)]
    values = {}
    for name, tensor in weights.items():
        if int8 and ("_W" in name[-4:] or name.endswith("Wemb")):  # Marian quantises matrices only
            data, values[name] = quantise(name, tensor)
            items.append((name, INTGEMM8, tensor.shape, data))
            items.append((f"{name}_QuantMultA", FLOAT32, (1, 1), struct.pack("<f", 9.5)))
        else:
            values[name] = tensor
            items.append((name, FLOAT32, tensor.shape, tensor.astype("<f4").tobytes()))
    (folder / "model.bin").write_bytes(pack(items))
    return values


@pytest.fixture
def student(tmp_path: Path) -> SimpleNamespace:
    """Create a student's vocabulary, options and weights in an otherwise empty folder."""
    options, vocabulary = tiny.MARIAN_OPTIONS | STUDENT, tiny.write_sentencepiece(tmp_path / "vocab.deen.spm")
    weights = tiny.marian_weights(options, vocabulary.get_piece_size())
    return SimpleNamespace(folder=tmp_path, options=options, weights=weights)


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_the_format_does_not_change_the_model(student: SimpleNamespace, int8: bool) -> None:
    values = write(student.folder, student.options, student.weights, int8)
    imported = read(student.folder).model
    (student.folder / "model.bin").unlink()
    tiny.write_marian(student.folder, student.options, values)
    expected = read(student.folder / "model.npz").model
    assert imported.weights.tensors.keys() == expected.weights.tensors.keys()
    for name, tensor in imported.weights.tensors.items():
        torch.testing.assert_close(tensor, expected.weights.tensors[name], rtol=1e-6, atol=0, msg=name)
    assert imported.spec.architecture == expected.spec.architecture


def test_search_is_firefoxs_and_its_vocabularies_are_found(student: SimpleNamespace) -> None:
    write(student.folder, student.options, student.weights, int8=False)
    spec = read(student.folder / "model.bin").model.spec
    assert (spec.decoding.beam, spec.decoding.alpha, spec.decoding.length_factor) == (1, 1, 2)
    for names in (("srcvocab.deen.spm", "trgvocab.deen.spm"), ("opus.src.spm", "opus.trg.spm"), ("de.spm", "en.spm")):
        for file in student.folder.glob("*.spm"):
            file.unlink()
        for name in names:
            tiny.write_sentencepiece(student.folder / name)
        assert read(student.folder, languages=("de", "en")).model.spec.vocabulary == spec.vocabulary
    refused(r"cannot find the vocabularies.*\s+hint: name them `source\.spm`", read, student.folder)


def test_costs_can_be_skipped_only_in_greedy_search(student: SimpleNamespace) -> None:
    write(student.folder, student.options, student.weights, int8=False)
    settings = {"models": ["model.bin"], "vocabs": ["vocab.deen.spm"] * 2, "normalize": 1, "skip-cost": True}
    for beam, context in ((1, nullcontext()), (2, pytest.raises(ZooError, match="skip-cost"))):
        (student.folder / "decoder.yml").write_text(yaml.safe_dump(settings | {"beam-size": beam}))
        with context:
            assert read(student.folder).model.spec.decoding.beam == beam


DAMAGED = (ZooError, ValueError, struct.error)


def open_bytes(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    read_arrays(file)


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    def packed(type: int, shape: tuple[int, ...], multiplier: float = 2, copies: int = 1, version: int = 1) -> bytes:
        return pack([("a_W", type, shape, bytes(6) + struct.pack("<f", multiplier))] * copies, version)

    file, content = tmp_path / "model.bin", packed(INTGEMM8, (2, 3))
    huge = struct.pack("<6Q", 1, 1, 2, FLOAT32, 1, 2**62) + b"a\0" + struct.pack("<iQ", 1, 2**63)
    open_bytes(file, content)
    for length in range(0, len(content), 7):
        with pytest.raises(DAMAGED):
            open_bytes(file, content[:length])
    for wrong, message in (
        (packed(INTGEMM8, (2, 3), version=2), "uses version 2 of the binary format"),
        (packed(INTGEMM8, (2, 3), copies=2), "a tensor twice"),
        (packed(INTGEMM8, (6,)), "does not match"),
        (packed(FLOAT32, (-2, -3)), "does not match"),
        (packed(INTGEMM8, (2**31 - 1, 2**31 - 1)), "does not match"),
        (packed(0x18001, (2, 3)), "the type 0x18001"),
        (packed(INTGEMM8, (2, 3), 0), "multiplier of `a_W` is 0.0"),
        (packed(INTGEMM8, (2, 3), float("nan")), "multiplier of `a_W` is nan"),
        (struct.pack("<2Q", 1, 2**60), "truncated"),
        (huge, "does not match|truncated"),
    ):
        with pytest.raises(DAMAGED, match=message):
            open_bytes(file, wrong)
