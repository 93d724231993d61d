"""Tiny checkpoints of fairseq in archives with the layout of public models, and cards that describe them."""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

import torch
import yaml

from zoo.files import storage

WORDS = ("a", "b", "cc", "dd", "e", "f", "g", "h")
FOLDER = "wmt99.en-de.transformer"
D_MODEL, D_FF = 8, 16


def checkpoint(seed: int) -> bytes:
    """Return a checkpoint of fairseq with one layer and random weights."""
    draw = torch.Generator().manual_seed(seed)
    tensors = {}

    def linear(name, inputs, outputs):
        tensors[f"{name}.weight"] = torch.randn(outputs, inputs, generator=draw) / 3
        tensors[f"{name}.bias"] = torch.randn(outputs, generator=draw) / 3

    def norm(name):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.ones(D_MODEL), torch.zeros(D_MODEL)

    for side in ("encoder", "decoder"):
        tensors[f"{side}.embed_tokens.weight"] = torch.randn(4 + len(WORDS), D_MODEL, generator=draw) / 2
        layer = f"{side}.layers.0"
        for part in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
            for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
                linear(f"{layer}.{part}.{projection}", D_MODEL, D_MODEL)
            norm(f"{layer}.{part}_layer_norm")
        linear(f"{layer}.fc1", D_MODEL, D_FF)
        linear(f"{layer}.fc2", D_FF, D_MODEL)
        norm(f"{layer}.final_layer_norm")
    sizes = {"embed_dim": D_MODEL, "ffn_embed_dim": D_FF, "attention_heads": 2, "layers": 1}
    options = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()}
    options |= {"share_decoder_input_output_embed": True, "arch": "transformer", "task": "translation"}
    options |= {"source_lang": "en", "target_lang": "de"}
    content = io.BytesIO()
    torch.save({"model": tensors, "args": argparse.Namespace(**options)}, content)
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
    card = {
        "name": file_name,
        "description": "A small model.",
        "source": source,
        "languages": {"pairs": "en-de"},
        "facts": {"url": "https://example.org/models", "date": "2026-01-31"},
        **fields,
    }
    folder = storage.home() / "catalogue"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file_name}.yaml").write_text(yaml.safe_dump(card))
