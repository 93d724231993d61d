"""Tokenizers of transformers' models: their files, their SentencePiece models, and their token IDs."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specs import BOS, ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, is_present, read_json
from zoo.interop.formats import cannot_export
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenEntry, TokenType, new_model
from zoo.interop.tensors import NEVER, select_rows
from zoo.models.loading import Model

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
ADDED_TOKENS, SPECIAL_TOKENS = "added_tokens.json", "special_tokens_map.json"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_NORMALIZERS = ("Precompiled", "Replace", "Strip")
"""Types of normaliser steps that SentencePiece also performs. Replace and Strip remove spaces."""
_MAX_MESSAGE = 300  # characters


class WrittenIds:
    """Token IDs of an exported model. The same token has different IDs in zoo and in transformers.

    Attributes:
        order: zoo's ID of each token, in the order of transformers' IDs.
        foreign: transformers' ID of each token, in the order of zoo's IDs.
        start: transformers' ID of the decoder's start token.
        pad: transformers' ID of the padding token.
        end: transformers' ID of EOS.
    """

    def __init__(
        self, order: Sequence[int | None], size: int, *, pad: int, end: int, start: int | None = None, other: int = 0
    ) -> None:
        """Create the token IDs of an exported model from the order of its tokens.

        Args:
            order: zoo's ID of each token, in the order of transformers' IDs. None for a token that zoo does not have.
                The row of this token in exported matrices contains zeros.
            size: The number of tokens in zoo.
            pad: transformers' ID of the padding token.
            end: transformers' ID of EOS.
            start: transformers' ID of the decoder's start token. By default, the ID of BOS.
            other: transformers' ID for all tokens that are not in `order`.
        """
        self.order = list(order)
        self.foreign = torch.full((size,), other)
        for row, id in enumerate(order):
            if id is not None:
                self.foreign[id] = row
        if start is not None:
            self.foreign[BOS] = start
        self.start = int(self.foreign[BOS])
        self.pad = pad
        self.end = end

    def select(self, values: Tensor) -> Tensor:
        """Reorder the rows of a matrix, or the elements of a bias, from zoo's token IDs to transformers' token IDs."""
        return select_rows(values.float(), self.order[: len(values)], 0.0)

    @property
    def settings(self) -> dict[str, int]:
        """IDs of the special tokens, as in `config.json` and `generation_config.json`."""
        return {"pad_token_id": self.pad, "eos_token_id": self.end, "decoder_start_token_id": self.start}


def never_generated(model: Model) -> Tensor:
    """Return a Boolean tensor with an element for each target token: True if the model cannot generate the token."""
    bias = model.weights.tensors.get("output_bias", torch.zeros(model.vocabulary.target.size))
    return bias.float() == NEVER


def replacement_of_start(model: Model, rows: Mapping[int, int], format: str) -> int | None:
    """Return transformers' ID of the decoder's start token if the model cannot generate BOS, otherwise None.

    In transformers, decoding starts with a token that the model can generate. This token must have the same embedding
    as BOS.

    Args:
        model: The published model.
        rows: The tokens that can replace BOS: transformers' IDs, keyed by zoo's IDs.
        format: The name of the export format, for error messages.

    Raises:
        ZooError: None of these tokens has the same embedding as BOS.
    """
    if not never_generated(model)[BOS]:
        return None
    tensors = model.weights.tensors
    table = tensors["embedding" if "embedding" in tensors else "target_embedding"]
    same = (row for id, row in rows.items() if torch.equal(table[BOS], table[id]))
    if (start := next(same, None)) is None:
        reason = "decoding starts with BOS, but this format requires a start token that the model can generate"
        raise cannot_export(format, reason)
    return start


def read_optional_json(file: Path) -> dict[str, Any]:
    """Read a JSON file. Return an empty dictionary if the file does not exist."""
    return read_json(file, MAX_VOCABULARY_BYTES) if is_present(file) else {}


def tokenizer_settings(folder: Path, *replaced: str) -> dict[str, Any]:
    """Return a model's tokenizer settings, with special tokens as strings such as `<s>`.

    Older folders have some settings in `special_tokens_map.json`.

    Args:
        folder: The folder of the model.
        replaced: Settings to ignore in `special_tokens_map.json`.
    """
    older = read_optional_json(folder / SPECIAL_TOKENS)
    settings = {key: value for key, value in older.items() if key not in replaced}
    settings |= read_optional_json(folder / TOKENIZER_CONFIG)
    tokens = [key for key, value in settings.items() if key.endswith("_token") and isinstance(value, Mapping)]
    return settings | {key: content_of(settings[key]) for key in tokens}


def content_of(entry: Any) -> str:
    """Return the text of an added token. Its entry is either a string or a mapping that contains the text."""
    return str(entry["content"] if isinstance(entry, Mapping) else entry)


def added_entries(folder: Path, settings: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the entries for added tokens in a tokenizer's files, keyed by the token IDs in transformers."""
    entries = settings.get("added_tokens_decoder")
    if not entries and (tokenizer := read_optional_json(folder / TOKENIZER)):
        entries = {entry["id"]: entry for entry in tokenizer.get("added_tokens") or []}
    elif not entries:
        entries = {id: {"content": name} for name, id in read_optional_json(folder / ADDED_TOKENS).items()}
    return dict(sorted({int(id): entry for id, entry in entries.items()}.items()))


def decoder_entry(name: str, *, special: bool = True, lstrip: bool = False) -> dict[str, Any]:
    """Return a token's entry for the `added_tokens_decoder` setting in `tokenizer_config.json`."""
    flags = dict.fromkeys(("single_word", "rstrip", "normalized"), False)
    return {"content": name, "special": special, "lstrip": lstrip, **flags}


def read_saved_model(file: Path, kind: str, unknown: str, control: Collection[str] = ()) -> SentencePieceModel:
    """Return a SentencePiece model that splits text like the tokenizer in a `tokenizer.json`, with the same token IDs.

    Args:
        file: The `tokenizer.json`.
        kind: The algorithm, `bpe` or `unigram`.
        unknown: The name of the unknown token. If the model has no token with this name, `unk_id` in the file selects
            the unknown token.
        control: Names of control tokens, which never occur in text.

    Raises:
        ZooError: SentencePiece cannot split text the same way.
        ValueError: The file is damaged.
    """
    content = read_optional_json(file)
    model = content["model"]
    if str(model.get("type")).lower() != kind:
        raise ValueError(f"`{file}` does not contain a {kind} model")
    normalizer = content.get("normalizer") or {}
    steps = [step for step in normalizer.get("normalizers") or [normalizer] if step]
    for step in steps:
        if step.get("type") not in _NORMALIZERS:
            problem = f"`{file}` normalises text with `{step.get('type')}`, which zoo does not support"
            raise ZooError(problem[:_MAX_MESSAGE])
    maps = [step["precompiled_charsmap"] for step in steps if step.get("precompiled_charsmap")]
    if kind == "unigram":
        names, scores = [str(name) for name, _ in model["vocab"]], dict(model["vocab"])
    else:
        names = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if sorted(model["vocab"].values()) != list(range(len(names))):
            raise ValueError(f"the IDs in `{file}` are not consecutive numbers from 0")
        scores = _scores_of_merges(file, names, model["merges"], control)
    unknown = unknown if unknown in names else names[model["unk_id"]]
    has_bytes = bool(model.get("byte_fallback", False))
    types = {name: TokenType.BYTE for name in names if has_bytes and _BYTE.fullmatch(name)}
    types |= dict.fromkeys(control, TokenType.CONTROL) | {unknown: TokenType.UNKNOWN}
    entries = [TokenEntry(name, float(scores[name]), types.get(name, TokenType.NORMAL)) for name in names]
    characters = base64.b64decode(maps[0], validate=True) if maps else None
    return SentencePieceModel(file, new_model(kind, entries, characters, byte_fallback=has_bytes))


def _scores_of_merges(
    file: Path, names: Sequence[str], merges: Sequence[Any], control: Collection[str]
) -> dict[str, float]:
    """Choose a score for each token, so that SentencePiece merges pairs in the order of `merges`.

    SentencePiece merges any pair whose text is a token, so `merges` must contain all of these pairs.

    Raises:
        ZooError: `merges` lacks such a pair.
    """
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    scores: dict[str, float] = {}
    for rank, (left, right) in enumerate(pairs):
        scores.setdefault(left + right, -float(rank))
    listed, known = set(pairs), set(names) - set(control)
    for name in known:
        splits = ((name[:index], name[index:]) for index in range(1, len(name)))
        if missing := next((pair for pair in splits if known.issuperset(pair) and pair not in listed), None):
            problem = f"`{file}` does not merge `{missing[0]}` and `{missing[1]}`, but SentencePiece would do so"
            hint = "add the original SentencePiece model, which zoo then reads instead"
            raise ZooError(problem[:_MAX_MESSAGE], hint=hint)
    return {name: scores.get(name, -float(len(pairs))) for name in names}
