"""Writer of the vocabularies of transformers' M2M100Tokenizer, NllbTokenizer and MBart50Tokenizer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.files.atomic import write_json
from zoo.interop.formats import Bundle
from zoo.interop.huggingface.config import TOKENIZER_CONFIG
from zoo.interop.huggingface.family import WrittenIds
from zoo.interop.huggingface.multilingual_vocabulary import (
    END,
    LISTS,
    M2M100_TOKENIZER,
    MASK,
    MBART50,
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
from zoo.interop.numbering import NEVER
from zoo.interop.roundtrip import cannot_export
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.text.tokenizer import Tokenizer

_START_NAME = f"{SPECIAL_NAMES[START]}<{START}>"
"""Name of the row of `<s>` in a model that begins translations with another token."""
_UNNAMED = re.compile(r"<\d+>")


def fitting_class(spec: Spec) -> TokenizerClass:
    """Return the tokenizer class that fits a spec. Raise ZooError if there is none."""
    languages, vocabulary = spec.languages, spec.vocabulary
    if languages is None or (languages.source_token, languages.target_token) != ("source", "target"):
        raise _unsupported(
            "these models read the token of the source language and begin a translation with that of the target "
            "(`languages.source_token: source`, `target_token: target`)"
        )
    if vocabulary.byte_fallback or not vocabulary.shared or vocabulary.separate_models:
        raise _unsupported("their tokenizers have one model for both sides, without bytes (`vocabulary.byte_fallback`)")
    lists = {M2M100_TOKENIZER: [*LISTS.values()], MBART50_TOKENIZER: [MBART50], NLLB_TOKENIZER: [languages.codes]}
    for class_, codes in lists.items():
        if (vocabulary.kind, languages.token) == (class_.kind, class_.language_token) and languages.codes in codes:
            return class_
    raise _unsupported(
        f"it has a vocabulary of the kind `{vocabulary.kind}` and tokens `{languages.token}` for its "
        f"{len(languages.codes)} languages: NllbTokenizer has a bpe model and tokens `{{}}`, M2M100Tokenizer a bpe "
        "model and tokens `__{}__` for the languages of M2M-100, and MBart50Tokenizer a unigram model and tokens `{}` "
        "for those of mBART-50"
    )


def written_ids(bundle: Bundle) -> WrittenIds:
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
            raise _unsupported("it cannot generate BOS, the token that decoding starts with, but these models can")
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
    return WrittenIds.of(rows, len(names), pad=PAD_ROW, end=END, start=start, other=UNKNOWN)


def _unsupported(reason: str) -> ZooError:
    return cannot_export("hf-multilingual", reason)


def write_vocabulary(bundle: Bundle, class_: TokenizerClass, folder: Path, ids: WrittenIds) -> None:
    """Write the SentencePiece model, the settings of the tokenizer, and, only for M2M-100, the token IDs."""
    tokenizer, languages = bundle.vocabulary.source, bundle.spec.languages
    assert isinstance(tokenizer, Tokenizer)
    assert languages is not None
    model = SentencePieceModel(folder / SENTENCEPIECE, tokenizer.content)
    first_language = int(ids.foreign[tokenizer.model.piece_to_id(languages.token_of(languages.codes[0]))])
    text = [id for id in ids.order[len(SPECIAL_NAMES) : first_language] if id is not None]
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
        numbered = {**dict(enumerate(SPECIAL_NAMES)), **dict(enumerate(added, start=first_language))}
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
