"""transformers' Marian: `config.json`, safetensors, `vocab.json`, two SentencePiece models.

It has post-norm, biases everywhere and sinusoids of its own. Whatever the positions of a bundle are, they are written
out as a table, which transformers takes in place of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from compiler.operations.embedding import encoding
from specs import BOS, EOS, PAD, ZooError
from zoo.shelf.exporting.exported import Bundle, Checked
from zoo.shelf.exporting.read_back import require_same
from zoo.shelf.importing.hf_marian.format import HuggingFaceMarian as Format
from zoo.shelf.importing.sentence_model import is_language
from zoo.shelf.importing.word_model import is_of_words
from zoo.storage.files import write_json
from zoo.text.pieces import SPACE, Pieces

_LONGEST = 4_096  # rows of positions
_LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "memory_attention", "feed_forward"],
}
_PARTS = {"self_attention": "self_attn", "memory_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_ACTIVATIONS = {"relu": "relu", "silu": "swish", "gelu": "gelu"}
_EPSILON = 1e-5
_GNMT = "the spec's length penalty is ((5 + length) / 6)^alpha, and that of transformers is length^alpha"
_LENGTH = "transformers has one longest translation for all sources: `max_length` in generation_config.json"


class HuggingFaceMarian:
    """`zoo.shelf.exporting.exported.Target`."""

    name = "hf-marian"
    description = "a folder of transformers' MarianMTModel"

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Weights, settings, vocabularies. Raises ZooError, by name, for what MarianMTModel has not."""
        require_marian(bundle)
        rows = _rows(bundle)
        tensors = dict(_tensors(bundle, rows))
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        write_json(folder / "config.json", _config(bundle, rows))
        write_json(folder / "generation_config.json", _generation(bundle, rows))
        _vocabularies(bundle, folder)
        decoding = bundle.spec.decoding
        epsilon = bundle.spec.architecture.norm_epsilon
        gnmt = [_GNMT] if decoding.length_penalty == "gnmt" and decoding.alpha and decoding.beam > 1 else []
        norm = [f"norms add {_EPSILON:g} to the variance there, and {epsilon:g} here"] if epsilon != _EPSILON else []
        return [*norm, *gnmt, *([_LENGTH] if decoding.length_factor else [])]

    def check(self, bundle: Bundle, folder: Path) -> Checked | None:
        """Tensors read back, and the log-probabilities of the proof by transformers."""
        require_same(bundle, Format(), folder)
        if find_spec("transformers") is None:
            return None
        transformers = import_module("transformers")
        model: Any = transformers.MarianMTModel.from_pretrained(folder)
        model.eval()
        proof = bundle.proof
        source, target = proof.source, proof.target
        with torch.no_grad():
            logits = model(
                input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target[:, :-1]
            ).logits
        found = logits.log_softmax(-1).gather(2, target[:, 1:].unsqueeze(2)).squeeze(2)
        difference = (found - proof.log_probabilities).masked_fill(target[:, 1:] == PAD, 0).abs().max()
        return Checked(f"transformers {transformers.__version__}", float(difference))


def require_marian(bundle: Bundle) -> None:
    """Raises ZooError for what is not in MarianMTModel."""
    a = bundle.spec.architecture
    for side, wanted in _LAYERS.items():
        if (found := [each.kind for each in getattr(a, side)]) != wanted:
            raise _refused(f"its {side} has layers of {', '.join(found)}, and MarianMTModel's of {', '.join(wanted)}")
    if a.norm != "post":
        raise _refused("its norms come before each sub-layer (`norm: pre`), and MarianMTModel's after it")
    if a.d_k != a.d_v or a.d_k * a.h != a.d_model:
        raise _refused(f"its {a.h} heads do not share `d_model: {a.d_model}` evenly, as those of MarianMTModel do")
    if a.attention_score != "scaled_dot_product":
        raise _refused(f"`attention_score: {a.attention_score}` is not MarianMTModel's")
    if not isinstance(bundle.vocabulary.target, Pieces):
        raise _refused("its target is brackets of trees, and no text")
    if is_of_words(bundle.vocabulary.source) or is_of_words(bundle.vocabulary.target):
        raise _refused("its vocabulary is a list of words, and no model of SentencePiece that cuts text")
    if bundle.vocabulary.source_end != EOS:
        raise _refused("no EOS stands behind its sources, and transformers puts one there")


def _refused(why: str) -> ZooError:
    return ZooError(f"this model cannot be written for transformers: {why}", hint="`--to ctranslate2`, `--to onnx`")


def _rows(bundle: Bundle) -> int:
    """Of the table of positions: of the learned ones, else for the longest source and its EOS."""
    a = bundle.spec.architecture
    if a.positional_encoding == "learned":
        return a.max_positions
    return min(bundle.spec.decoding.max_source_length, _LONGEST - 1) + 1


def _tensors(bundle: Bundle, rows: int) -> Iterator[tuple[str, Tensor]]:
    a, of = bundle.spec.architecture, bundle.tensors
    for side, depth in (("encoder", a.depths.encoder), ("decoder", a.depths.decoder)):
        for number in range(depth):
            ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            for part, their_part in _PARTS.items():
                if f"{ours}.{part}.query" not in of:
                    continue
                for name, their_name in _PROJECTIONS.items():
                    matrix = of[f"{ours}.{part}.{name}"]
                    yield f"{theirs}.{their_part}.{their_name}.weight", _turned(matrix)
                    bias = of.get(f"{ours}.{part}.{name}_bias")
                    zeros = torch.zeros(matrix.shape[1])
                    yield f"{theirs}.{their_part}.{their_name}.bias", zeros if bias is None else bias.float().clone()
                yield from _norm(of, f"{ours}.{part}", f"{theirs}.{their_part}_layer_norm")
            for ordinal in (1, 2):
                yield f"{theirs}.fc{ordinal}.weight", _turned(of[f"{ours}.feed_forward.w{ordinal}"])
                yield f"{theirs}.fc{ordinal}.bias", of[f"{ours}.feed_forward.b{ordinal}"].float().clone()
            yield from _norm(of, f"{ours}.feed_forward", f"{theirs}.final_layer_norm")
        yield f"model.{side}.embed_positions.weight", _positions(bundle, side, rows)
    if a.tied_embeddings == "all":
        yield "model.shared.weight", of["embedding"].float().clone()
    else:
        for side, name in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
            yield f"model.{side}.embed_tokens.weight", of[name].float().clone()
        if a.tied_embeddings == "none":
            yield "lm_head.weight", of["output_projection"].float().clone()
    bias = of.get("output_bias", torch.zeros(bundle.spec.vocabulary.sizes[1]))
    yield "final_logits_bias", bias.float().reshape(1, -1).clone()


def _norm(of: Any, ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{theirs}.weight", of[f"{ours}.norm_gain"].float().clone()
    yield f"{theirs}.bias", of[f"{ours}.norm_bias"].float().clone()


def _turned(matrix: Tensor) -> Tensor:
    return matrix.float().T.contiguous()


def _positions(bundle: Bundle, side: str, rows: int) -> Tensor:
    a = bundle.spec.architecture
    if a.positional_encoding == "learned":
        return bundle.tensors[f"{side}.positions"].float().clone()
    halves, first = a.positional_encoding == "sinusoidal_halves", a.first_position
    return torch.tensor([encoding(first + row, a.d_model, halves) for row in range(rows)])


def _config(bundle: Bundle, rows: int) -> dict[str, Any]:
    a = bundle.spec.architecture
    source, target = bundle.spec.vocabulary.sizes
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("attention_heads", a.h), ("ffn_dim", a.d_ff), ("layerdrop", 0.0))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "activation_function": _ACTIVATIONS[a.activation],
        "d_model": a.d_model,
        **sides,
        "encoder_layers": a.depths.encoder,
        "decoder_layers": a.depths.decoder,
        "dropout": a.dropout,
        "attention_dropout": a.attention_dropout,
        "activation_dropout": a.activation_dropout,
        "vocab_size": source,
        "decoder_vocab_size": target,
        "max_position_embeddings": rows,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": a.tied_embeddings == "all",
        "tie_word_embeddings": a.tied_embeddings != "none",
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "use_cache": True,
        "dtype": "float32",
    }


def _generation(bundle: Bundle, rows: int) -> dict[str, Any]:
    """As near as it comes to the spec's: what decoding starts with and EOS count for `max_length`."""
    decoding = bundle.spec.decoding
    longest = rows if decoding.length_factor else min(rows, decoding.extra_length + 2)
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "max_length": longest,
        "bad_words_ids": [[id] for id in dict.fromkeys((PAD, BOS, *decoding.barred))],
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def _vocabularies(bundle: Bundle, folder: Path) -> None:
    vocabulary, corpus = bundle.vocabulary, bundle.spec.corpus
    one = bundle.spec.architecture.tied_embeddings == "all"
    for side, list_, model in (
        (vocabulary.source, "vocab.json", "source.spm"),
        (vocabulary.target, "target_vocab.json", "target.spm"),
    ):
        assert isinstance(side, Pieces)
        (folder / model).write_bytes(side.content)
        if not (one and model == "target.spm"):
            named = {_name(side, id): id for id in range(side.size)}
            (folder / list_).write_text(json.dumps(named, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": corpus.source,
            "target_lang": corpus.target,
            "separate_vocabs": not one,
            "model_max_length": _rows(bundle),
        },
    )


def _name(side: Pieces, id: int) -> str:
    """As transformers calls it: codes of languages are cut off before a text is cut into pieces."""
    name = str(side.model.id_to_piece(id))
    bare = name.removeprefix(SPACE)
    return bare if is_language(bare) else name
