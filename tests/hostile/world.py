"""Files that all cases share: two published models with random weights, a run, a registry, and foreign models."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

import specs
import zoo
from compiler import build
from specs import BOS, EOS, PAD, UNK, Spec
from tests.examples import examples
from zoo.files import manifest
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.models.weights import Weights
from zoo.publishing import publish
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

PAIRS = (
    ("the old dog sees a small house", "der alte Hund sieht ein kleines Haus"),
    ("we read two books today", "heute lesen wir zwei Bücher"),
    ("she does not know the man", "sie kennt den Mann nicht"),
    ("do you see the cat?", "siehst du die Katze?"),
)
LINES = [*(source for source, _ in PAIRS), "", "two old cats"]
GOOD, OTHER = "good", "other"
_FILES = [{"source": "pairs.en", "target": "pairs.de"}]
FIELDS: dict[str, dict[str, Any]] = {
    "architecture": {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4},
    "vocabulary": {"size": 101},
    "corpus": {"train": _FILES, "dev": _FILES, "test": _FILES},
    "training": {"steps": 1, "checkpoint_steps": 1, "average": 1},
    "decoding": {"extra_length": 3},
    "compilation": {"backend": "eager"},
}


@dataclass(frozen=True)
class World:
    """The shared files. Nothing may change them once they are made."""

    folder: Path

    @property
    def store(self) -> Path:
        """Local model store with GOOD and OTHER."""
        return self.folder / "home" / "models"

    @property
    def run(self) -> Path:
        """Run of GOOD, as after training."""
        return self.folder / "runs" / GOOD

    @property
    def foreign(self) -> Path:
        """Folder with one model per foreign format, named after the format."""
        return self.folder / "foreign"

    @property
    def registry(self) -> Path:
        """Registry with OTHER, and two revisions of GOOD, the second of which is the one in the store."""
        return self.folder / "registry"

    @cached_property
    def spec(self) -> Spec:
        """Spec of both models."""
        return specs.load("tiny", {**FIELDS, "name": GOOD})

    @cached_property
    def translator(self) -> Translator:
        """Translator of GOOD."""
        return zoo.load(str(self.run), device="cpu")

    @cached_property
    def hypotheses(self) -> list[list[Translation]]:
        """Two translations by GOOD of each of LINES."""
        return self.translator.hypotheses(LINES, n_best=2)

    def write_corpus(self, folder: Path) -> None:
        """Write the files that the spec's corpus names."""
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in PAIRS)
            (folder / f"pairs.{language}").write_text(text, encoding="utf-8")

    def make(self) -> None:
        """Write all files into the folder, which is empty."""
        os.environ["ZOO_HOME"] = str(self.folder / "home")
        with chdir(self.folder):
            self.write_corpus(self.folder)
            for name, seed in ((OTHER, 2), (GOOD, 1)):
                self._publish(name, seed)
            _write_foreign(self.foreign, self.run / "vocabulary.model")
            self._upload()

    def _upload(self) -> None:
        """Upload copies, because an upload notes in the bundle where it went. The first revision has another card."""
        for name, original in (("before", GOOD), (GOOD, GOOD), (OTHER, OTHER)):
            folder = self.folder / "uploaded" / name
            shutil.copytree(self.store / original, folder)
            if name == "before":
                (folder / "README.md").write_text("the first card\n")
                manifest.write(folder)
            publish.upload(folder, str(self.registry))

    def _publish(self, name: str, seed: int) -> None:
        run = Run(self.folder / "runs" / name)
        run.folder.mkdir(parents=True)
        spec = self.spec.model_copy(update={"name": name})
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        lines = [(source[:: 3 - 2 * seed], target) for source, target in PAIRS * 3]  # OTHER reads backwards
        Vocabulary.learn(lambda: examples(lines), self.spec.vocabulary).save(run.folder)
        training = self.spec.training.model_copy(update={"seed": seed})
        weights = build(self.spec.model_copy(update={"training": training})).weights()
        Weights(weights, {"steps": "3,6,9", "longest_source": "31"}).write(run.weights)
        publish.publish(run.folder, name=name)


# Models of other toolkits

D, D_FF, HEADS = 8, 12, 2
SIDES = ("encoder", "decoder")
WORDS = ("the", "old", "dog", "a", "small", "house", "cat")
MARIAN_OPTIONS: dict[str, Any] = {
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


def _write_foreign(folder: Path, vocabulary: Path) -> None:
    """Write a model in each format that can be imported; `vocabulary` is a SentencePiece model."""
    torch.manual_seed(7)
    tokens = Vocabulary.load(vocabulary.parent)
    names = [str(tokens.source.model.id_to_piece(number)) for number in range(tokens.sizes[0])]  # type: ignore[union-attr]
    writers = {"marian": _marian, "hf-marian": _transformers, "hf-multilingual": _nllb, "hf-t5": _t5}
    writers |= {"ctranslate2": _ctranslate2, "fairseq": _fairseq}
    for name, writer in writers.items():
        (folder / name).mkdir(parents=True)
        writer(folder / name, vocabulary, names)


def _attentions(side: str) -> tuple[str, ...]:
    return ("self", "context") if side == "decoder" else ("self",)


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape) / 3


def _marian(folder: Path, vocabulary: Path, names: list[str]) -> None:
    tensors = {"Wemb": _normal(len(names), D), "decoder_ff_logit_out_b": _normal(1, len(names))}
    for side in SIDES:
        layer = f"{side}_l1"
        for part in _attentions(side):
            for letter in "qkvo":
                tensors[f"{layer}_{part}_W{letter}"] = _normal(D, D)
                tensors[f"{layer}_{part}_b{letter}"] = _normal(1, D)
        for number, shape in (("1", (D, D_FF)), ("2", (D_FF, D))):
            tensors[f"{layer}_ffn_W{number}"], tensors[f"{layer}_ffn_b{number}"] = _normal(*shape), _normal(1, shape[1])
        for norm in (*(f"{part}_Wo" for part in _attentions(side)), "ffn_ffn"):
            tensors[f"{layer}_{norm}_ln_scale"], tensors[f"{layer}_{norm}_ln_bias"] = _normal(1, D), _normal(1, D)
    options = np.frombuffer(yaml.safe_dump(MARIAN_OPTIONS).encode() + b"\0", np.int8)
    arrays = {"special:model.yml": options, **{key: tensor.numpy() for key, tensor in tensors.items()}}
    np.savez(folder / "model.npz", **arrays)
    decoder = {"models": ["model.npz"], "vocabs": ["v.spm", "v.spm"], "beam-size": 2, "normalize": 0.6}
    (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    shutil.copyfile(vocabulary, folder / "v.spm")


def _torch_layers(prefix: str) -> dict[str, Tensor]:
    """Return one layer of each side, named as in transformers and fairseq."""
    attention = {"self": "self_attn", "context": "encoder_attn"}
    tensors: dict[str, Tensor] = {}

    def linear(name: str, inner: int, outer: int) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = _normal(outer, inner), _normal(outer)

    for side in SIDES:
        layer = f"{prefix}{side}.layers.0"
        for part in _attentions(side):
            for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear(f"{layer}.{attention[part]}.{projection}", D, D)
        linear(f"{layer}.fc1", D, D_FF)
        linear(f"{layer}.fc2", D_FF, D)
        for norm in (*(f"{attention[part]}_layer_norm" for part in _attentions(side)), "final_layer_norm"):
            tensors[f"{layer}.{norm}.weight"], tensors[f"{layer}.{norm}.bias"] = _normal(D), _normal(D)
    return tensors


def _transformers(folder: Path, vocabulary: Path, names: list[str]) -> None:
    rows = len(names)
    tensors = _torch_layers("model.")
    tensors |= {"model.shared.weight": _normal(rows, D), "final_logits_bias": _normal(1, rows)}
    save_file(tensors, folder / "model.safetensors")
    sides = {f"{side}_{key}": value for side in SIDES for key, value in (("attention_heads", HEADS), ("ffn_dim", D_FF))}
    sizes = {"d_model": D, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": rows, "decoder_vocab_size": rows}
    ids = {"eos_token_id": EOS, "pad_token_id": PAD, "decoder_start_token_id": BOS, "bad_words_ids": [[PAD]]}
    limits = {"max_position_embeddings": 64, "num_beams": 2, "max_length": 32}
    kind = {"model_type": "marian", "activation_function": "swish", "scale_embedding": True}
    (folder / "config.json").write_text(json.dumps({**kind, **sides, **sizes, **ids, **limits}))
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "deu"}))
    for side in ("source", "target"):
        shutil.copyfile(vocabulary, folder / f"{side}.spm")


def _nllb(folder: Path, vocabulary: Path, names: list[str]) -> None:
    tokens, codes = ["<s>", "<pad>", "</s>", "<unk>", *names[4:]], ["eng_Latn", "deu_Latn"]
    rows, known = len(tokens) + len(codes), set(names)
    tensors = {**_torch_layers("model."), "model.shared.weight": _normal(rows, D)}
    for side in SIDES:
        tensors |= {f"model.{side}.layer_norm.{name}": _normal(D) for name in ("weight", "bias")}
    save_file(tensors, folder / "model.safetensors")
    sides = {f"{side}_{key}": value for side in SIDES for key, value in (("attention_heads", HEADS), ("ffn_dim", D_FF))}
    sizes = {"d_model": D, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": rows, "max_length": 32}
    (folder / "config.json").write_text(json.dumps({"model_type": "m2m_100", **sides, **sizes}))
    splits = ((name[:cut], name[cut:]) for name in names for cut in range(1, len(name)))
    merges = [pair for pair in splits if known.issuperset(pair)]
    model = {"type": "BPE", "vocab": {name: number for number, name in enumerate(tokens)}, "merges": merges}
    added = [{"id": number, "content": code} for number, code in enumerate(codes, start=len(tokens))]
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "normalizer": None, "added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "NllbTokenizer"}))


def _t5(folder: Path, vocabulary: Path, names: list[str]) -> None:
    tokens: list[list[Any]] = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    tokens += [[name, -float(number)] for number, name in enumerate(names[4:], start=1)]
    rows = len(tokens) + 2
    attention = {"q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D)}
    tensors = {"shared.weight": _normal(rows, D)}
    for side in SIDES:
        parts = ["SelfAttention", *(["EncDecAttention"] if side == "decoder" else [])]
        for index, part in enumerate([*parts, "DenseReluDense"]):
            layer = f"{side}.block.0.layer.{index}"
            tensors[f"{layer}.layer_norm.weight"] = _normal(D)
            shapes = {"wi": (D_FF, D), "wo": (D, D_FF)} if part == "DenseReluDense" else attention
            tensors |= {f"{layer}.{part}.{name}.weight": _normal(*shape) for name, shape in shapes.items()}
        tensors[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = _normal(8, HEADS)
        tensors[f"{side}.final_layer_norm.weight"] = _normal(D)
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "t5", "d_model": D, "d_kv": D // HEADS, "d_ff": D_FF, "num_layers": 1, "num_heads": HEADS}
    config |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "vocab_size": rows}
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 1, "decoder_start_token_id": 0}))
    tokenizer = {"model": {"type": "Unigram", "unk_id": 2, "vocab": tokens}, "normalizer": None}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": [{"id": 1, "content": "</s>"}]}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 1, "added_tokens_decoder": {}}))


def _ctranslate2_variables(rows: int) -> Iterator[tuple[str, Tensor]]:
    def linear(name: str, inner: int, outer: int) -> Iterator[tuple[str, Tensor]]:
        yield f"{name}/weight", _normal(outer, inner)
        yield f"{name}/bias", _normal(outer)

    for side in SIDES:
        layer = f"{side}/layer_0"
        for name, widths in (("self_attention", (3 * D, D)), ("attention", (D, 2 * D, D)))[: 1 + (side == "decoder")]:
            for number, width in enumerate(widths):
                yield from linear(f"{layer}/{name}/linear_{number}", D, width)
        yield from linear(f"{layer}/ffn/linear_0", D, D_FF)
        yield from linear(f"{layer}/ffn/linear_1", D_FF, D)
        for name in ("self_attention", "attention", "ffn") if side == "decoder" else ("self_attention", "ffn"):
            yield f"{layer}/{name}/layer_norm/gamma", _normal(D)
            yield f"{layer}/{name}/layer_norm/beta", _normal(D)
    yield "encoder/embeddings_0/weight", _normal(rows, D)
    yield "decoder/embeddings/weight", _normal(rows, D)
    yield from linear("decoder/projection", D, rows)
    yield "num_heads", torch.tensor(HEADS, dtype=torch.int16)
    yield "pre_norm", torch.tensor(0, dtype=torch.int8)


def ctranslate2_text(value: str) -> bytes:
    """Return a string as `model.bin` stores it."""
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def ctranslate2_variable(name: str, tensor: Tensor) -> bytes:
    """Return a variable as `model.bin` stores it."""
    kinds = {torch.float32: 0, torch.int8: 1, torch.int16: 2}
    shape = struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape)
    content = struct.pack("<BI", kinds[tensor.dtype], tensor.nbytes) + tensor.numpy().tobytes()
    return ctranslate2_text(name) + shape + content


def _ctranslate2(folder: Path, vocabulary: Path, names: list[str]) -> None:
    variables = [ctranslate2_variable(name, tensor) for name, tensor in _ctranslate2_variables(len(names))]
    head = struct.pack("<I", 6) + ctranslate2_text("TransformerSpec") + struct.pack("<II", 7, len(variables))
    (folder / "model.bin").write_bytes(head + b"".join(variables) + struct.pack("<I", 0))
    (folder / "shared_vocabulary.json").write_text(json.dumps(names))
    tokens = {"unk_token": names[UNK], "bos_token": names[BOS], "eos_token": names[EOS]}
    config = {**tokens, "decoder_start_token": names[BOS], "add_source_eos": True, "layer_norm_epsilon": 1e-5}
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copyfile(vocabulary, folder / "sentencepiece.model")


def _fairseq(folder: Path, vocabulary: Path, names: list[str]) -> None:
    tensors, rows = _torch_layers(""), 4 + len(WORDS)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        tensors[f"{name}.weight"] = _normal(rows, D)
    sizes = {"embed_dim": D, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 1}
    options: dict[str, Any] = {f"{side}_{key}": value for side in SIDES for key, value in sizes.items()}
    options |= {"arch": "transformer", "task": "translation", "source_lang": "en", "target_lang": "de"}
    torch.save({"args": argparse.Namespace(**options), "model": tensors}, folder / "checkpoint_best.pt")
    for language in ("en", "de"):
        lines = "".join(f"{word} {9 - index}\n" for index, word in enumerate(WORDS))
        (folder / f"dict.{language}.txt").write_text(lines)
