"""Export to CTranslate2, through its Python API for converters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.graph import Purpose
from compiler.lower import lower
from compiler.lower.attention import attention_scale
from compiler.lower.positions import PositionalEncoding
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Add, Dropout, Gelu, GeluTanh, Relu, Silu
from compiler.operations.embedding import Embedding
from compiler.operations.mask import CausalMask, PaddingMask
from compiler.operations.norm import LayerNorm
from compiler.operations.probability import LogSoftmax, PickLabels
from compiler.operations.projection import Linear, Logits
from compiler.operations.views import MergeHeads, Slice, SplitHeads
from compiler.runtime import sinusoids
from specs import BOS, EOS, PAD, UNK, Sinusoidal, Spec, ZooError
from zoo.interop.ctranslate2.importer import CTranslate2Import, open_translator
from zoo.interop.formats import Bundle, ExportCheck, ImportFormat
from zoo.text.tokenizer import SPACE, Tokenizer

POSITIONS = 4096
"""Rows of the table of sinusoids in the exported model. CTranslate2's own sinusoids differ from zoo's."""
_OPERATIONS = {
    *(Add, Attention, CausalMask, Dropout, Embedding, Gelu, Linear, LogSoftmax, Logits),
    *(GeluTanh, LayerNorm, MergeHeads, PaddingMask, PickLabels, PositionalEncoding, Relu, Silu, Slice, SplitHeads),
}
"""Operations of the Transformer that CTranslate2 implements."""
_LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "cross_attention", "feed_forward"],
}
_ACTIVATIONS = {"relu": "RELU", "silu": "SWISH", "gelu": "GELU", "gelu_tanh": "GELUTanh"}


class CTranslate2Export:
    """The export format `ctranslate2`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "ctranslate2"
    description = "a folder of CTranslate2, in float32"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format. Return None if d_k and d_v differ, because the export then pads the smaller one."""
        architecture = bundle.spec.architecture
        return CTranslate2Import() if architecture.d_k == architecture.d_v else None

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write `model.bin`, `config.json`, the vocabularies and the SentencePiece models.

        Returns:
            Notes for the user: the search options of CTranslate2 that correspond to the spec, and any differences.

        Raises:
            ZooError: CTranslate2 is not installed, or it does not support a property of the model.
        """
        source, target = bundle.vocabulary.source, bundle.vocabulary.target
        if not isinstance(target, Tokenizer):
            raise _unsupported("the target consists of brackets of parse trees, not of text")
        if find_spec("ctranslate2") is None:
            hint = "run `pip install -e '.[ctranslate2]'` in zoo's source folder"
            raise ZooError("cannot write the model: CTranslate2 is not installed", hint=hint)
        _require_supported(bundle.spec)
        names = [_token_names(source), _token_names(target)]
        writer = _SpecWriter(bundle.spec, bundle.tensors)
        model = writer.model()
        if unused := sorted(bundle.tensors.keys() - writer.used):
            raise _unsupported(f"CTranslate2 has no tensor for `{unused[0]}`")
        model.register_source_vocabulary(names[0])
        model.register_target_vocabulary(names[1])
        model.config.unk_token, model.config.bos_token, model.config.eos_token = (
            names[1][id] for id in (UNK, BOS, EOS)
        )
        model.config.decoder_start_token = names[1][BOS]
        model.config.add_source_eos = bool(bundle.vocabulary.source_suffix)
        model.config.layer_norm_epsilon = bundle.spec.architecture.norm.epsilon
        model.validate()
        model.optimize("float32")
        model.save(str(folder))
        if source.content == target.content and not source.is_word_level:
            (folder / "sentencepiece.model").write_bytes(source.content)
        elif not source.is_word_level:
            (folder / "source.spm").write_bytes(source.content)
            (folder / "target.spm").write_bytes(target.content)
        return [*_language_notes(bundle.spec), *_search_notes(bundle.spec, names[1])]

    def check(self, bundle: Bundle, folder: Path) -> ExportCheck | None:
        """Compare CTranslate2's log-probabilities with the reference log-probabilities of the bundle."""
        proof = bundle.proof
        source, target = (_token_names(side) for side in (bundle.vocabulary.source, bundle.vocabulary.target))
        sources = [[source[id] for id in row if id not in (PAD, EOS)] for row in proof.source.tolist()]
        targets = [[target[id] for id in row if id not in (PAD, BOS, EOS)] for row in proof.target.tolist()]
        rows = [result.log_probs for result in open_translator(folder).score_batch(sources, targets)]
        differences = [
            (torch.tensor(row) - expected[: len(row)]).abs().max()
            for row, expected in zip(rows, proof.log_probabilities, strict=True)
        ]
        # Unlike the built-in max, the maximum of tensors propagates NaN.
        version = import_module("ctranslate2").__version__
        return ExportCheck(f"CTranslate2 {version}", float(torch.stack(differences).max()))


def _unsupported(reason: str) -> ZooError:
    return ZooError(f"cannot export this model to CTranslate2: {reason}", hint="use `--to onnx` for any model")


def _require_supported(spec: Spec) -> None:
    """Raise ZooError if CTranslate2 does not implement a layer or an operation of a model."""
    architecture = spec.architecture
    for side, sublayers in (("encoder", architecture.encoder), ("decoder", architecture.decoder)):
        if (kinds := [sublayer.kind for sublayer in sublayers]) != _LAYERS[side]:
            names, supported = ", ".join(kinds), ", ".join(_LAYERS[side])
            raise _unsupported(f"its {side} has layers of {names}, but CTranslate2 supports only layers of {supported}")
    if own := next(architecture.own_options, None):
        raise _unsupported(f"CTranslate2 does not support the option `{own}`")
    if architecture.norm.placement == "both":
        raise _unsupported("it has norms on both sides of the sub-layers")
    if architecture.norm.kind == "none":
        raise _unsupported("it has no norms")
    if architecture.scale_logits:
        raise _unsupported("it scales logits (`scale_logits`)")
    used = {type(node.operation) for node in lower(spec, Purpose.SCORE).nodes}
    if unknown := sorted(operation.__name__ for operation in used - _OPERATIONS):
        raise _unsupported(f"CTranslate2 does not implement {unknown[0]}")


def _token_names(side: Any) -> list[str]:
    """Return the names of tokens for CTranslate2's vocabulary. Words of a word list lose the leading space."""
    names = [str(side.model.id_to_piece(id)) for id in range(side.size)]
    return [name.removeprefix(SPACE) for name in names] if side.is_word_level else names


def _language_notes(spec: Spec) -> Iterator[str]:
    """Yield notes for the user: where CTranslate2 expects the tokens of the languages, which it does not add itself."""
    if spec.languages is None:
        return
    if side := spec.languages.source_token:
        token = spec.languages.token_of(spec.languages.codes[0])
        yield f"Put the token of the {side} language before the tokens of each source, such as `{token}`."
    if spec.languages.target_token:
        yield "Pass the token of the target language as `target_prefix`."


def _search_notes(spec: Spec, target: list[str]) -> Iterator[str]:
    """Yield notes for the user: the search options of CTranslate2 that correspond to a spec, and any differences."""
    decoding, has_prefix = spec.decoding, spec.languages is not None and spec.languages.target_token is not None
    options: dict[str, Any] = {
        "beam_size": decoding.beam,
        "length_penalty": decoding.alpha,
        "min_decoding_length": decoding.min_length,
    }
    if not decoding.length_factor:
        options["max_decoding_length"] = decoding.extra_length + has_prefix
    if UNK in decoding.suppressed_tokens:
        options["disable_unk"] = True
    if others := [[target[id]] for id in decoding.suppressed_tokens if id != UNK]:
        options["suppress_sequences"] = json.dumps(others, ensure_ascii=False)
    same = decoding.beam == 1 or (
        decoding.stopping_rule == "full" and decoding.length_penalty == "power" and decoding.alpha
    )
    listed = ", ".join(f"`{name}={value}`" for name, value in options.items())
    relation = "correspond to the spec" if same else "come closest to the spec"
    yield f"Pass the search options to each call of CTranslate2: {listed} {relation}."
    if decoding.length_factor:
        longest = f"{decoding.length_factor:g} times the source's length + {decoding.extra_length:,}"
        yield f"In zoo, a translation has at most {longest} tokens; in CTranslate2, at most `max_decoding_length`."
    if decoding.beam == 1:
        return
    if decoding.length_penalty == "gnmt" and decoding.alpha:
        yield "The length penalty of the spec is ((5 + length) / 6)^alpha, and that of CTranslate2 is length^alpha."
    if decoding.stopping_rule != "full":
        rule = decoding.stopping_rule
        yield f"CTranslate2's search stops as with `stopping_rule: full`, while the spec has `stopping_rule: {rule}`."


class _SpecWriter:
    """Writer that fills an object of CTranslate2's class TransformerSpec with the tensors of a weights file."""

    def __init__(self, spec: Spec, weights: Mapping[str, Tensor]) -> None:
        self.spec, self.architecture, self.weights = spec, spec.architecture, weights
        self.head_dimension = max(self.architecture.d_k, self.architecture.d_v)
        self.used: set[str] = set()

    def model(self) -> Any:
        """Return the model as an object of CTranslate2, without vocabularies and settings."""
        ctranslate2 = import_module("ctranslate2.specs")
        activations = import_module("ctranslate2.specs.common_spec").Activation
        a = self.architecture
        options = {
            "pre_norm": a.norm.placement == "pre",
            "activation": activations[_ACTIVATIONS[a.activation]],
            "head_dim": self.head_dimension,
            "layernorm_embedding": a.norm.embeddings,
        }
        model = ctranslate2.TransformerSpec(
            ctranslate2.TransformerEncoderSpec(a.depths.encoder, a.h, **options),
            ctranslate2.TransformerDecoderSpec(a.depths.decoder, a.h, **options),
        )
        model.encoder.embeddings[0].weight = self.table("source")
        model.decoder.embeddings.weight = self.table("target")
        model.decoder.projection.weight = self.table("output")
        if a.output_bias:
            model.decoder.projection.bias = self.tensor("output_bias")
        for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
            side.scale_embeddings = a.scale_embeddings
            side.position_encodings.encodings = self.positions(name)
            if a.norm.embeddings:
                self.fill_norm(side.layernorm_embedding, f"{name}.embedding_norm")
            if a.norm.placement == "pre":
                self.fill_norm(side.layer_norm, f"{name}.norm")
            for number, layer in enumerate(side.layer):
                self.fill_layer(layer, f"{name}.{number}")
        return model

    def fill_layer(self, layer: Any, name: str) -> None:
        self.fill_attention(layer.self_attention, f"{name}.self_attention", (("query", "key", "value"),))
        if hasattr(layer, "attention"):
            self.fill_attention(layer.attention, f"{name}.cross_attention", (("query",), ("key", "value")))
        inner, outer, part = layer.ffn.linear_0, layer.ffn.linear_1, f"{name}.feed_forward"
        inner.weight, inner.bias = self.tensor(f"{part}.w1").T, self.tensor(f"{part}.b1")
        outer.weight, outer.bias = self.tensor(f"{part}.w2").T, self.tensor(f"{part}.b2")
        self.fill_norm(layer.ffn.layer_norm, f"{part}.norm")

    def fill_attention(self, attention: Any, part: str, concatenated: Iterable[tuple[str, ...]]) -> None:
        """Fill an attention layer. CTranslate2 stores each tuple of projections concatenated, as one linear map."""
        a = self.architecture
        dimensions = {"query": a.d_k, "key": a.d_k, "value": a.d_v}
        for linear, names in zip(attention.linear, concatenated, strict=False):
            weights = [self.padded(self.tensor(f"{part}.{name}"), dimensions[name]) for name in names]
            linear.weight = torch.cat(weights, -1).T
            if a.projection_bias:
                biases = [self.padded(self.tensor(f"{part}.{name}_bias"), dimensions[name]) for name in names]
                linear.bias = torch.cat(biases)
        output = attention.linear[-1]
        output.weight = self.padded(self.tensor(f"{part}.output").T.contiguous(), a.d_v)
        if a.projection_bias:
            output.bias = self.tensor(f"{part}.output_bias")
        attention.queries_scale = attention_scale(a, a.d_k)
        self.fill_norm(attention.layer_norm, f"{part}.norm")

    def padded(self, heads: Tensor, dimension: int) -> Tensor:
        """Return heads padded with zeros, because CTranslate2 requires d_k = d_v.

        Args:
            heads: A tensor [..., h * dimension].
            dimension: The dimension of each head.

        Returns:
            A tensor [..., h * max(d_k, d_v)].
        """
        separate = heads.view(*heads.shape[:-1], self.architecture.h, dimension)
        return torch.nn.functional.pad(separate, (0, self.head_dimension - dimension)).flatten(-2)

    def fill_norm(self, norm: Any, name: str) -> None:
        norm.gamma, norm.beta = self.tensor(f"{name}_gain"), self.tensor(f"{name}_bias")

    def table(self, side: str) -> Tensor:
        """Return the embedding of the source or the target, or the output projection."""
        names = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "embeddings": "embedding" if side != "output" else "output_projection",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }
        return self.tensor(names[self.architecture.tied_embeddings])

    def positions(self, side: str) -> Tensor:
        """Return the table of positions of the encoder or the decoder."""
        a = self.architecture
        if isinstance(a.positions, Sinusoidal):
            rows, halves = torch.empty(1, POSITIONS, a.d_model), a.positions.kind == "sinusoidal_halves"
            return sinusoids(rows, halves=halves, first=a.positions.first).clone()
        return self.tensor(f"{side}.positions")

    def tensor(self, name: str) -> Tensor:
        """Return a copy of a tensor in float32, because CTranslate2 modifies tensors in place."""
        self.used.add(name)
        return self.weights[name].detach().float().clone()
