"""Export to transformers' MarianMTModel.

MarianMTModel is post-norm, all its linear maps have biases, and it computes other sinusoids than zoo. The export
therefore writes the model's positions as a table, which transformers uses instead of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import Tensor

from compiler.lowering.positions import sinusoidal_encoding
from specs import BOS, EOS, PAD, Architecture, Learned, Sinusoidal, Spec, ZooError
from zoo.files.atomic import write_json
from zoo.interop.formats import USE_ONNX, Bundle, ExportCheck, ImportFormat
from zoo.interop.huggingface.folder import CONFIG, GENERATION_CONFIG, import_transformers
from zoo.interop.huggingface.importer import HuggingFaceMarianImport
from zoo.interop.huggingface.vocabulary import write_vocabulary
from zoo.interop.huggingface.weight_files import FILES
from zoo.interop.sentencepiece_model import is_language_token
from zoo.interop.tensors import SIDES
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary

_MAX_POSITIONS = 4_096
_EPSILON = 1e-5  # of transformers' layer norms
LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "cross_attention", "feed_forward"],
}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
WRITTEN_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
"""Each activation's name in transformers."""


class TransformersExport:
    """Base class of the export formats for transformers. It checks exported models."""

    model_class: ClassVar[str]
    """The class of transformers that opens an exported model."""

    def foreign_ids(self, bundle: Bundle) -> Tensor:
        """Return transformers' token IDs, in the order of zoo's IDs."""
        return torch.arange(max(bundle.spec.vocabulary.sizes))

    def check(self, bundle: Bundle, folder: Path) -> ExportCheck | None:
        """Compare transformers' log-probabilities with the reference log-probabilities of the bundle.

        Return None if transformers is not installed.
        """
        if find_spec("transformers") is None:
            return None
        transformers, ids = import_transformers(), self.foreign_ids(bundle)
        model: Any = getattr(transformers, self.model_class).from_pretrained(folder)
        model.eval()
        source, target = bundle.proof.stream, bundle.proof.target
        with torch.no_grad():
            mask = (torch.arange(source.values.shape[1]) < source.lengths[:, None]).long()
            inputs = {"input_ids": ids[source.values], "attention_mask": mask, "decoder_input_ids": ids[target[:, :-1]]}
            logits = model(**inputs).logits
        log_probabilities = logits.log_softmax(-1).gather(2, ids[target[:, 1:]].unsqueeze(2)).squeeze(2)
        difference = (log_probabilities - bundle.proof.log_probabilities).masked_fill(target[:, 1:] == PAD, 0)
        return ExportCheck(f"transformers {transformers.__version__}", float(difference.abs().max()))


class HuggingFaceMarianExport(TransformersExport):
    """The export format `hf-marian`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "hf-marian"
    description = "a folder of transformers' MarianMTModel"
    model_class = "MarianMTModel"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format for transformers' Marian models."""
        return HuggingFaceMarianImport()

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write weights, settings and vocabularies. Return notes for the user.

        Raises:
            ZooError: MarianMTModel cannot express the model.
        """
        spec = bundle.spec
        require_marian(spec)
        require_sentencepiece(bundle.vocabulary)
        tensors = dict(marian_tensors(spec, bundle.tensors))
        safetensors.torch.save_file(tensors, folder / FILES[0], metadata={"format": "pt"})
        write_json(folder / CONFIG, marian_config(spec))
        write_json(folder / GENERATION_CONFIG, _generation_config(spec))
        write_vocabulary(bundle, folder, _position_rows(spec))
        epsilon = spec.architecture.norm.epsilon
        differs = f"the epsilon of layer norms is {_EPSILON:g} in transformers, and {epsilon:g} in the spec"
        return [*([differs] if epsilon != _EPSILON else []), *search_differences(spec)]


def require_marian(spec: Spec) -> None:
    """Raise ZooError if MarianMTModel cannot express the architecture of a spec."""
    a = spec.architecture
    require_layers(spec, "MarianMTModel has")
    if own := next(a.own_options, None):
        raise unsupported(f"it has the option `{own}`, which MarianMTModel does not have")
    if a.norm.kind != "layer_norm" or a.norm.placement != "post" or a.norm.embeddings:
        raise unsupported("MarianMTModel has layer norms after the residual connections, and no other norms")
    if not isinstance(a.positions, Sinusoidal | Learned):
        raise unsupported(f"MarianMTModel has no positions of the kind `{a.positions.kind}`")
    if a.scale_logits:
        raise unsupported("MarianMTModel does not scale logits (`scale_logits`)")
    if a.d_k != a.d_v or a.d_k * a.h != a.d_model:
        raise unsupported(f"MarianMTModel requires d_k = d_v = d_model / h, but d_k is {a.d_k} and d_v is {a.d_v}")
    if a.attention_score != "scaled_dot_product":
        raise unsupported(f"MarianMTModel has no `attention_score: {a.attention_score}`")
    languages = spec.languages
    if languages and (languages.target_token or not is_language_token(languages.token_of(languages.codes[0]))):
        raise unsupported("MarianTokenizer recognises only language tokens such as `>>de<<`, and only before sources")


def require_layers(spec: Spec, models_have: str) -> None:
    """Raise ZooError unless the layers of a spec are those of the original Transformer.

    Args:
        spec: The spec.
        models_have: Subject and verb of the error message, such as "T5 has".
    """
    for side, supported in LAYERS.items():
        if (kinds := [sublayer.kind for sublayer in getattr(spec.architecture, side)]) != supported:
            names = ", ".join(supported)
            raise unsupported(f"its {side} has layers of {', '.join(kinds)}, but {models_have} layers of {names}")


def unsupported(reason: str) -> ZooError:
    """Return the ZooError for a model that transformers cannot express."""
    return ZooError(f"cannot export this model to transformers: {reason}", hint=USE_ONNX)


def require_sentencepiece(vocabulary: Vocabulary) -> None:
    """Raise ZooError unless both sides are SentencePiece models and sources end with EOS."""
    if not isinstance(vocabulary.target, Tokenizer):
        raise unsupported("the target consists of brackets of parse trees, not of text")
    if vocabulary.source.is_word_level or vocabulary.target.is_word_level:
        raise unsupported("its vocabulary is a list of words, but transformers requires a SentencePiece model")
    if not vocabulary.source_suffix:
        raise unsupported("its sources do not end with EOS, but transformers always adds EOS")


def _position_rows(spec: Spec) -> int:
    """Return the number of rows of the table of positions. For sinusoids, it is the maximum source length plus EOS."""
    if (rows := spec.architecture.max_positions) is not None:
        return rows
    return min(spec.decoding.max_source_length, _MAX_POSITIONS - 1) + 1


def marian_tensors(spec: Spec, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor of MarianMTModel with its name in transformers. Missing biases are filled with zeros.

    Args:
        spec: The spec of the model.
        tensors: Maps zoo's name of each tensor to the tensor.
    """
    a = spec.architecture
    for side, depth in zip(SIDES, (a.depths.encoder, a.depths.decoder), strict=True):
        for number in range(depth):
            yield from written_layer(tensors, f"{side}.{number}", f"model.{side}.layers.{number}")
        yield f"model.{side}.embed_positions.weight", _positions(spec, tensors, side)
    if a.tied_embeddings in ("all", "embeddings"):
        yield "model.shared.weight", tensors["embedding"].float().clone()
        if a.tied_embeddings == "embeddings":  # transformers ties no embeddings at all if the output is not tied
            for side in SIDES:
                yield f"model.{side}.embed_tokens.weight", tensors["embedding"].float().clone()
    else:
        for side, name in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
            yield f"model.{side}.embed_tokens.weight", tensors[name].float().clone()
    if a.tied_embeddings in ("embeddings", "none"):
        yield "lm_head.weight", tensors["output_projection"].float().clone()
    bias = tensors.get("output_bias", torch.zeros(spec.vocabulary.sizes[1]))
    yield "final_logits_bias", bias.float().reshape(1, -1).clone()


def written_layer(tensors: Mapping[str, Tensor], ours: str, foreign: str) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor of a layer with its name in transformers. Missing biases are filled with zeros.

    Args:
        tensors: Maps zoo's name of each tensor to the tensor.
        ours: The name of the layer in zoo.
        foreign: The name of the layer in transformers.
    """
    for part, foreign_part in _ATTENTIONS.items():
        if f"{ours}.{part}.query" not in tensors:
            continue
        for name, foreign_name in _PROJECTIONS.items():
            matrix = tensors[f"{ours}.{part}.{name}"]
            yield f"{foreign}.{foreign_part}.{foreign_name}.weight", matrix.float().T.contiguous()
            bias = tensors.get(f"{ours}.{part}.{name}_bias", torch.zeros(matrix.shape[1]))
            yield f"{foreign}.{foreign_part}.{foreign_name}.bias", bias.float().clone()
        yield from written_norm(tensors, f"{ours}.{part}.norm", f"{foreign}.{foreign_part}_layer_norm")
    for number in (1, 2):
        yield f"{foreign}.fc{number}.weight", tensors[f"{ours}.feed_forward.w{number}"].float().T.contiguous()
        yield f"{foreign}.fc{number}.bias", tensors[f"{ours}.feed_forward.b{number}"].float().clone()
    yield from written_norm(tensors, f"{ours}.feed_forward.norm", f"{foreign}.final_layer_norm")


def written_norm(tensors: Mapping[str, Tensor], ours: str, foreign: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the gain and the bias of a layer norm, each with its name in transformers."""
    yield f"{foreign}.weight", tensors[f"{ours}_gain"].float().clone()
    yield f"{foreign}.bias", tensors[f"{ours}_bias"].float().clone()


def _positions(spec: Spec, tensors: Mapping[str, Tensor], side: str) -> Tensor:
    a = spec.architecture
    if not isinstance(a.positions, Sinusoidal):
        return tensors[f"{side}.positions"].float().clone()
    halves, first = a.positions.kind == "sinusoidal_halves", a.positions.first
    return torch.tensor([sinusoidal_encoding(first + row, a.d_model, halves) for row in range(_position_rows(spec))])


def marian_config(spec: Spec) -> dict[str, Any]:
    """Return the content of `config.json`."""
    a = spec.architecture
    source_size, target_size = spec.vocabulary.sizes
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **common_config(a),
        "vocab_size": source_size,
        "decoder_vocab_size": target_size,
        "max_position_embeddings": _position_rows(spec),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": a.tied_embeddings in ("all", "embeddings"),
        "tie_word_embeddings": a.tied_embeddings in ("all", "target"),
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def common_config(a: Architecture) -> dict[str, Any]:
    """Return the settings in `config.json` that Marian, M2M-100 and mBART models express equally."""
    sides = {
        f"{side}_{key}": value
        for side in SIDES
        for key, value in (("attention_heads", a.h), ("ffn_dim", a.d_ff), ("layerdrop", 0.0))
    }
    return {
        "is_encoder_decoder": True,
        "activation_function": WRITTEN_ACTIVATIONS[a.activation],
        "d_model": a.d_model,
        **sides,
        "encoder_layers": a.depths.encoder,
        "decoder_layers": a.depths.decoder,
        "dropout": a.dropout,
        "attention_dropout": a.attention_dropout,
        "activation_dropout": a.activation_dropout,
        "forced_eos_token_id": None,
        "use_cache": True,
        "dtype": "float32",
    }


def _generation_config(spec: Spec) -> dict[str, Any]:
    """Return the content of `generation_config.json`. Its `max_length` includes BOS and EOS."""
    decoding, rows = spec.decoding, _position_rows(spec)
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "early_stopping": decoding.stopping_rule == "full",
        "max_length": rows if decoding.length_factor else min(rows, decoding.extra_length + 2),
        "bad_words_ids": [[id] for id in dict.fromkeys((PAD, BOS, *decoding.suppressed_tokens))],
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def search_differences(spec: Spec) -> Iterator[str]:
    """Yield notes for the user about differences between the search in transformers and the search of the spec."""
    decoding = spec.decoding
    if decoding.length_penalty == "gnmt" and decoding.alpha and decoding.beam > 1:
        yield "the length penalty of the spec is ((5 + length) / 6)^alpha, and that of transformers is length^alpha"
    if decoding.stopping_rule != "full" and decoding.beam > 1:
        yield f"beam search stops by the rule of transformers, not by `stopping_rule: {decoding.stopping_rule}`"
    if decoding.length_factor:
        yield "transformers has the same maximum length for all sources: `max_length` in generation_config.json"
