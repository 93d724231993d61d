"""Files of transformers' models: settings of the network, the search and the tokenizer."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, is_present, read_json
from zoo.interop.formats import search_fields
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenEntry, TokenType, new_model
from zoo.interop.tables import TOOLKITS, Settings
from zoo.interop.tensors import Numbering

CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"
ACTIVATIONS: Mapping[str, str] = TOOLKITS["transformers"]["activations"]
"""Names of the supported activation functions in zoo, keyed by their names in transformers."""
_DEFAULT_BEAM, _DEFAULT_MAX_LENGTH = 1, 20
MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows
_FORCED_START = "forced_bos_token_id"
TOKENIZER, ADDED_TOKENS, SPECIAL_TOKENS = "tokenizer.json", "added_tokens.json", "special_tokens_map.json"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_NORMALIZERS = ("Precompiled", "Replace", "Strip")
"""Types of normaliser steps that SentencePiece also performs. Replace and Strip remove spaces."""
_MAX_MESSAGE = 300  # characters


def model_type(path: Path) -> str | None:
    """Return the `model_type` in a folder's `config.json`, or None if the folder has no valid `model_type`."""
    try:
        value = read_json(path / CONFIG).get("model_type")
    except ZooError:
        return None
    return value if isinstance(value, str) else None


def read_optional_json(file: Path) -> dict[str, Any]:
    """Read a JSON file. Return an empty dictionary if the file does not exist."""
    return read_json(file, MAX_VOCABULARY_BYTES) if is_present(file) else {}


@dataclass(frozen=True)
class SpecialTokens:
    """Special token IDs in transformers. The same tokens have different IDs in zoo."""

    end: int
    start: int
    """ID of the token that decoding starts with."""
    pad: int


def special_tokens(config: Settings, search: Settings, end: int, pad: int, start: int | None = None) -> SpecialTokens:
    """Return the special token IDs that a model has in transformers.

    Args:
        config: The content of `config.json`.
        search: The search settings. A start token in these settings takes precedence over the start token in `config`.
        end: The default ID of EOS.
        pad: The default ID of the padding token.
        start: The default ID of the start token. If None, the default is the ID of the padding token.
    """
    end, pad = config.integer("eos_token_id", end), config.integer("pad_token_id", pad)
    for file in (search, config):
        if file.any("decoder_start_token_id") is not None:
            return SpecialTokens(end, file.integer("decoder_start_token_id"), pad)
    return SpecialTokens(end, pad if start is None else start, pad)


@dataclass(frozen=True)
class GenerationSettings:
    """Search settings from transformers, converted to zoo's format."""

    decoding: dict[str, Any]
    """Fields of `decoding` in a spec."""
    excluded: tuple[int, ...]
    """transformers' IDs of tokens that are excluded from the softmax, so that no translation contains them."""
    notes: tuple[str, ...]
    """Notes to show to the user."""


def generation_settings(
    settings: Settings, end: int, numbering: Numbering, *, forces_end: bool, is_multilingual: bool = False
) -> GenerationSettings:
    """Convert the search settings of a transformers model.

    Args:
        settings: The content of `generation_config.json`, or of a `config.json` that contains these settings.
        end: transformers' ID of EOS.
        numbering: The target tokens, in the order of zoo's token IDs.
        forces_end: Whether translations of maximum length end with EOS if `forced_eos_token_id` is missing. True for
            the settings in a `config.json`.
        is_multilingual: Whether each request specifies the language token that a translation begins with. The default
            token in the settings then has no effect.

    Raises:
        ZooError: A setting is not supported.
    """
    settings.require_known("transformers.generation")
    if is_multilingual:
        settings.ignore(_FORCED_START)
    else:
        settings.require({_FORCED_START: (None,)})
    if settings.any("eos_token_id", end) not in (end, [end]):
        raise settings.error("eos_token_id", f"differs from the value {end} in `config.json`")
    forced = settings.any("forced_eos_token_id", end if forces_end else None)
    if forced not in (None, end, [end]):
        raise settings.error("forced_eos_token_id", f"differs from `eos_token_id: {end}`")
    suppressed = _suppressed(settings)
    renormalized = settings.boolean("renormalize_logits", False)
    alpha, beam = settings.number("length_penalty", 1.0), settings.integer("num_beams", _DEFAULT_BEAM, minimum=1)
    if alpha < 0:
        raise settings.error("length_penalty", "is negative, but zoo supports only 0 and positive values")
    notes = []
    if settings.any("max_length") is None and settings.any("max_new_tokens") is None:
        notes.append(
            f"translations have at most {_DEFAULT_MAX_LENGTH - 1} tokens, as in transformers, because the model has no "
            "`max_length`: `decoding.extra_length` changes this"
        )
    if settings.any("early_stopping", False) is not True and beam > 1:
        notes.append("beam search stops when the beam is full, not by transformers' rule: few translations differ")
    # With `early_stopping`, transformers' rule equals `stopping_rule: full`. Otherwise, `full` is the closest rule.
    decoding = search_fields(beam, _max_length(settings, forces_end=forced is not None), alpha)
    decoding["suppressed_tokens"] = [] if renormalized else [numbering.ids[row] for row in suppressed]
    return GenerationSettings(decoding, tuple(suppressed) if renormalized else (), tuple(notes))


def _max_length(settings: Settings, *, forces_end: bool) -> int:
    """Return the maximum length of a translation without BOS and EOS. The settings in transformers count both."""
    if settings.any("max_new_tokens") is not None:
        return max(0, settings.integer("max_new_tokens", minimum=1) - forces_end)
    return max(0, settings.integer("max_length", _DEFAULT_MAX_LENGTH, minimum=1) - 1 - forces_end)


def _suppressed(settings: Settings) -> list[int]:
    """Return transformers' IDs of suppressed tokens. Raise ZooError if a sequence of several tokens is suppressed."""
    words = settings.any("bad_words_ids") or []
    if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise settings.error("bad_words_ids", "suppresses words of several tokens, but zoo supports only single tokens")
    return [int(word[0]) for word in words]


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
