"""Writer of the vocabularies of transformers' T5Tokenizer and GemmaTokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from specs import BOS, EOS, PAD, UNK
from zoo.files.atomic import write_json
from zoo.interop.formats import Bundle
from zoo.interop.huggingface.config import TOKENIZER_CONFIG
from zoo.interop.huggingface.family import WrittenIds
from zoo.interop.numbering import NEVER
from zoo.interop.roundtrip import cannot_export
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.text.tokenizer import Tokenizer

_END, _UNKNOWN = 1, 2
"""IDs in every exported model. T5Tokenizer has no other ID for the unknown token."""


def written_ids(bundle: Bundle, format: str) -> WrittenIds:
    """Return the IDs for a model. PAD and BOS get no ID of their own if the model cannot generate them.

    Args:
        bundle: The published model. Both sides have the same tokens.
        format: The name of the format.

    Raises:
        ZooError: The model cannot generate BOS, and neither UNK nor EOS has its embedding.
    """
    tensors = bundle.tensors
    table = tensors["embedding" if "embedding" in tensors else "target_embedding"]
    never = tensors.get("output_bias", torch.zeros(len(table))).float() == NEVER
    kept = [id for id in (PAD, BOS) if not never[id]]
    first, *others = [*kept, *range(EOS + 1, len(table))]
    start = None
    if never[BOS]:
        same = (row for row, id in ((_UNKNOWN, UNK), (_END, EOS)) if torch.equal(table[BOS], table[id]))
        if (start := next(same, None)) is None:
            raise cannot_export(
                format, "the token that decoding starts with (BOS) would get a share of the probability"
            )
    pad = 0 if kept else _END
    return WrittenIds.of([first, EOS, UNK, *others], len(table), pad=pad, end=_END, start=start)


def write_vocabulary(bundle: Bundle, file: Path, ids: WrittenIds, settings: Mapping[str, Any]) -> None:
    """Write the SentencePiece model and the settings of the tokenizer, which list the added tokens.

    Args:
        bundle: The published model. Both sides have the same tokens.
        file: The SentencePiece model to write.
        ids: The token IDs in zoo and transformers.
        settings: Further settings of the tokenizer.
    """
    tokenizer = bundle.vocabulary.target
    assert isinstance(tokenizer, Tokenizer)
    model = SentencePieceModel(file, tokenizer.content)
    order = [id for id in ids.order if id is not None]
    pad_id = order[ids.pad]
    languages = bundle.spec.languages
    of_languages = map(languages.token_of, languages.codes) if languages else ()
    tags = {name: id for name in of_languages if (id := tokenizer.id_of(name)) is not None}
    found = tokenizer.added.ids if tokenizer.added else {}
    added = {name: pad_id if id is None else id for name, id in found.items() if name not in tags}
    # Other tokens of languages are encoded as text, with a space before them.
    added |= {name: id for name, id in tags.items() if tokenizer.model.is_control(id)}
    names = {pad_id: "<pad>", UNK: "<unk>", EOS: "</s>"} | {id: name for name, id in added.items()}
    while model.entries[order[-1]].name == f"<{len(order) - 1}>":  # a row of the embedding without a token
        order.pop()
    content = model.reordered(order, names, unknown=_UNKNOWN, end=_END, pad=ids.pad)
    file.write_bytes(content)
    decoder = {}
    for name, token in added.items():
        special = model.entries[token].type in (TokenType.CONTROL, TokenType.UNKNOWN)
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        decoder[str(int(ids.foreign[token]))] = {"content": name, "special": special, **flags}
    tokens = {"pad_token": names[pad_id], "unk_token": names[UNK], "eos_token": names[EOS]}
    if pad_id != BOS and BOS in order:  # otherwise, each text that transformers generates would begin with `<s>`
        tokens["bos_token"] = names.get(BOS, model.entries[BOS].name)
    write_json(file.with_name(TOKENIZER_CONFIG), {**settings, "added_tokens_decoder": decoder, **tokens})
