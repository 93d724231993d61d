"""Export to CTranslate2, through its Python API for converters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compiler.lowering.attention import attention_scale
from compiler.runtime.layers import sinusoids
from specs import BOS, EOS, PAD, UNK, Architecture, Rotary, Sinusoidal, Spec, ZooError, install_hint
from zoo.interop.ctranslate2.importer import CTranslate2Import
from zoo.interop.ctranslate2.network import ACTIVATIONS, POSITIONS, alibi_table, written_layers
from zoo.interop.formats import (
    ExportCheck,
    ExportFormat,
    ImportFormat,
    cannot_export,
    require_standard_layers,
)
from zoo.interop.tables import PROJECTIONS
from zoo.interop.tensors import STACKS
from zoo.models.loading import Model
from zoo.publishing.reference_results import ReferenceLogProbabilities
from zoo.text.languages import LanguagePair
from zoo.text.tokenizer import SPACE, Tokenizer

_RULES_NOTE = (
    "CTranslate2 does not tokenise text. Pass the tokens of the original preprocessing (Moses, BPE codes), which zoo "
    "applies to this model."
)
_SUPPORTED = {
    "source": {"tokens"},
    "attention_score": {"scaled_dot_product", "dot_product"},
    "norm": {"layer_norm", "rms_norm"},
}
"""Values that CTranslate2 implements, keyed by field of `architecture`. It does not implement the other values of these
fields. If a field is a section, the values are values of its `kind`."""


class CTranslate2Export(ExportFormat):
    """The `ctranslate2` export format."""

    name = "ctranslate2"

    def reader(self, model: Model) -> ImportFormat | None:
        """Return the import format for the exported model, or None if the import does not support the model.

        The import requires the same h, d_k and d_v in all attention layers, and d_k equal to d_v.
        """
        a = model.spec.architecture
        attentions = [each for each in (*a.encoder, *a.decoder) if each.kind != "feed_forward"]
        sizes = {tuple(a.option(each, name) for name in ("h", "d_k", "d_v")) for each in attentions}
        is_readable = len(sizes) == 1 and all(d_k == d_v for _, d_k, d_v in sizes)
        return CTranslate2Import() if is_readable else None

    def write(self, model: Model, folder: Path) -> list[str]:
        """Write `model.bin`, `config.json`, the vocabularies and the SentencePiece models.

        Returns:
            Notes for the user, for example the CTranslate2 search options that come closest to the spec.

        Raises:
            ZooError: CTranslate2 is not installed, or it does not support a property of the model.
        """
        source, target = model.vocabulary.source, model.vocabulary.target
        if not isinstance(target, Tokenizer):
            raise cannot_export("CTranslate2", "its target consists of parse trees with brackets, not of text")
        if find_spec("ctranslate2") is None:
            raise ZooError("cannot write the model: CTranslate2 is not installed", hint=install_hint("ctranslate2"))
        names = [_token_names(source), _token_names(target)]
        network = transformer(model.spec, model.weights.tensors)
        network.register_source_vocabulary(names[0])
        network.register_target_vocabulary(names[1])
        network.config.unk_token, network.config.bos_token, network.config.eos_token = (
            names[1][id] for id in (UNK, BOS, EOS)
        )
        network.config.decoder_start_token = names[1][BOS]
        network.config.add_source_eos = bool(model.vocabulary.source_suffix)
        network.config.layer_norm_epsilon = model.spec.architecture.norm.epsilon
        try:
            network.validate()
        except ValueError as error:  # the message names the attributes that are not set
            raise cannot_export("CTranslate2", " ".join(str(error).split())) from None
        network.optimize("float32")
        network.save(str(folder))
        if source.content == target.content and not source.is_word_level:
            (folder / "sentencepiece.model").write_bytes(source.content)
        elif not source.is_word_level:
            (folder / "source.spm").write_bytes(source.content)
            (folder / "target.spm").write_bytes(target.content)
        rules = [_RULES_NOTE] if source.rules else []
        return [*rules, *_language_notes(model, names), *_search_notes(model.spec, names[1])]

    def check(self, model: Model, references: ReferenceLogProbabilities, folder: Path) -> ExportCheck | None:
        """Compare CTranslate2's log-probabilities with the reference log-probabilities."""
        source, target = (_token_names(side) for side in (model.vocabulary.source, model.vocabulary.target))
        sources = [[source[id] for id in row if id not in (PAD, EOS)] for row in references.stream.values.tolist()]
        targets = [[target[id] for id in row if id not in (PAD, BOS, EOS)] for row in references.target.tolist()]
        rows = [result.log_probs for result in open_translator(folder).score_batch(sources, targets)]
        differences = [
            (torch.tensor(row) - expected[: len(row)]).abs().max()
            for row, expected in zip(rows, references.log_probabilities, strict=True)
        ]
        # Unlike the built-in max, the maximum of tensors propagates NaN.
        version = import_module("ctranslate2").__version__
        return ExportCheck(f"CTranslate2 {version}", float(torch.stack(differences).max()))


def open_translator(folder: Path) -> Any:
    """Open a model folder with CTranslate2's `Translator`, in float32 on one CPU thread."""
    ctranslate2 = import_module("ctranslate2")
    threads = torch.get_num_threads()
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
    )
    torch.set_num_threads(threads)  # loading the model changes OpenMP's number of threads in this process
    return translator


def transformer(spec: Spec, weights: Mapping[str, Tensor]) -> Any:
    """Convert a model to CTranslate2's TransformerSpec, without vocabularies or settings.

    Raises:
        ZooError: CTranslate2 does not implement a part of the architecture.
    """
    a = spec.architecture
    require_supported(a)
    tensors = {name: tensor.detach().float().clone() for name, tensor in weights.items()}  # CTranslate2 modifies them
    specs, both = import_module("ctranslate2.specs"), a.norm.placement == "both"
    find_part = import_module("ctranslate2.specs.model_spec").index_spec
    model = specs.TransformerSpec(
        specs.TransformerEncoderSpec(a.depths.encoder, **_options(a, "encoder")),
        specs.TransformerDecoderSpec(a.depths.decoder, **_options(a, "decoder"), external_pre_post_encoder_layers=both),
    )
    target = tensors["embedding" if "embedding" in tensors else "target_embedding"]
    model.encoder.embeddings[0].weight = tensors.get("source_embedding", target)
    model.decoder.embeddings.weight = target
    model.decoder.projection.weight = tensors.get("output_projection", target)
    if a.output_bias:
        model.decoder.projection.bias = tensors["output_bias"]
    if a.scale_logits:
        model.decoder.scale_outputs = a.d_model**-0.5
    for name, tensor in written_layers(spec, _padded_heads(a, tensors)).items():
        part, _, last = name.rpartition("/")
        setattr(find_part(model, part), last, tensor)
    for name in STACKS:
        _set_scalars_and_positions(a, name, getattr(model, name), tensors)
    return model


def require_supported(a: Architecture) -> None:
    """Raise ZooError if CTranslate2 does not implement a part of an architecture.

    Other unsupported properties are found when the exported model is imported again.
    """
    for field, supported in _SUPPORTED.items():
        value = getattr(a, field)
        if (kind := getattr(value, "kind", value)) not in supported:
            raise cannot_export("CTranslate2", f"CTranslate2 does not implement `{field}: {kind}`")
    require_standard_layers(a, "CTranslate2")
    for side in STACKS:
        if len({a.option(sublayer, "h") for sublayer in getattr(a, side)[:-1]}) > 1:
            reason = f"CTranslate2 requires the same number of heads in all attention layers of the {side}"
            raise cannot_export("CTranslate2", reason)


def _options(a: Architecture, side: str) -> dict[str, Any]:
    """Return the constructor arguments for CTranslate2's encoder or decoder class."""
    activations = import_module("ctranslate2.specs.common_spec").Activation
    attention, *_, feed_forward = getattr(a, side)
    h, d_k = a.option(attention, "h"), a.option(attention, "d_k")
    activation = a.option(feed_forward, "activation")
    options = {
        "num_heads": h,
        "num_heads_kv": h,  # this and `head_dim` are replaced in each attention layer
        "head_dim": d_k,
        "pre_norm": a.norm.placement != "post",
        "pre_post_layer_norm": a.norm.placement == "both",
        "rms_norm": a.norm.kind == "rms_norm",
        "layernorm_embedding": a.norm.embeddings,
        "activation": activations(next(number for number, name in ACTIVATIONS.items() if name == activation)),
        "ffn_glu": feed_forward.gated,
        "relative_attention_bias": a.positions.kind in ("relative", "alibi"),
    }
    if isinstance(a.positions, Rotary):  # feature i is paired with i + d_k / 2, and not with its neighbour
        options |= {"rotary_dim": d_k, "rotary_base": a.positions.theta, "rotary_interleave": False}
    return options


def _padded_heads(a: Architecture, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Pad all attention heads with zeros so that d_k equals d_v, as CTranslate2 requires."""
    padded = dict(tensors)
    for side in STACKS:
        for sublayer in getattr(a, side)[:-1]:
            sizes = {name: a.option(sublayer, "d_v" if name in ("value", "output") else "d_k") for name in PROJECTIONS}
            for name, size in sizes.items():
                names = [f"{side}.{number}.{sublayer.kind}.{name}" for number in range(getattr(a.depths, side))]
                for each in [*names, *(f"{each}_bias" for each in names if name != "output")]:
                    if each in tensors and size < max(sizes.values()):
                        tensor = tensors[each].T if name == "output" else tensors[each]
                        heads = tensor.reshape(*tensor.shape[:-1], -1, size)
                        wider = torch.nn.functional.pad(heads, (0, max(sizes.values()) - size)).flatten(-2)
                        padded[each] = wider.T if name == "output" else wider
    return padded


def _set_scalars_and_positions(a: Architecture, side: str, stack: Any, tensors: Mapping[str, Tensor]) -> None:
    """Set the positional encodings, position biases and scalars of CTranslate2's encoder or decoder (`stack`)."""
    stack.scale_embeddings = a.scale_embeddings
    if (encodings := _encodings(a, side, tensors)) is not None:
        stack.position_encodings.encodings = encodings
    bias = _distance_bias(a, side, tensors)
    for layer in stack.layer:
        for sublayer, name in zip(getattr(a, side)[:-1], ("self_attention", "attention"), strict=False):
            attention, h, d_k, d_v = getattr(layer, name), *(a.option(sublayer, key) for key in ("h", "d_k", "d_v"))
            attention.queries_scale, attention.head_dim = attention_scale(a, d_k), np.int32(max(d_k, d_v))
            attention.num_heads_kv = np.int32(sublayer.kv_heads or h)
        for variable, value in bias.items():
            setattr(layer.self_attention, variable, value)


def _encodings(a: Architecture, side: str, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the table of encodings, [positions, d_model], that CTranslate2 adds to the encoder or decoder embeddings.

    Sinusoids are also stored as a table, because CTranslate2's own sinusoids differ from zoo's. For a model that uses
    no positions, the table contains zeros, because CTranslate2 would add its own sinusoids if there were no table.
    Return None if positions only affect self-attention, as relative positions do.
    """
    if isinstance(a.positions, Sinusoidal):
        rows, halves = torch.empty(1, POSITIONS, a.d_model), a.positions.kind == "sinusoidal_halves"
        return sinusoids(rows, halves=halves, first=a.positions.first).clone()
    if a.positions.kind == "none":
        return torch.zeros(POSITIONS, a.d_model)
    return tensors[f"{side}.positions"] if a.positions.kind == "learned" else None


def _distance_bias(a: Architecture, side: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return CTranslate2's self-attention variables for relative position biases.

    All layers of the encoder or decoder have the same biases. CTranslate2's encoder has no ALiBi, so ALiBi becomes a
    relative bias with one bucket for each distance below `POSITIONS`. Larger distances share buckets, so their bias is
    approximate.
    """
    if a.positions.kind == "relative":
        table, max_distance = tensors[f"{side}.relative_positions"], a.positions.max_distance
    elif a.positions.kind == "alibi":
        table, max_distance = alibi_table(a.option(getattr(a, side)[0], "h"), side), 2 * POSITIONS
    else:
        return {}
    return {"relative_attention_bias": table, "relative_attention_max_distance": np.int32(max_distance)}


def _token_names(side: Any) -> list[str]:
    """Return the token names of the source or target for CTranslate2. If tokens are words, remove the leading `▁`."""
    names = [str(side.model.id_to_piece(id)) for id in range(side.size)]
    return [name.removeprefix(SPACE) for name in names] if side.is_word_level else names


def _language_notes(model: Model, names: list[list[str]]) -> Iterator[str]:
    """Yield notes that describe where the user must add language tokens, because CTranslate2 does not add them.

    `names` contains the source tokens and the target tokens, in ID order.
    """
    if model.spec.languages is None:
        return
    languages = LanguagePair.of(model.spec, model.vocabulary, model.spec.default_direction)
    if languages.source_tokens:
        tokens = " ".join(names[0][id] for id in languages.source_tokens)
        code = languages.source if model.spec.languages.source_token == "source" else languages.target
        yield f"Put the language tokens before the tokens in each source sentence: for `{code}`, `{tokens}`."
    if languages.target_tokens:
        tokens = " ".join(names[1][id] for id in languages.target_tokens)
        yield f"Pass the language tokens of the target as `target_prefix`: for `{languages.target}`, `{tokens}`."


def _search_notes(spec: Spec, target: list[str]) -> Iterator[str]:
    """Yield notes for the user: the CTranslate2 search options closest to the spec, and the remaining differences."""
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
    yield f"Pass the search options to each call to CTranslate2. These options {relation}: {listed}."
    if decoding.length_factor:
        longest = f"{decoding.length_factor:g} times the source's length + {decoding.extra_length:,}"
        yield f"In zoo, a translation has at most {longest} tokens; in CTranslate2, at most `max_decoding_length`."
    if decoding.beam == 1:
        return
    if decoding.length_penalty == "gnmt" and decoding.alpha:
        yield "The spec's length penalty is ((5 + length) / 6)^alpha, but CTranslate2's length penalty is length^alpha."
    if decoding.stopping_rule != "full":
        rule = decoding.stopping_rule
        yield f"CTranslate2's search stops as with `stopping_rule: full`, while the spec has `stopping_rule: {rule}`."
