"""Tiny foreign models: their files, and what they compute, in a few lines of numpy of their own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from safetensors.torch import save_file

Weights = dict[str, np.ndarray]
TEXT = [
    "the old dog sees a small house",
    "today we read two books about a house",
    "a small dog reads a book in the old house",
    "der alte Hund sieht ein kleines Haus",
    "heute lesen wir zwei Bücher über ein Haus",
    "ein kleiner Hund liest ein Buch im alten Haus",
]
D, FF, H, V = 8, 16, 2, 60


def sentence_pieces(lines: list[str], size: int, **settings: Any) -> bytes:
    """A SentencePiece model as Marian's are: EOS 0, UNK 1, no PAD and no BOS."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        model_type="unigram",
        pad_id=-1,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    return model.getvalue()


def opened(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


OPTIONS = {
    "type": "transformer",
    "dim-emb": D,
    "transformer-heads": H,
    "transformer-dim-ffn": FF,
    "enc-depth": 2,
    "dec-depth": 1,
    "dec-cell": "gru",
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention",
    "tied-embeddings-all": True,
    "tied-embeddings": False,
    "tied-embeddings-src": False,
    "output-omit-bias": False,
    "layer-normalization": False,
    "version": "v1.12.0 of a test",
}


def marian_weights(options: dict[str, Any], rows: tuple[int, int], seed: int = 0) -> Weights:
    """Random ones, called as Marian calls them."""
    draw = np.random.default_rng(seed)
    pre = options["transformer-preprocess"] == "n"
    found: Weights = {}

    def norm(name: str, suffix: str) -> None:
        found[f"{name}_ln_scale{suffix}"] = 1 + 0.1 * draw.standard_normal((1, D))
        found[f"{name}_ln_bias{suffix}"] = 0.1 * draw.standard_normal((1, D))

    def matrix(name: str, *shape: int) -> None:
        found[name] = draw.standard_normal(shape) * 0.4

    def attention(name: str) -> None:
        for letter in "qkvo":
            matrix(f"{name}_W{letter}", D, D)
            matrix(f"{name}_b{letter}", 1, D)
        norm(f"{name}_Wo", "_pre" if pre else "")

    for side, depth in (("encoder", options["enc-depth"]), ("decoder", options["dec-depth"])):
        for number in range(1, depth + 1):
            name = f"{side}_l{number}"
            if side == "decoder" and options["transformer-decoder-autoreg"] == "rnn":
                matrix(f"{name}_rnn_W", D, D)
                matrix(f"{name}_rnn_Wf", D, D)
                matrix(f"{name}_rnn_bf", 1, D)
                norm(f"{name}_rnn" + ("" if pre else "_ffn"), "_pre" if pre else "")
            else:
                attention(f"{name}_self")
            if side == "decoder":
                attention(f"{name}_context")
            for part, (high, wide) in ((1, (D, FF)), (2, (FF, D))):
                matrix(f"{name}_ffn_W{part}", high, wide)
                matrix(f"{name}_ffn_b{part}", 1, wide)
            norm(f"{name}_ffn_ffn", "_pre" if pre else "")
        if pre:
            norm(f"{side}_top", "")
    if options["tied-embeddings-all"]:
        matrix("Wemb", rows[0], D)
    else:
        matrix("encoder_Wemb", rows[0], D)
        matrix("decoder_Wemb", rows[1], D)
        if not options["tied-embeddings"]:
            matrix("decoder_ff_logit_out_Wt", rows[1], D)
    if not options["output-omit-bias"]:
        matrix("decoder_ff_logit_out_b", 1, rows[1])
    return {name: tensor.astype(np.float32) for name, tensor in found.items()}


class MarianModel:
    """The forward pass of Marian's Transformer, one sentence at a time."""

    def __init__(self, weights: Weights, options: dict[str, Any], halves: float = D / 2 - 1, epsilon: float = 1e-6):
        self.w, self.o, self.halves, self.epsilon = weights, options, halves, epsilon
        self.pre = options["transformer-preprocess"] == "n"

    def log_probabilities(self, source: list[int], target: list[int]) -> np.ndarray:
        """Of each token of the target, which ends with EOS, as the source does: [target, V]."""
        memory = self.stack("encoder", self.placed(self.table("encoder")[source]), None)
        before = np.concatenate([np.zeros((1, D)), self.table("decoder")[target[:-1]]])
        y = self.stack("decoder", self.placed(before), memory)
        tied = self.o["tied-embeddings-all"] or self.o["tied-embeddings"]
        logits = y @ (self.table("decoder") if tied else self.w["decoder_ff_logit_out_Wt"]).T
        logits = logits + self.w.get("decoder_ff_logit_out_b", 0.0)
        self.last_logits = logits
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def table(self, side: str) -> np.ndarray:
        return self.w["Wemb"] if self.o["tied-embeddings-all"] else self.w[f"{side}_Wemb"]

    def placed(self, x: np.ndarray) -> np.ndarray:
        angles = np.arange(len(x))[:, None] * 10000 ** (-np.arange(D // 2) / self.halves)
        return x * D**0.5 + np.concatenate([np.sin(angles), np.cos(angles)], 1)

    def stack(self, side: str, x: np.ndarray, memory: np.ndarray | None) -> np.ndarray:
        suffix = "_pre" if self.pre else ""
        for number in range(1, self.o["enc-depth" if side == "encoder" else "dec-depth"] + 1):
            name = f"{side}_l{number}"
            if side == "decoder" and self.o["transformer-decoder-autoreg"] == "rnn":
                x = self.residual(f"{name}_rnn" + ("" if self.pre else "_ffn"), suffix, x, self.ssru(name))
            else:
                x = self.residual(f"{name}_self_Wo", suffix, x, self.attention(f"{name}_self", None, side == "decoder"))
            if memory is not None:
                x = self.residual(f"{name}_context_Wo", suffix, x, self.attention(f"{name}_context", memory, False))
            x = self.residual(f"{name}_ffn_ffn", suffix, x, self.feed_forward(f"{name}_ffn"))
        return self.norm(f"{side}_top", "", x) if self.pre else x

    def residual(self, name: str, suffix: str, x: np.ndarray, inner: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return x + inner(self.norm(name, suffix, x)) if self.pre else self.norm(name, suffix, x + inner(x))

    def norm(self, name: str, suffix: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.epsilon)
        return scaled * self.w[f"{name}_ln_scale{suffix}"] + self.w[f"{name}_ln_bias{suffix}"]

    def attention(self, name: str, memory: np.ndarray | None, causal: bool) -> Callable[[np.ndarray], np.ndarray]:
        def inner(x: np.ndarray) -> np.ndarray:
            read = x if memory is None else memory
            sides = ((x, "q"), (read, "k"), (read, "v"))
            q, k, v = (of @ self.w[f"{name}_W{letter}"] + self.w[f"{name}_b{letter}"] for of, letter in sides)
            heads = []
            for h in np.split(np.arange(D), H):
                scores = q[:, h] @ k[:, h].T / (D // H) ** 0.5
                if causal:
                    scores = np.where(np.tri(*scores.shape) > 0, scores, -1e9)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, h])
            return np.concatenate(heads, 1) @ self.w[f"{name}_Wo"] + self.w[f"{name}_bo"]

        return inner

    def ssru(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        def inner(x: np.ndarray) -> np.ndarray:
            value = x @ self.w[f"{name}_rnn_W"]
            kept = 1 / (1 + np.exp(-(x @ self.w[f"{name}_rnn_Wf"] + self.w[f"{name}_rnn_bf"])))
            c, found = np.zeros(D), []
            for new, keep in zip(value, kept, strict=True):
                c = keep * c + (1 - keep) * new
                found.append(np.maximum(c, 0))
            return np.stack(found)

        return inner

    def feed_forward(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        def inner(x: np.ndarray) -> np.ndarray:
            wide = x @ self.w[f"{name}_W1"] + self.w[f"{name}_b1"]
            relu = self.o["transformer-ffn-activation"] == "relu"
            active = np.maximum(wide, 0) if relu else wide / (1 + np.exp(-wide))
            return active @ self.w[f"{name}_W2"] + self.w[f"{name}_b2"]

        return inner


def write_marian(
    folder: Path, options: dict[str, Any], weights: Weights, decoder: dict[str, Any] | None = None
) -> Path:
    """An .npz, and its decoder.yml where one is given."""
    written = yaml.safe_dump(options).encode() + b"\0"
    np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(written, np.int8), **weights})
    if decoder is not None:
        (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    return folder / "model.npz"


def as_transformers(weights: Weights) -> dict[str, torch.Tensor]:
    """Marian's matrices as transformers has them; `<pad>` is the last token, a row of zeros."""

    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(weights[name])

    found = {"model.shared.weight": torch.cat([tensor("Wemb"), torch.zeros(1, D)])}
    found["final_logits_bias"] = torch.cat([tensor("decoder_ff_logit_out_b"), torch.zeros(1, 1)], 1)
    for name in weights:
        if name.endswith("_Wq"):
            side, layer, part = name.removesuffix("_Wq").split("_")
            at = f"model.{side}.layers.{int(layer[1:]) - 1}." + ("self_attn" if part == "self" else "encoder_attn")
            for letter, theirs in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
                found[f"{at}.{theirs}.weight"] = tensor(f"{name[:-1]}{letter}").T.contiguous()
                found[f"{at}.{theirs}.bias"] = tensor(f"{name[:-2]}b{letter}").flatten()
            for theirs, ours in (("weight", "scale"), ("bias", "bias")):
                found[f"{at}_layer_norm.{theirs}"] = tensor(f"{name[:-1]}o_ln_{ours}").flatten()
        elif name.endswith("_ffn_W1"):
            side, layer, *_ = name.split("_")
            at, before = f"model.{side}.layers.{int(layer[1:]) - 1}", name.removesuffix("_W1")
            for part in "12":
                found[f"{at}.fc{part}.weight"] = tensor(f"{before}_W{part}").T.contiguous()
                found[f"{at}.fc{part}.bias"] = tensor(f"{before}_b{part}").flatten()
            for theirs, ours in (("weight", "scale"), ("bias", "bias")):
                found[f"{at}.final_layer_norm.{theirs}"] = tensor(f"{before}_ffn_ln_{ours}").flatten()
    return found


def write_transformers(folder: Path, weights: Weights, vocabulary: dict[str, int], models: tuple[bytes, bytes],
                       **config: Any) -> Path:  # fmt: skip
    """A folder of transformers' Marian."""
    folder.mkdir(exist_ok=True)
    rows = len(vocabulary)
    said = {
        "model_type": "marian", "d_model": D, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": H,
        "decoder_attention_heads": H, "encoder_ffn_dim": FF, "decoder_ffn_dim": FF, "activation_function": "swish",
        "scale_embedding": True, "vocab_size": rows, "decoder_vocab_size": rows, "eos_token_id": 0,
        "pad_token_id": rows - 1, "decoder_start_token_id": rows - 1, "max_position_embeddings": 64,
        "bad_words_ids": [[rows - 1]], "num_beams": 2, "max_length": 32, **config,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "deu"}))
    for side, model in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    save_file(as_transformers(weights), folder / "model.safetensors")
    return folder


@pytest.fixture
def tiny() -> SimpleNamespace:
    """All of this, for tests."""
    return SimpleNamespace(
        TEXT=TEXT,
        OPTIONS=OPTIONS,
        sentence_pieces=sentence_pieces,
        opened=opened,
        marian_weights=marian_weights,
        MarianModel=MarianModel,
        write_marian=write_marian,
        write_transformers=write_transformers,
    )
