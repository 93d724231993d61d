"""Files that tokenizers of transformers have in common: settings, `tokenizer.json`, and added tokens."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.interop.huggingface.config import TOKENIZER_CONFIG, read_optional_json
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenEntry, TokenType, new_model

TOKENIZER, ADDED_TOKENS, SPECIAL_TOKENS = "tokenizer.json", "added_tokens.json", "special_tokens_map.json"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_NORMALIZERS = ("Precompiled", "Replace", "Strip")
"""Types of normaliser steps that SentencePiece also performs. Replace and Strip remove spaces."""
_MAX_MESSAGE = 300  # characters


def tokenizer_settings(folder: Path, *replaced: str) -> dict[str, Any]:
    """Return the settings of a tokenizer, in which special tokens have only their names.

    Older folders have some settings in `special_tokens_map.json`.

    Args:
        folder: The folder of the model.
        replaced: Settings that count only in the newer file.
    """
    older = read_optional_json(folder / SPECIAL_TOKENS)
    settings = {key: value for key, value in older.items() if key not in replaced}
    settings |= read_optional_json(folder / TOKENIZER_CONFIG)
    tokens = [key for key, value in settings.items() if key.endswith("_token") and isinstance(value, Mapping)]
    return settings | {key: content_of(settings[key]) for key in tokens}


def content_of(entry: Any) -> str:
    """Return the text of an added token. The entry is this text, or a mapping of its text and options."""
    return str(entry["content"] if isinstance(entry, Mapping) else entry)


def added_entries(folder: Path, settings: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the added tokens that the files of a tokenizer list, by their IDs in transformers."""
    entries = settings.get("added_tokens_decoder")
    if not entries and (tokenizer := read_optional_json(folder / TOKENIZER)):
        entries = {entry["id"]: entry for entry in tokenizer.get("added_tokens") or []}
    elif not entries:
        entries = {id: {"content": name} for name, id in read_optional_json(folder / ADDED_TOKENS).items()}
    numbered = {int(id): entry for id, entry in entries.items()}
    return {id: numbered[id] for id in sorted(numbered)}


def decoder_entry(name: str, *, special: bool = True, lstrip: bool = False) -> dict[str, Any]:
    """Return an entry of `added_tokens_decoder`."""
    flags = dict.fromkeys(("single_word", "rstrip", "normalized"), False)
    return {"content": name, "special": special, "lstrip": lstrip, **flags}


def read_saved_model(file: Path, kind: str, unknown: str, control: Collection[str] = ()) -> SentencePieceModel:
    """Return a SentencePiece model that splits text like a `tokenizer.json`. Its tokens have the same IDs.

    Args:
        file: The `tokenizer.json`.
        kind: The algorithm, `bpe` or `unigram`.
        unknown: The name of the unknown token. If there is no such token, use `unk_id`, which transformers 5 always
            sets to 2.
        control: Names of tokens that are not part of a text.

    Raises:
        ZooError: SentencePiece cannot split text in the same way.
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
            problem = f"`{file}` normalises text with `{step.get('type')}`, which zoo does not know"
            raise ZooError(problem[:_MAX_MESSAGE])
    maps = [step["precompiled_charsmap"] for step in steps if step.get("precompiled_charsmap")]
    if kind == "unigram":
        names, scores = [str(name) for name, _ in model["vocab"]], dict(model["vocab"])
    else:
        names = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if sorted(model["vocab"].values()) != list(range(len(names))):
            raise ValueError(f"the IDs in `{file}` are not all numbers from 0 on, each once")
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
    """Return a score for each token, so that SentencePiece merges pairs in the order of `merges`.

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
        if missing := next((pair for pair in _splits(name) if known.issuperset(pair) and pair not in listed), None):
            problem = f"`{file}` does not merge `{missing[0]}` and `{missing[1]}`, but SentencePiece would do so"
            hint = "add the original SentencePiece model, which zoo then reads instead"
            raise ZooError(problem[:_MAX_MESSAGE], hint=hint)
    return {name: scores.get(name, -float(len(pairs))) for name in names}


def _splits(name: str) -> Iterator[tuple[str, str]]:
    return ((name[:index], name[index:]) for index in range(1, len(name)))
