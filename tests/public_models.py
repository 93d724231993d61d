"""Tiny checkpoints of fairseq in archives with the layout of public models, and cards that describe them."""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

import torch
import yaml

from tests.zoo.interop.test_fairseq import Model
from zoo.files import storage

WORDS = ("a", "b", "cc", "dd", "e", "f", "g", "h")
FOLDER = "wmt99.en-de.transformer"


def checkpoint(seed: int) -> bytes:
    """Return a checkpoint of fairseq with one layer and random weights."""
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    model = Model(seed, share_decoder_input_output_embed=True, target_lang="de", **layers)
    content = io.BytesIO()
    torch.save({"model": model.tensors, "args": argparse.Namespace(**model.options)}, content)
    return content.getvalue()


def pack(file: Path, checkpoints: dict[str, bytes]) -> None:
    """Write an archive with the layout of fairseq's published models."""
    words = "".join(f"{word} {9 - index}\n" for index, word in enumerate(WORDS)).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:bz2") as archive:
        archive.addfile(tarfile.TarInfo(f"._{FOLDER}"))  # as macOS writes it
        for name, content in {"dict.en.txt": words, "dict.de.txt": words, **checkpoints}.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def add_card(file_name: str, source: str, **fields: object) -> None:
    """Add a card to the catalogue of the user. `fields` may replace all other fields, including the name."""
    facts = {"url": "https://example.org/models", "date": "2026-01-31"}
    card = {"name": file_name, "description": "A small model.", "source": source, "facts": facts}
    card |= {"languages": {"pairs": "en-de"}, **fields}
    folder = storage.home() / "catalogue"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file_name}.yaml").write_text(yaml.safe_dump(card))
