"""Tiny foreign models with random weights, and a forward pass in plain torch as a reference."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import layer_norm, relu, scaled_dot_product_attention, silu

from compiler import TRANSLATE, Purpose, interpret, lower
from compiler.padded_batch import PaddedBatch
from specs import BOS, PAD
from tests.examples import changed
from zoo.generation.compilation import build_with_message
from zoo.generation.translator import Translator
from zoo.interop.ctranslate2.exporter import CTranslate2Export, open_translator
from zoo.interop.formats import ImportRequest
from zoo.models.loading import Model
from zoo.report import Report

Weights = dict[str, np.ndarray]
Tensors = dict[str, Tensor]
TEXT = [
    "the old dog sees a small house",
    "today we read two books about a house",
    "a small dog reads a book in the old house",
    "der alte Hund sieht ein kleines Haus",
    "heute lesen wir zwei Bücher über ein Haus",
    "ein kleiner Hund liest ein Buch im alten Haus",
]
SENTENCES = [("the old dog reads", "ein Hund liest"), ("a house", "der alte Hund sieht ein Haus")]
D_MODEL, D_FF, HEADS = 8, 16, 2
MARIAN_OPTIONS: dict[str, Any] = {"type": "transformer", "version": "v1.12.0 of a test", "dec-cell": "gru"}
MARIAN_OPTIONS |= {"dim-emb": D_MODEL, "transformer-heads": HEADS, "transformer-dim-ffn": D_FF}
MARIAN_OPTIONS |= {"enc-depth": 2, "dec-depth": 1, "transformer-decoder-autoreg": "self-attention"}
MARIAN_OPTIONS |= {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""}
MARIAN_OPTIONS |= {"transformer-postprocess-emb": "d", "transformer-ffn-activation": "swish"}
MARIAN_OPTIONS |= {"tied-embeddings-all": True, "tied-embeddings": False, "tied-embeddings-src": False}
MARIAN_OPTIONS |= {"output-omit-bias": False, "layer-normalization": False}


def train_sentencepiece(lines: list[str], size: int = 60, **settings: Any) -> bytes:
    """Return a SentencePiece model, by default with Marian's IDs: EOS 0, UNK 1, no PAD and no BOS."""
    model = io.BytesIO()
    given = {"model_type": "unigram", "pad_id": -1, "bos_id": -1, "eos_id": 0, "unk_id": 1, "vocab_size": size}
    given |= {"hard_vocab_limit": False, "minloglevel": 2, **settings}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **given)
    return model.getvalue()


def processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def write_sentencepiece(file: Path) -> sentencepiece.SentencePieceProcessor:
    """Write a SentencePiece model that is trained on `TEXT`, and return its processor."""
    file.write_bytes(train_sentencepiece(TEXT))
    return processor(file.read_bytes())


def joint_names(*processors: sentencepiece.SentencePieceProcessor) -> list[str]:
    """Return the tokens of several SentencePiece models in one list, as OPUS-MT's, with one language token."""
    names = dict.fromkeys(["</s>", "<unk>", ">>deu<<"])
    for each in processors:
        names |= dict.fromkeys(each.id_to_piece(id) for id in range(2, each.get_piece_size()))
    return list(names)


def marian_weights(options: dict[str, Any], rows: int, end_bias: float | None = None, seed: int = 0) -> Weights:
    """Return random weights by Marian's names. A high bias of EOS makes translations end early."""
    draw = np.random.default_rng(seed)
    pre_norm = options["transformer-preprocess"] == "n"
    suffix = "_pre" if pre_norm else ""
    weights: Weights = {}

    def norm(name: str, suffix: str = suffix) -> None:
        weights[f"{name}_ln_scale{suffix}"] = 1 + 0.1 * draw.standard_normal((1, D_MODEL))
        weights[f"{name}_ln_bias{suffix}"] = 0.1 * draw.standard_normal((1, D_MODEL))

    def matrix(name: str, *shape: int) -> None:
        weights[name] = draw.standard_normal(shape) * 0.4

    def attention(name: str) -> None:
        for letter in "qkvo":
            matrix(f"{name}_W{letter}", D_MODEL, D_MODEL)
            matrix(f"{name}_b{letter}", 1, D_MODEL)
        norm(f"{name}_Wo")

    for side, depth in (("encoder", options["enc-depth"]), ("decoder", options["dec-depth"])):
        for name in (f"{side}_l{number}" for number in range(1, depth + 1)):
            if side == "decoder" and options["transformer-decoder-autoreg"] == "rnn":
                for letters, height in (("W", D_MODEL), ("Wf", D_MODEL), ("bf", 1)):
                    matrix(f"{name}_rnn_{letters}", height, D_MODEL)
                norm(f"{name}_rnn" + ("" if pre_norm else "_ffn"))
            else:
                attention(f"{name}_self")
            if side == "decoder":
                attention(f"{name}_context")
            for part, shape in ((1, (D_MODEL, D_FF)), (2, (D_FF, D_MODEL))):
                matrix(f"{name}_ffn_W{part}", *shape)
                matrix(f"{name}_ffn_b{part}", 1, shape[1])
            norm(f"{name}_ffn_ffn")
        if pre_norm:
            norm(f"{side}_top", "")
    tables = ["Wemb"] if options["tied-embeddings-all"] else ["encoder_Wemb", "decoder_Wemb"]
    if not options["tied-embeddings-all"] and not options["tied-embeddings"]:
        tables.append("decoder_ff_logit_out_Wt")
    for table in tables:
        matrix(table, rows, D_MODEL)
    if not options["output-omit-bias"]:
        matrix("decoder_ff_logit_out_b", 1, rows)
        if end_bias is not None:
            weights["decoder_ff_logit_out_b"][0, 0] = end_bias
    return {name: tensor.astype(np.float32) for name, tensor in weights.items()}


class Reference:
    """Forward pass of a Transformer for one sentence, in plain torch. The names of tensors are those of fairseq.

    Decoding begins with the embedding `start`, `first` is the number of the first position, and `scale` the factor of
    embeddings.
    """

    def __init__(
        self, tensors: Tensors, *, start: Tensor, pre_norm: bool, activation: Any, first: int, scale: float, eps: float
    ) -> None:
        self.tensors, self.start = {name: tensor.double() for name, tensor in tensors.items()}, start.double()
        self.pre_norm, self.activation, self.first, self.scale, self.eps = pre_norm, activation, first, scale, eps

    def log_probabilities(self, source: list[int], target: list[int]) -> Tensor:
        """Return the log-probability of each target token. Both sides end with EOS."""
        memory = self.stack("encoder", self.tensors["encoder.embed_tokens.weight"][source], None)
        previous = self.tensors["decoder.embed_tokens.weight"][target[:-1]]
        y = self.stack("decoder", torch.cat([self.start[None], previous]), memory)
        logits = y @ self.tensors["decoder.output_projection.weight"].T + self.tensors.get("final_logits_bias", 0)
        return logits.log_softmax(-1)[torch.arange(len(target)), target]

    def stack(self, side: str, x: Tensor, memory: Tensor | None) -> Tensor:
        x = self.scale * x + self.positions(side, len(x))
        depth = sum(name.startswith(f"{side}.layers.") and name.endswith(".fc1.weight") for name in self.tensors)
        for number in range(depth):
            for part in ("self_attn", "rnn", "encoder_attn", "final"):
                name = f"{side}.layers.{number}.{part}_layer_norm"
                if f"{name}.weight" in self.tensors:
                    sublayer = partial(self.sublayer, f"{side}.layers.{number}", part, memory)
                    x = x + sublayer(self.norm(name, x)) if self.pre_norm else self.norm(name, x + sublayer(x))
        return self.norm(f"{side}.layer_norm", x) if self.pre_norm else x

    def positions(self, side: str, length: int) -> Tensor:
        numbers = torch.arange(self.first, self.first + length)
        if f"{side}.embed_positions.weight" in self.tensors:
            return self.tensors[f"{side}.embed_positions.weight"][numbers]
        angles = numbers[:, None] * 10000 ** (-torch.arange(D_MODEL // 2) / (D_MODEL / 2 - 1)).double()
        return torch.cat([angles.sin(), angles.cos()], 1)

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        return layer_norm(x, (D_MODEL,), gain, bias, self.eps)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0)

    def sublayer(self, layer: str, part: str, memory: Tensor | None, x: Tensor) -> Tensor:
        if part == "final":
            return self.linear(f"{layer}.fc2", self.activation(self.linear(f"{layer}.fc1", x)))
        if part == "rnn":
            return self.ssru(f"{layer}.rnn", x)
        is_self = part == "self_attn"
        query, key, value = (
            self.linear(f"{layer}.{part}.{letter}_proj", inputs).view(len(inputs), HEADS, -1).transpose(0, 1)
            for letter, inputs in (("q", x), ("k", x if is_self else memory), ("v", x if is_self else memory))
        )
        heads = scaled_dot_product_attention(query, key, value, is_causal=is_self and memory is not None)
        return self.linear(f"{layer}.{part}.out_proj", heads.transpose(0, 1).reshape(len(x), D_MODEL))

    def ssru(self, name: str, x: Tensor) -> Tensor:
        cell, outputs = torch.zeros(D_MODEL), []
        for value, gate in zip(self.linear(f"{name}.value", x), self.linear(f"{name}.gate", x).sigmoid(), strict=True):
            cell = gate * cell + (1 - gate) * value
            outputs.append(cell.relu())
        return torch.stack(outputs)


PARTS = {"self": "self_attn", "context": "encoder_attn", "ffn": "final", "rnn": "rnn"}
LINEARS = {**{letter: f"{letter}_proj" for letter in "qkv"}, "o": "out_proj", "1": "fc1", "2": "fc2"}
LINEARS |= {"": "value", "f": "gate"}
KINDS = {"W": "weight", "b": "bias", "scale": "weight", "bias": "bias"}
LINEAR = re.compile(r"(encoder|decoder)_l(\d+)_([a-z]+)_([Wb])(.?)")
"""Name such as `decoder_l2_ffn_b1`."""
NORM = re.compile(r"(encoder|decoder)_(?:top|l(\d+)_([a-z]+))(?:_ffn|_Wo)?_ln_(scale|bias)(?:_pre)?")
"""Name such as `encoder_l1_self_Wo_ln_scale_pre` or `decoder_top_ln_bias`."""


def by_fairseq_names(weights: Weights) -> Tensors:
    """Return Marian's weights by the names that fairseq and transformers use."""
    named = {name: torch.from_numpy(array) for name, array in weights.items()}
    tables = {f"{side}.embed_tokens": named.get("Wemb", named.get(f"{side}_Wemb")) for side in ("encoder", "decoder")}
    output = named.get("decoder_ff_logit_out_Wt", tables["decoder.embed_tokens"])
    found = {f"{name}.weight": table for name, table in {**tables, "decoder.output_projection": output}.items()}
    if "decoder_ff_logit_out_b" in named:
        found["final_logits_bias"] = named["decoder_ff_logit_out_b"]
    for name, tensor in named.items():
        if match := LINEAR.fullmatch(name):
            side, layer, part, kind, letter = match.groups()
            place = LINEARS[letter] if part == "ffn" else f"{PARTS[part]}.{LINEARS[letter]}"
            values = tensor.T.contiguous() if kind == "W" else tensor.flatten()
            found[f"{side}.layers.{int(layer) - 1}.{place}.{KINDS[kind]}"] = values
        elif match := NORM.fullmatch(name):
            side, layer, part, kind = match.groups()
            place = f"layers.{int(layer) - 1}.{PARTS[part]}_layer_norm" if layer else "layer_norm"
            found[f"{side}.{place}.{KINDS[kind]}"] = tensor.flatten()
    return found


def marian_reference(weights: Weights, options: dict[str, Any]) -> Reference:
    """Return Marian's forward pass. Decoding begins with zeros."""
    activation = relu if options["transformer-ffn-activation"] == "relu" else silu
    how = {"pre_norm": options["transformer-preprocess"] == "n", "activation": activation, "scale": D_MODEL**0.5}
    return Reference(by_fairseq_names(weights), start=torch.zeros(D_MODEL), first=0, eps=1e-6, **how)


def rejections(**settings: Any) -> list[tuple[dict[str, Any], str]]:
    """Return each setting, and how an error names it."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return [({key: settings[key]}, re.escape(f"`{key}: {text}`")) for key, text in texts.items()]


def write_marian(folder: Path, options: dict[str, Any], weights: Weights, decoder: Any = None) -> Path:
    """Write `model.npz`, and its `decoder.yml` if its content is given."""
    content = yaml.safe_dump(options).encode() + b"\0"
    np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(content, np.int8), **weights})
    if decoder is not None:
        (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    return folder / "model.npz"


def to_transformers(weights: Weights) -> Tensors:
    """Return Marian's matrices by transformers' names. `<pad>` is the last token, with a row of zeros."""
    ours = by_fairseq_names(weights)
    tensors = {f"model.{name}": tensor for name, tensor in ours.items() if ".layers." in name}
    tensors["model.shared.weight"] = torch.cat([ours["encoder.embed_tokens.weight"], torch.zeros(1, D_MODEL)])
    tensors["final_logits_bias"] = torch.cat([ours["final_logits_bias"], torch.zeros(1, 1)], 1)
    return tensors


class TransformersFolder:
    """Folder of transformers' Marian with one token list and a SentencePiece model per side, as OPUS-MT's models."""

    def __init__(self, folder: Path) -> None:
        models = [train_sentencepiece(TEXT[part], 45) for part in (slice(3), slice(3, 6))]
        self.source, self.target = map(processor, models)
        names = joint_names(self.source, self.target)
        self.path, self.ids = folder, {name: id for id, name in enumerate([*names, "<pad>"])}
        self.pad = len(names)
        self.weights = marian_weights(MARIAN_OPTIONS, self.pad, end_bias=3.0)
        rows = len(self.ids)
        sizes = {"attention_heads": HEADS, "ffn_dim": D_FF}
        self.config: dict[str, Any] = {f"{side}_{key}": sizes[key] for side in ("encoder", "decoder") for key in sizes}
        self.config |= {"model_type": "marian", "d_model": D_MODEL, "encoder_layers": 2, "decoder_layers": 1}
        self.config |= {"activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 64}
        self.config |= {"vocab_size": rows, "decoder_vocab_size": rows, "num_beams": 2, "max_length": 32}
        self.config |= {"eos_token_id": 0, "pad_token_id": self.pad, "decoder_start_token_id": self.pad}
        self.config["bad_words_ids"] = [[self.pad]]
        folder.mkdir()
        self.write_config()
        (folder / "vocab.json").write_text(json.dumps(self.ids))
        (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "deu"}))
        for name, model in zip(("source", "target"), models, strict=True):
            (folder / f"{name}.spm").write_bytes(model)
        self.weights_file = folder / "model.safetensors"
        save_file(to_transformers(self.weights), self.weights_file)

    def write_config(self, **changes: Any) -> None:
        (self.path / "config.json").write_text(json.dumps(self.config | changes))

    def write_generation(self, **settings: Any) -> None:
        (self.path / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **settings}))

    def foreign_ids(self, source: str, target: str) -> tuple[list[int], list[int]]:
        pairs = ((self.source, source), (self.target, target))
        rows = [[*(self.ids[name] for name in side.encode(text, out_type=str)), 0] for side, text in pairs]
        return rows[0], rows[1]


def log_probabilities(model: Model, source: str, target: str) -> np.ndarray:
    """Return the log-probability of each target token and of EOS, computed by the compiler's interpreter."""
    vocabulary = model.vocabulary
    inputs = PaddedBatch.pad([[*vocabulary.encode(source), *vocabulary.source_suffix]]).inputs
    inputs = {**inputs, "target": torch.tensor([[BOS, *vocabulary.encode(target, "target"), 3]])}
    outputs = interpret(lower(model.spec, Purpose.SCORE), dict(model.weights.tensors), inputs)
    return outputs["log_probabilities"][0].numpy()


def translator_of(model: Model, backend: str) -> Translator:
    spec, weights = changed(model.spec, backend=backend), model.weights.tensors
    program = build_with_message(spec, TRANSLATE, Report(), weights=weights, device="cpu", precision="float32")
    return Translator(program, model.vocabulary, spec, report=Report())


def names_in_zoo(tokenizer: Any, ids: list[int]) -> list[str]:
    """Return zoo's names of transformers' tokens. IDs without a token have names such as `<79>`."""
    named = zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    has_none = {None, "", "<unk>"}
    names = [f"<{id}>" if name in has_none and id != tokenizer.unk_token_id else name for id, name in named]
    return [{"<unk>": "⁇", "<s>": "<s><0>"}.get(name, name) for name in names]


def greedy_names(network: Any, tokenizer: Any, inputs: Any, **options: Any) -> list[list[str]]:
    """Return zoo's names of the tokens of greedy translations by transformers, without EOS."""
    end = network.config.eos_token_id
    rows = network.generate(**inputs, **options, use_cache=False)[:, 1:].tolist()  # its cache fails for deeper decoders
    return [names_in_zoo(tokenizer, row[: row.index(end)] if end in row else row) for row in rows]


def export(model: Model, family: Any, folder: Path) -> None:
    """Write an imported model to a folder. It must be the same when it is read back."""
    family.write(model, folder)
    again = family.read(folder, ImportRequest("mine")).model
    for field in ("architecture", "vocabulary", "languages", "decoding"):
        assert getattr(again.spec, field) == getattr(model.spec, field)
    assert again.weights.tensors.keys() == model.weights.tensors.keys()
    assert all(torch.equal(tensor, again.weights.tensors[name]) for name, tensor in model.weights.tensors.items())
    assert again.vocabulary.has_same_tokens_as(model.vocabulary)


@torch.inference_mode()
def scores_of(network: Any, inputs: Any, labels: torch.Tensor, start: int) -> torch.Tensor:
    """Return the log-probability of each label by a network of transformers. Labels of -1 are padding."""
    shifted = torch.nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0), value=start)
    logits = network(**inputs, decoder_input_ids=shifted, decoder_attention_mask=torch.ones_like(shifted)).logits
    picked = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]
    return picked.masked_fill(labels < 0, 0)


def require_same_as_transformers(
    network: Any, tokenizer: Any, model: Model, texts: list[str], inputs: Any, targets: Any, **languages: Any
) -> None:
    """Compare log-probabilities of given targets, and greedy translations, with those of transformers.

    The backends are eager and native. Sources are `texts`, and targets the same in reverse order. `inputs` and
    `targets` are what transformers' tokenizer makes of them.
    """
    forced: dict[str, Any] = {}
    if languages:
        token = model.spec.languages.token_of(languages["target"])  # type: ignore[union-attr]
        forced["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(token)
    labels = targets.input_ids.masked_fill(targets.attention_mask == 0, -1)
    expected = scores_of(network, inputs, labels, network.generation_config.decoder_start_token_id).sum(1).tolist()
    theirs = greedy_names(network, tokenizer, inputs, **forced)
    for backend in ("eager", "native"):
        translator = translator_of(model, backend)
        assert translator.score(texts, texts[::-1], **languages) == pytest.approx(expected, abs=1e-4)
        found = translator.hypotheses(texts, beam=1, split=False, protect=False, workers=1, **languages)
        assert [translator.vocabulary.token_strings(best.tokens) for best, *_ in found] == theirs


def require_same_in_ctranslate2(model: Model, folder: Path, texts: list[str]) -> None:
    """Export a model to CTranslate2, and compare scores and translations with those of the backend eager.

    If the export format has a reader, the model must be the same when it is read back.
    """
    longest = 20
    search = {"length_factor": 0.0, "extra_length": longest, "min_length": 0, "alpha": 0.0, "stopping_rule": "full"}
    model = replace(model, spec=changed(model.spec, "decoding", **search))
    format = CTranslate2Export()
    format.write(model, folder)
    vocabulary, engine = model.vocabulary, open_translator(folder)
    names, sources = vocabulary.token_strings, [vocabulary.token_strings(vocabulary.encode(text)) for text in texts]
    targets = [names(vocabulary.encode(text, "target")) for text in texts[::-1]]
    for text, target, score in zip(texts, texts[::-1], engine.score_batch(sources, targets), strict=True):
        assert score.log_probs == pytest.approx(log_probabilities(model, text, target), abs=1e-4)
    for beam in (1, 3):
        hypotheses = translator_of(model, "eager").hypotheses(texts, beam=beam, split=False, protect=False, workers=1)
        found = [names(best.tokens) for best, *_ in hypotheses]
        for score, (best, *_) in zip(engine.score_batch(sources, found), hypotheses, strict=True):
            assert sum(score.log_probs) == pytest.approx(best.log_probability, abs=1e-4)
        options = {"length_penalty": 0, "max_decoding_length": longest, "min_decoding_length": 0}
        hidden = [[name] for name in names([PAD, BOS])]
        results = engine.translate_batch(sources, beam_size=beam, suppress_sequences=hidden, **options)
        for result, tokens in zip(results, found, strict=True):
            # CTranslate2 truncates long translations. zoo ends them with EOS, which changes the order of a beam.
            assert tokens == result.hypotheses[0] or (beam > 1 and len(result.hypotheses[0]) == longest)
    if reader := format.reader(model):
        after = reader.read(folder, ImportRequest("back")).model
        assert all(torch.equal(after.weights.tensors[name], tensor) for name, tensor in model.weights.tensors.items())
        expected, back = (log_probabilities(each, texts[0], texts[-1]) for each in (model, after))
        assert back == pytest.approx(expected, abs=1e-5)
