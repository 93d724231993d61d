"""Export to transformers' M2M100ForConditionalGeneration and MBartForConditionalGeneration, with their tokenizers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from specs import BOS, EOS, PAD, UNK, Sinusoidal, Spec
from zoo.files.atomic import write_json
from zoo.interop.formats import Bundle, ImportFormat
from zoo.interop.huggingface.exporter import (
    TransformersExport,
    common_config,
    require_layers,
    require_sentencepiece,
    search_differences,
    unsupported,
    written_layer,
    written_norm,
)
from zoo.interop.huggingface.folder import CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG
from zoo.interop.huggingface.language_codes import MBART50
from zoo.interop.huggingface.multilingual import FIRST_POSITION, MultilingualImport
from zoo.interop.huggingface.multilingual_vocabulary import (
    END,
    LISTS,
    M2M100_TOKENIZER,
    MASK,
    MBART50_TOKENIZER,
    NLLB_TOKENIZER,
    PAD_ROW,
    SENTENCEPIECE,
    SPECIAL_NAMES,
    START,
    UNKNOWN,
    VOCABULARY,
    TokenizerClass,
)
from zoo.interop.huggingface.weight_files import FILES
from zoo.interop.numbering import NEVER
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.tensors import SIDES
from zoo.text.tokenizer import Tokenizer

_START_NAME = f"{SPECIAL_NAMES[START]}<{START}>"
"""Name of the row of `<s>` in a model that begins translations with another token."""
_UNNAMED = re.compile(r"<\d+>")


class MultilingualExport(TransformersExport):
    """The export format `hf-multilingual`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "hf-multilingual"
    description = "a folder of transformers' M2M-100, NLLB-200 or mBART-50"
    model_class = "AutoModelForSeq2SeqLM"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format of the same name."""
        return MultilingualImport()

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write weights, settings and the vocabulary. Return notes for the user.

        Raises:
            ZooError: transformers cannot express the model.
        """
        spec = bundle.spec
        class_ = require_multilingual(spec)
        require_sentencepiece(bundle.vocabulary)
        ids = ForeignIds.of(bundle)
        tensors = dict(multilingual_tensors(spec, bundle.tensors, ids))
        safetensors.torch.save_file(tensors, folder / FILES[0], metadata={"format": "pt"})
        write_json(folder / CONFIG, multilingual_config(spec, ids))
        write_json(folder / GENERATION_CONFIG, _generation_config(spec, ids))
        _write_vocabulary(bundle, class_, folder, ids)
        return list(search_differences(spec))

    def foreign_ids(self, bundle: Bundle) -> Tensor:
        """Return transformers' token IDs, in the order of zoo's IDs."""
        return ForeignIds.of(bundle).foreign


def require_multilingual(spec: Spec) -> TokenizerClass:
    """Return the tokenizer class that fits a spec. Raise ZooError if transformers cannot express the model."""
    a, languages = spec.architecture, spec.languages
    if a.source.kind != "tokens":
        raise unsupported(f"its encoder reads {a.source.kind}, not tokens")
    require_layers(spec, "these models have")
    if own := next(a.own_options, None):
        raise unsupported(f"it has the option `{own}`, which these models do not have")
    if a.norm.kind != "layer_norm" or a.norm.placement != "pre" or a.norm.epsilon != 1e-5:
        raise unsupported("M2M-100 and mBART-50 have layer norms with the epsilon 1e-05 before each sub-layer")
    has_m2m_positions = isinstance(a.positions, Sinusoidal) and (
        (a.positions.kind, a.positions.first) == ("sinusoidal_halves", FIRST_POSITION)
    )
    if not (a.max_positions is not None if a.norm.embeddings else has_m2m_positions):
        raise unsupported(
            f"M2M-100 has positions `sinusoidal_halves` from {FIRST_POSITION} on and no norm of the embeddings, and "
            "mBART-50 has learned positions and a norm of the embeddings"
        )
    if a.d_k != a.d_v or a.d_k * a.h != a.d_model:
        raise unsupported(f"d_k = d_v = d_model / h is required, but d_k is {a.d_k} and d_v is {a.d_v}")
    if a.attention_score != "scaled_dot_product" or a.scale_logits:
        raise unsupported("these models have `attention_score: scaled_dot_product` and do not scale logits")
    if languages is None or (languages.source_token, languages.target_token) != ("source", "target"):
        raise unsupported(
            "these models read the token of the source language and begin a translation with that of the target "
            "(`languages.source_token: source`, `target_token: target`)"
        )
    if spec.vocabulary.byte_fallback or not spec.vocabulary.shared or spec.vocabulary.separate_models:
        raise unsupported("their tokenizers have one model for both sides, without bytes (`vocabulary.byte_fallback`)")
    kind, codes = (spec.vocabulary.kind, languages.token), languages.codes
    if kind == (M2M100_TOKENIZER.kind, M2M100_TOKENIZER.language_token) and codes in LISTS.values():
        return M2M100_TOKENIZER
    if kind == (MBART50_TOKENIZER.kind, MBART50_TOKENIZER.language_token) and codes == MBART50:
        return MBART50_TOKENIZER
    if kind == (NLLB_TOKENIZER.kind, NLLB_TOKENIZER.language_token):
        return NLLB_TOKENIZER
    raise unsupported(
        f"it has a vocabulary of the kind `{kind[0]}` and tokens `{kind[1]}` for its {len(codes)} languages: "
        "NllbTokenizer has a bpe model and tokens `{}`, M2M100Tokenizer a bpe model and tokens `__{}__` for the "
        "languages of M2M-100, and MBart50Tokenizer a unigram model and tokens `{}` for those of mBART-50"
    )


@dataclass(frozen=True)
class ForeignIds:
    """Token IDs of an exported model. transformers' IDs differ from zoo's IDs of the same tokens."""

    rows: list[int | None]
    """zoo's IDs in the order of transformers' IDs. None for a token that zoo does not have, whose row is zeros."""
    foreign: Tensor
    """transformers' IDs in the order of zoo's IDs."""
    before_languages: int
    """Number of tokens with smaller IDs in transformers than all language tokens."""
    start: int
    """transformers' ID of the token that decoding starts with."""

    @classmethod
    def of(cls, bundle: Bundle) -> ForeignIds:
        """Return the IDs for a model: first the special tokens, then text tokens, language tokens and all others.

        Raises:
            ZooError: The model cannot generate BOS, and its embedding differs from that of EOS.
        """
        tokenizer, languages = bundle.vocabulary.source, bundle.spec.languages
        assert isinstance(tokenizer, Tokenizer)
        assert languages is not None
        names = [str(tokenizer.model.id_to_piece(id)) for id in range(tokenizer.size)]
        table = bundle.tensors.get("embedding", bundle.tensors.get("target_embedding"))
        assert table is not None
        never = bundle.tensors.get("output_bias", torch.zeros(len(names))).float() == NEVER
        start = START
        if bool(never[BOS]):
            if not torch.equal(table[BOS], table[EOS]):
                raise unsupported("it cannot generate BOS, the token that decoding starts with, but these models can")
            start = END
        own_start = names.index(_START_NAME) if _START_NAME in names else None
        heads = [own_start if start == END else BOS, PAD, EOS, UNK]
        in_lists = {languages.token_of(code): None for code in languages.codes}
        tokens = [id for id in range(EOS + 1, len(names)) if id != own_start and not never[id]]
        is_m2m = languages.token == M2M100_TOKENIZER.language_token
        # M2M-100 lists all tokens that have a name. Other rows are named after their IDs, such as `<128104>`.
        text = [
            id
            for id in tokens
            if names[id] not in in_lists
            and (not tokenizer.model.is_control(id) or (is_m2m and not _UNNAMED.fullmatch(names[id])))
        ]
        ids = dict(zip(names, range(len(names)), strict=True))
        of_languages = [ids[name] for name in in_lists]
        rest = sorted(set(tokens) - set(text) - set(of_languages), key=lambda id: (names[id] != MASK, id))
        rows = [*heads, *text, *of_languages, *rest]
        foreign = torch.full((len(names),), UNKNOWN)
        for row, id in enumerate(rows):
            if id is not None:
                foreign[id] = row
        foreign[BOS] = start
        return cls(rows, foreign, len(heads) + len(text), start)

    def select(self, values: Tensor) -> Tensor:
        """Return a matrix or a bias of zoo with its rows in the order of transformers' IDs."""
        selected = values.float()[[0 if id is None else id for id in self.rows]].clone()
        selected[[id is None for id in self.rows]] = 0
        return selected


def multilingual_tensors(spec: Spec, tensors: Mapping[str, Tensor], ids: ForeignIds) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor with its name in transformers. Missing biases become zeros."""
    a = spec.architecture
    for side, depth in zip(SIDES, (a.depths.encoder, a.depths.decoder), strict=True):
        for number in range(depth):
            yield from written_layer(tensors, f"{side}.{number}", f"model.{side}.layers.{number}")
        yield from written_norm(tensors, f"{side}.norm", f"model.{side}.layer_norm")
        if a.norm.embeddings:
            yield from written_norm(tensors, f"{side}.embedding_norm", f"model.{side}.layernorm_embedding")
        if a.max_positions is not None:
            table = tensors[f"{side}.positions"].float()
            unused = table.new_zeros(FIRST_POSITION, a.d_model)
            yield f"model.{side}.embed_positions.weight", torch.cat([unused, table])
    if a.tied_embeddings in ("all", "embeddings"):
        yield "model.shared.weight", ids.select(tensors["embedding"])
        if a.tied_embeddings == "embeddings":  # transformers ties all matrices or none
            for side in SIDES:
                yield f"model.{side}.embed_tokens.weight", ids.select(tensors["embedding"])
    else:
        yield "model.shared.weight", ids.select(tensors["target_embedding"])
        for side, name in zip(SIDES, ("source", "target"), strict=True):
            yield f"model.{side}.embed_tokens.weight", ids.select(tensors[f"{name}_embedding"])
    if a.tied_embeddings != "all":
        name = "target_embedding" if a.tied_embeddings == "target" else "output_projection"
        yield "lm_head.weight", ids.select(tensors[name])
    bias = ids.select(tensors.get("output_bias", torch.zeros(spec.vocabulary.size)))
    if a.norm.embeddings:
        yield "final_logits_bias", bias.reshape(1, -1)
    elif bool((bias != 0).any()):
        raise unsupported("M2M-100 has no bias of the logits (`output_bias`)")


def _write_vocabulary(bundle: Bundle, class_: TokenizerClass, folder: Path, ids: ForeignIds) -> None:
    """Write the SentencePiece model, the settings of the tokenizer, and, only for M2M-100, the token IDs."""
    tokenizer, languages = bundle.vocabulary.source, bundle.spec.languages
    assert isinstance(tokenizer, Tokenizer)
    assert languages is not None
    model = SentencePieceModel(folder / SENTENCEPIECE, tokenizer.content)
    text = [id for id in ids.rows[len(SPECIAL_NAMES) : ids.before_languages] if id is not None]
    model_tokens = text
    if class_ is M2M100_TOKENIZER:
        names = [*SPECIAL_NAMES, *(model.entries[id].name for id in text)]
        content = json.dumps({name: id for id, name in enumerate(names)}, ensure_ascii=False, indent=1)
        (folder / VOCABULARY).write_text(content + "\n", encoding="utf-8")
        model_tokens = [id for id in range(EOS + 1, tokenizer.size) if model.entries[id].type is not TokenType.CONTROL]
    special = {UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
    written = model.reordered([UNK, BOS, EOS, *model_tokens], special, unknown=0, start=1, end=2)
    (folder / SENTENCEPIECE).write_bytes(written)
    settings: dict[str, Any] = {"tokenizer_class": class_.name}
    if class_ is M2M100_TOKENIZER:
        settings["language_codes"] = next(name for name, codes in LISTS.items() if codes == languages.codes)
    else:
        tokens = [languages.token_of(code) for code in languages.codes]
        has_mask = any(entry.name == MASK for entry in model.entries)
        added = [*tokens, *([MASK] if has_mask else [])]
        numbered = {**dict(enumerate(SPECIAL_NAMES)), **dict(enumerate(added, start=ids.before_languages))}
        settings["added_tokens_decoder"] = {
            str(id): {
                **dict.fromkeys(("rstrip", "normalized", "single_word"), False),
                "content": name,
                "lstrip": name == MASK,
                "special": True,
            }
            for id, name in numbered.items()
        }
        settings["extra_special_tokens"] = tokens
    write_json(folder / TOKENIZER_CONFIG, settings)


def multilingual_config(spec: Spec, ids: ForeignIds) -> dict[str, Any]:
    """Return the content of `config.json`."""
    a = spec.architecture
    is_mbart = a.norm.embeddings
    return {
        "architectures": [f"{'MBart' if is_mbart else 'M2M100'}ForConditionalGeneration"],
        "model_type": "mbart" if is_mbart else "m2m_100",
        **common_config(a),
        "vocab_size": len(ids.rows),
        "max_position_embeddings": a.max_positions or spec.decoding.max_source_length + 2,
        "scale_embedding": a.scale_embeddings,
        "tie_word_embeddings": a.tied_embeddings == "all",
        "pad_token_id": PAD_ROW,
        "bos_token_id": START,
        "eos_token_id": END,
        "decoder_start_token_id": ids.start,
    }


def _generation_config(spec: Spec, ids: ForeignIds) -> dict[str, Any]:
    """Return the content of `generation_config.json`. `max_length` there counts BOS and the token of the language."""
    decoding = spec.decoding
    suppressed = sorted({int(ids.foreign[id]) for id in decoding.suppressed_tokens if id != BOS or ids.start == START})
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "early_stopping": decoding.stopping_rule == "full",
        "max_length": int(decoding.length_factor * decoding.max_source_length) + decoding.extra_length + 2,
        "bad_words_ids": [[id] for id in suppressed] or None,
        "pad_token_id": PAD_ROW,
        "bos_token_id": START,
        "eos_token_id": END,
        "decoder_start_token_id": ids.start,
    }
