"""Settings of transformers' models: the network in `config.json`, and the search in `generation_config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import read_json
from zoo.interop.formats import search_fields
from zoo.interop.tables import TOOLKITS, Settings
from zoo.interop.tensors import Numbering

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
ACTIVATIONS: Mapping[str, str] = TOOLKITS["transformers"]["activations"]
"""Names of the supported activation functions in zoo, keyed by their names in transformers."""
_DEFAULT_BEAM, _DEFAULT_MAX_LENGTH = 1, 20
MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows


def model_type(path: Path) -> str | None:
    """Return the `model_type` in a folder's `config.json`, or None if the folder has no valid `model_type`."""
    try:
        value = read_json(path / CONFIG).get("model_type")
    except ZooError:
        return None
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class SpecialTokens:
    """Special token IDs in transformers. The same tokens have different IDs in zoo."""

    end: int
    start: int
    """ID of the decoder's start token."""
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
    settings: Settings, end: int, numbering: Numbering, *, forces_end: bool, section: str = "transformers.bilingual"
) -> GenerationSettings:
    """Convert the search settings of a transformers model.

    Args:
        settings: The content of `generation_config.json`, or of a `config.json` that contains these settings.
        end: transformers' ID of EOS.
        numbering: The target tokens, in the order of zoo's token IDs.
        forces_end: Whether translations of maximum length end with EOS if `forced_eos_token_id` is missing. True for
            the settings in a `config.json`.
        section: The section of `toolkits.yaml` with the setting for the language token that translations begin with.

    Raises:
        ZooError: A setting is not supported.
    """
    settings.require_known("transformers.generation", section)
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
        notes.append("beam search stops when the beam is full, unlike in transformers: few translations differ")
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
