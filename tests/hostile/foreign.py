"""Tiny models of other toolkits, of random numbers, in each format that is imported."""

from __future__ import annotations

import argparse
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

from specs import BOS, EOS, PAD, UNK
from zoo.text.vocabulary import Vocabulary

D, D_FF, HEADS = 8, 12, 2
SIDES = ("encoder", "decoder")
WORDS = ("the", "old", "dog", "a", "small", "house", "cat")
OPTIONS: dict[str, Any] = {
    "type": "transformer",
    "dim-emb": D,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": D_FF,
    "enc-depth": 1,
    "dec-depth": 1,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-decoder-autoreg": "self-attention",
    "tied-embeddings-all": True,
    "output-omit-bias": False,
    "version": "v1.12.0",
}


def write(folder: Path, vocabulary: Path) -> None:
    """A folder for each format; `vocabulary` is a SentencePiece model."""
    torch.manual_seed(7)
    tokens = Vocabulary.load(vocabulary.parent)
    names = [str(tokens.source.model.id_to_piece(number)) for number in range(tokens.sizes[0])]  # type: ignore[union-attr]
    for name, writer in (("marian", _marian), ("hf-marian", _transformers), ("ctranslate2", _ctranslate2)):
        (folder / name).mkdir(parents=True)
        writer(folder / name, vocabulary, names)
    (folder / "fairseq").mkdir()
    _fairseq(folder / "fairseq")


def _attentions(side: str) -> tuple[str, ...]:
    return ("self", "context") if side == "decoder" else ("self",)


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape) / 3


def _marian(folder: Path, vocabulary: Path, names: list[str]) -> None:
    found = {"Wemb": _normal(len(names), D), "decoder_ff_logit_out_b": _normal(1, len(names))}
    for side in SIDES:
        at = f"{side}_l1"
        for part in _attentions(side):
            for letter in "qkvo":
                found[f"{at}_{part}_W{letter}"], found[f"{at}_{part}_b{letter}"] = _normal(D, D), _normal(1, D)
        for number, shape in (("1", (D, D_FF)), ("2", (D_FF, D))):
            found[f"{at}_ffn_W{number}"], found[f"{at}_ffn_b{number}"] = _normal(*shape), _normal(1, shape[1])
        for norm in (*(f"{part}_Wo" for part in _attentions(side)), "ffn_ffn"):
            found[f"{at}_{norm}_ln_scale"], found[f"{at}_{norm}_ln_bias"] = _normal(1, D), _normal(1, D)
    options = np.frombuffer(yaml.safe_dump(OPTIONS).encode() + b"\0", np.int8)
    np.savez(
        folder / "model.npz", **{"special:model.yml": options, **{key: each.numpy() for key, each in found.items()}}
    )
    decoder = {"models": ["model.npz"], "vocabs": ["v.spm", "v.spm"], "beam-size": 2, "normalize": 0.6}
    (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    shutil.copyfile(vocabulary, folder / "v.spm")


def _torch_layers(attention: dict[str, str], prefix: str) -> dict[str, Tensor]:
    """One layer of each side, as torch's toolkits call them."""
    found: dict[str, Tensor] = {}

    def linear(name: str, inner: int, outer: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = _normal(outer, inner), _normal(outer)

    for side in SIDES:
        at = f"{prefix}{side}.layers.0"
        for part in _attentions(side):
            for projection in "qkv":
                linear(f"{at}.{attention[part]}.{projection}_proj", D, D)
            linear(f"{at}.{attention[part]}.out_proj", D, D)
        linear(f"{at}.fc1", D, D_FF)
        linear(f"{at}.fc2", D_FF, D)
        for norm in (*(f"{attention[part]}_layer_norm" for part in _attentions(side)), "final_layer_norm"):
            found[f"{at}.{norm}.weight"], found[f"{at}.{norm}.bias"] = _normal(D), _normal(D)
    return found


_TORCH = {"self": "self_attn", "context": "encoder_attn"}


def _transformers(folder: Path, vocabulary: Path, names: list[str]) -> None:
    rows = len(names)
    found = _torch_layers(_TORCH, "model.")
    found |= {"model.shared.weight": _normal(rows, D), "final_logits_bias": _normal(1, rows)}
    save_file(found, folder / "model.safetensors")
    sides = {f"{side}_{key}": value for side in SIDES for key, value in (("attention_heads", HEADS), ("ffn_dim", D_FF))}
    said = {
        "model_type": "marian",
        "d_model": D,
        "encoder_layers": 1,
        "decoder_layers": 1,
        **sides,
        "activation_function": "swish",
        "scale_embedding": True,
        "vocab_size": rows,
        "decoder_vocab_size": rows,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "decoder_start_token_id": BOS,
        "max_position_embeddings": 64,
        "num_beams": 2,
        "max_length": 32,
        "bad_words_ids": [[PAD]],
    }
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "deu"}))
    for side in ("source", "target"):
        shutil.copyfile(vocabulary, folder / f"{side}.spm")


def _variables(rows: int) -> Iterator[tuple[str, Tensor]]:
    """As CTranslate2 calls them."""

    def linear(name: str, inner: int, outer: int) -> Iterator[tuple[str, Tensor]]:
        yield f"{name}/weight", _normal(outer, inner)
        yield f"{name}/bias", _normal(outer)

    def norm(name: str) -> Iterator[tuple[str, Tensor]]:
        yield f"{name}/layer_norm/gamma", _normal(D)
        yield f"{name}/layer_norm/beta", _normal(D)

    for side in SIDES:
        at = f"{side}/layer_0"
        for name, widths in (("self_attention", (3 * D, D)), ("attention", (D, 2 * D, D)))[: 1 + (side == "decoder")]:
            for number, width in enumerate(widths):
                yield from linear(f"{at}/{name}/linear_{number}", D, width)
            yield from norm(f"{at}/{name}")
        yield from linear(f"{at}/ffn/linear_0", D, D_FF)
        yield from linear(f"{at}/ffn/linear_1", D_FF, D)
        yield from norm(f"{at}/ffn")
    yield "encoder/embeddings_0/weight", _normal(rows, D)
    yield "decoder/embeddings/weight", _normal(rows, D)
    yield from linear("decoder/projection", D, rows)
    yield "num_heads", torch.tensor(HEADS, dtype=torch.int16)
    yield "pre_norm", torch.tensor(0, dtype=torch.int8)


def text(value: str) -> bytes:
    """As `model.bin` has it."""
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def variable(name: str, tensor: Tensor) -> bytes:
    """The same."""
    kinds = {torch.float32: 0, torch.int8: 1, torch.int16: 2}
    shape = struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape)
    return text(name) + shape + struct.pack("<BI", kinds[tensor.dtype], tensor.nbytes) + tensor.numpy().tobytes()


def _ctranslate2(folder: Path, vocabulary: Path, names: list[str]) -> None:
    each = [variable(name, tensor) for name, tensor in _variables(len(names))]
    head = struct.pack("<I", 6) + text("TransformerSpec") + struct.pack("<II", 7, len(each))
    (folder / "model.bin").write_bytes(head + b"".join(each) + struct.pack("<I", 0))
    (folder / "shared_vocabulary.json").write_text(json.dumps(names))
    tokens = {"unk_token": names[UNK], "bos_token": names[BOS], "eos_token": names[EOS]}
    said = {**tokens, "decoder_start_token": names[BOS], "add_source_eos": True, "layer_norm_epsilon": 1e-5}
    (folder / "config.json").write_text(json.dumps(said))
    shutil.copyfile(vocabulary, folder / "sentencepiece.model")


def _fairseq(folder: Path) -> None:
    found, rows = _torch_layers(_TORCH, ""), 4 + len(WORDS)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        found[f"{name}.weight"] = _normal(rows, D)
    sizes = {"embed_dim": D, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 1}
    options = {f"{side}_{key}": value for side in SIDES for key, value in sizes.items()}
    options |= {"arch": "transformer", "task": "translation", "source_lang": "en", "target_lang": "de"}  # type: ignore[dict-item]
    torch.save({"args": argparse.Namespace(**options), "model": found}, folder / "checkpoint_best.pt")
    for language in ("en", "de"):
        lines = "".join(f"{word} {9 - place}\n" for place, word in enumerate(WORDS))
        (folder / f"dict.{language}.txt").write_text(lines)
