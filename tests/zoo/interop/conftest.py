"""Tiny foreign models with random weights, and Marian's forward pass in plain numpy as a reference."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from safetensors.torch import save_file

from compiler import TRANSLATE, Purpose, interpret, lower
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD
from tests.examples import changed
from zoo.generation.compilation import build_with_message
from zoo.generation.scoring import score_targets
from zoo.generation.translator import Translator
from zoo.interop.ctranslate2.exporter import CTranslate2Export
from zoo.interop.ctranslate2.importer import open_translator
from zoo.interop.formats import Bundle, ImportedModel, ImportRequest
from zoo.report import Progress, Report

Weights = dict[str, np.ndarray]
TEXT = [
    "the old dog sees a small house",
    "today we read two books about a house",
    "a small dog reads a book in the old house",
    "der alte Hund sieht ein kleines Haus",
    "heute lesen wir zwei Bücher über ein Haus",
    "ein kleiner Hund liest ein Buch im alten Haus",
]
D_MODEL, D_FF, HEADS = 8, 16, 2
MARIAN_OPTIONS = {
    "type": "transformer",
    "dim-emb": D_MODEL,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": D_FF,
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


def train_sentencepiece(lines: list[str], size: int = 60, **settings: Any) -> bytes:
    """Return a SentencePiece model, by default with Marian's IDs: EOS 0, UNK 1, no PAD and no BOS."""
    model = io.BytesIO()
    given = {"model_type": "unigram", "pad_id": -1, "bos_id": -1, "eos_id": 0, "unk_id": 1, **settings}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **given,
    )
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


def marian_weights(options: dict[str, Any], rows: int, end_bias: float | None = None) -> Weights:
    """Return random weights by Marian's names. A high bias of EOS makes translations end early."""
    draw = np.random.default_rng(0)
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
        for number in range(1, depth + 1):
            name = f"{side}_l{number}"
            if side == "decoder" and options["transformer-decoder-autoreg"] == "rnn":
                matrix(f"{name}_rnn_W", D_MODEL, D_MODEL)
                matrix(f"{name}_rnn_Wf", D_MODEL, D_MODEL)
                matrix(f"{name}_rnn_bf", 1, D_MODEL)
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


class MarianModel:
    """Forward pass of Marian's Transformer for one sentence, in numpy."""

    def __init__(self, weights: Weights, options: dict[str, Any]) -> None:
        self.w, self.options = weights, options
        self.pre_norm = options["transformer-preprocess"] == "n"
        self.suffix = "_pre" if self.pre_norm else ""

    def log_probabilities(self, source: list[int], target: list[int]) -> np.ndarray:
        """Return the log-probability of each target token. Both sides end with EOS."""
        memory = self.stack("encoder", self.embedded(self.table("encoder")[source]), None)
        previous = np.concatenate([np.zeros((1, D_MODEL)), self.table("decoder")[target[:-1]]])
        y = self.stack("decoder", self.embedded(previous), memory)
        tied = self.options["tied-embeddings-all"] or self.options["tied-embeddings"]
        logits = y @ (self.table("decoder") if tied else self.w["decoder_ff_logit_out_Wt"]).T
        logits = logits + self.w.get("decoder_ff_logit_out_b", 0.0)
        totals = np.log(np.exp(logits).sum(-1, keepdims=True))
        return np.take_along_axis(logits - totals, np.array(target)[:, None], 1)[:, 0]

    def table(self, side: str) -> np.ndarray:
        return self.w["Wemb"] if self.options["tied-embeddings-all"] else self.w[f"{side}_Wemb"]

    def embedded(self, x: np.ndarray) -> np.ndarray:
        angles = np.arange(len(x))[:, None] * 10000 ** (-np.arange(D_MODEL // 2) / (D_MODEL / 2 - 1))
        return x * D_MODEL**0.5 + np.concatenate([np.sin(angles), np.cos(angles)], 1)

    def stack(self, side: str, x: np.ndarray, memory: np.ndarray | None) -> np.ndarray:
        for number in range(1, self.options["enc-depth" if side == "encoder" else "dec-depth"] + 1):
            name = f"{side}_l{number}"
            if side == "decoder" and self.options["transformer-decoder-autoreg"] == "rnn":
                x = self.residual(f"{name}_rnn" + ("" if self.pre_norm else "_ffn"), x, self.ssru(name))
            else:
                x = self.residual(f"{name}_self_Wo", x, self.attention(f"{name}_self", None, side == "decoder"))
            if memory is not None:
                x = self.residual(f"{name}_context_Wo", x, self.attention(f"{name}_context", memory, False))
            x = self.residual(f"{name}_ffn_ffn", x, self.feed_forward(f"{name}_ffn"))
        return self.norm(f"{side}_top", "", x) if self.pre_norm else x

    def residual(self, name: str, x: np.ndarray, sublayer: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        if self.pre_norm:
            return x + sublayer(self.norm(name, self.suffix, x))
        return self.norm(name, self.suffix, x + sublayer(x))

    def norm(self, name: str, suffix: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.w[f"{name}_ln_scale{suffix}"] + self.w[f"{name}_ln_bias{suffix}"]

    def attention(self, name: str, memory: np.ndarray | None, causal: bool) -> Callable[[np.ndarray], np.ndarray]:
        def sublayer(x: np.ndarray) -> np.ndarray:
            read = x if memory is None else memory
            q, k, v = (
                inputs @ self.w[f"{name}_W{letter}"] + self.w[f"{name}_b{letter}"]
                for inputs, letter in ((x, "q"), (read, "k"), (read, "v"))
            )
            heads = []
            for h in np.split(np.arange(D_MODEL), HEADS):
                scores = q[:, h] @ k[:, h].T / (D_MODEL // HEADS) ** 0.5
                if causal:
                    scores = np.where(np.tri(*scores.shape) > 0, scores, -1e9)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, h])
            return np.concatenate(heads, 1) @ self.w[f"{name}_Wo"] + self.w[f"{name}_bo"]

        return sublayer

    def ssru(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        def sublayer(x: np.ndarray) -> np.ndarray:
            values = x @ self.w[f"{name}_rnn_W"]
            gates = 1 / (1 + np.exp(-(x @ self.w[f"{name}_rnn_Wf"] + self.w[f"{name}_rnn_bf"])))
            cell, outputs = np.zeros(D_MODEL), []
            for value, gate in zip(values, gates, strict=True):
                cell = gate * cell + (1 - gate) * value
                outputs.append(np.maximum(cell, 0))
            return np.stack(outputs)

        return sublayer

    def feed_forward(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        def sublayer(x: np.ndarray) -> np.ndarray:
            inner = x @ self.w[f"{name}_W1"] + self.w[f"{name}_b1"]
            relu = self.options["transformer-ffn-activation"] == "relu"
            active = np.maximum(inner, 0) if relu else inner / (1 + np.exp(-inner))
            return active @ self.w[f"{name}_W2"] + self.w[f"{name}_b2"]

        return sublayer


def write_marian(
    folder: Path, options: dict[str, Any], weights: Weights, decoder: dict[str, Any] | None = None
) -> Path:
    """Write `model.npz`, and its `decoder.yml` if its content is given."""
    content = yaml.safe_dump(options).encode() + b"\0"
    np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(content, np.int8), **weights})
    if decoder is not None:
        (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    return folder / "model.npz"


def to_transformers(weights: Weights) -> dict[str, torch.Tensor]:
    """Return Marian's matrices by transformers' names. `<pad>` is the last token, with a row of zeros."""

    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(weights[name])

    tensors = {"model.shared.weight": torch.cat([tensor("Wemb"), torch.zeros(1, D_MODEL)])}
    tensors["final_logits_bias"] = torch.cat([tensor("decoder_ff_logit_out_b"), torch.zeros(1, 1)], 1)
    linears = {"_Wq": ".q_proj", "_Wk": ".k_proj", "_Wv": ".v_proj", "_Wo": ".out_proj", "_W1": ".fc1", "_W2": ".fc2"}
    parts = {"self": ".self_attn", "context": ".encoder_attn", "ffn": ""}
    for name in weights:
        if name[-3:] not in linears:
            continue
        side, layer, part = name[:-3].split("_")
        prefix = f"model.{side}.layers.{int(layer[1:]) - 1}{parts[part]}"
        tensors[f"{prefix}{linears[name[-3:]]}.weight"] = tensor(name).T.contiguous()
        tensors[f"{prefix}{linears[name[-3:]]}.bias"] = tensor(f"{name[:-2]}b{name[-1]}").flatten()
        if name[-1] in "o2":
            norm = f"{name[:-2]}ffn" if part == "ffn" else name
            theirs = f"{prefix}.final_layer_norm" if part == "ffn" else f"{prefix}_layer_norm"
            tensors[f"{theirs}.weight"] = tensor(f"{norm}_ln_scale").flatten()
            tensors[f"{theirs}.bias"] = tensor(f"{norm}_ln_bias").flatten()
    return tensors


class TransformersFolder:
    """Folder of transformers' Marian with one token list and a SentencePiece model per side, as OPUS-MT's models."""

    def __init__(self, folder: Path, **config: Any) -> None:
        models = [train_sentencepiece(TEXT[part], 45) for part in (slice(3), slice(3, 6))]
        self.source, self.target = map(processor, models)
        names = joint_names(self.source, self.target)
        self.path, self.ids = folder, {name: id for id, name in enumerate([*names, "<pad>"])}
        self.pad = len(names)
        self.weights = marian_weights(MARIAN_OPTIONS, self.pad, end_bias=3.0)
        rows = len(self.ids)
        sizes = {"attention_heads": HEADS, "ffn_dim": D_FF}
        self.config = {
            **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()},
            "model_type": "marian",
            "d_model": D_MODEL,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "activation_function": "swish",
            "scale_embedding": True,
            "max_position_embeddings": 64,
            "vocab_size": rows,
            "decoder_vocab_size": rows,
            "eos_token_id": 0,
            "pad_token_id": self.pad,
            "decoder_start_token_id": self.pad,
            "bad_words_ids": [[self.pad]],
            "num_beams": 2,
            "max_length": 32,
            **config,
        }
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


def log_probabilities(model: ImportedModel, source: str, target: str) -> np.ndarray:
    """Return the log-probability of each target token and of EOS, computed by the compiler's interpreter."""
    vocabulary = model.vocabulary
    inputs = {
        **PaddedBatch.pad([[*vocabulary.encode(source), *vocabulary.source_suffix]]).inputs,
        "target": torch.tensor([[BOS, *vocabulary.encode(target, "target"), 3]]),
    }
    outputs = interpret(lower(model.spec, Purpose.SCORE), dict(model.tensors), inputs)
    return outputs["log_probabilities"][0].numpy()


def translator_of(model: ImportedModel, backend: str) -> Translator:
    spec = changed(model.spec, backend=backend)
    program = build_with_message(spec, TRANSLATE, model.tensors, Report(), device="cpu", precision="float32")
    return Translator(program, model.vocabulary, spec, report=Report())


def zoo_names(tokenizer: Any, row: list[int], end: int) -> list[str]:
    """Return the tokens of a translation by transformers before its end, with zoo's name for IDs without a token."""
    ids = row[: row.index(end)] if end in row else row
    return [name or f"<{id}>" for name, id in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True)]


def require_same_model(again: ImportedModel, model: ImportedModel) -> None:
    """Compare the specs, the tensors and the vocabularies of an exported model and of the model before."""
    for field in ("architecture", "vocabulary", "languages", "decoding"):
        assert getattr(again.spec, field) == getattr(model.spec, field)
    assert again.tensors.keys() == model.tensors.keys()
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in model.tensors.items())
    assert again.vocabulary.has_same_tokens_as(model.vocabulary)


def require_same_as_transformers(network: Any, tokenizer: Any, model: ImportedModel, texts: list[str]) -> None:
    """Compare log-probabilities of given targets, and greedy translations, with those of transformers.

    The backends are eager and native. Sources are `texts`, and targets the same in reverse order.
    """
    inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
    start, end = network.generation_config.decoder_start_token_id, network.config.eos_token_id
    rows = [[*tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)), end] for text in texts[::-1]]
    labels = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)
    with torch.inference_mode():
        shifted = torch.nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0), value=start)
        logits = network(**inputs, decoder_input_ids=shifted, decoder_attention_mask=torch.ones_like(shifted)).logits
        picked = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]
        expected = picked.masked_fill(labels < 0, 0).sum(1).tolist()
        generated = network.generate(**inputs, use_cache=False)[:, 1:].tolist()  # its cache fails for deeper decoders
    encode = model.vocabulary.encode
    sources = [[*encode(text), *model.vocabulary.source_suffix] for text in texts]
    targets = [[BOS, *encode(text, "target"), EOS] for text in texts[::-1]]
    for backend in ("eager", "native"):
        translator = translator_of(model, backend)
        scores = score_targets(
            translator.program, sources, targets,
            max_batch_tokens=500, device=torch.device("cpu"), progress=Progress(),
        )  # fmt: skip
        assert [score.log_probability for score in scores] == pytest.approx(expected, abs=1e-4)
        translations = translator.hypotheses(texts, beam=1, split=False, protect=False, workers=1)
        for row, (best, *_) in zip(generated, translations, strict=True):
            found = model.vocabulary.token_strings(best.tokens)
            assert [name.replace("⁇", "<unk>") for name in found] == zoo_names(tokenizer, row, end)


def require_same_in_ctranslate2(model: ImportedModel, folder: Path, texts: list[str], longest: int = 20) -> None:
    """Export a model to CTranslate2, and compare scores and translations with those of the backend eager.

    If the export format has a reader, the model must be the same when it is read back.
    """
    search = {"length_factor": 0.0, "extra_length": longest, "min_length": 0, "alpha": 0.0, "stopping_rule": "full"}
    model = replace(model, spec=changed(model.spec, "decoding", **search))
    bundle = Bundle(model.spec, model.vocabulary, model.tensors, proof=None)  # type: ignore[arg-type]
    format = CTranslate2Export()
    format.write(bundle, folder)
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
        results = engine.translate_batch(
            sources, beam_size=beam, length_penalty=0, max_decoding_length=longest, min_decoding_length=0,
            suppress_sequences=[[name] for name in names([PAD, BOS])],
        )  # fmt: skip
        for result, tokens in zip(results, found, strict=True):
            # CTranslate2 truncates long translations. zoo ends them with EOS, which changes the order of a beam.
            assert tokens == result.hypotheses[0] or (beam > 1 and len(result.hypotheses[0]) == longest)
    if reader := format.reader(bundle):
        after = reader.read(folder, ImportRequest("back"))
        assert all(torch.equal(after.tensors[name], tensor) for name, tensor in model.tensors.items())
        expected, back = (log_probabilities(each, texts[0], texts[-1]) for each in (model, after))
        assert back == pytest.approx(expected, abs=1e-5)
