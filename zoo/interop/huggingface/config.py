"""Files of transformers models: the network (`config.json`), the search (`generation_config.json`) and the weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from specs import ZooError
from zoo.files.reading import is_present, read_json
from zoo.interop.formats import search_fields
from zoo.interop.huggingface.weights import open_weights
from zoo.interop.tables import TOOLKITS, Settings
from zoo.interop.tensors import ForeignTensors, Numbering

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
ACTIVATIONS: Mapping[str, str] = TOOLKITS["transformers"]["activations"]
"""Names of the supported activation functions in zoo, keyed by their names in transformers."""
_DEFAULT_BEAM, _DEFAULT_MAX_LENGTH = 1, 20
_NO_MAX_LENGTH = (
    f"translations have at most {_DEFAULT_MAX_LENGTH - 1} tokens, as in transformers, because the model has no "
    "`max_length`: `decoding.extra_length` changes this"
)
_MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows


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


@dataclass(frozen=True)
class GenerationSettings:
    """Search settings from transformers, converted to zoo's format."""

    decoding: Mapping[str, Any]
    """Fields of `decoding` in a spec."""
    excluded: tuple[int, ...]
    """transformers' IDs of tokens that are excluded from the softmax, so that no translation contains them."""
    notes: tuple[str, ...]
    """Notes to show to the user."""


@dataclass(frozen=True)
class ModelFiles:
    """Settings and weights of a model in transformers."""

    path: Path
    """The folder of the model."""
    config: Settings
    """The network's settings."""
    search: Settings
    """The search settings. In older folders, they are part of `config.json`, and `search` is `config`."""

    @classmethod
    def open(cls, path: Path, model_types: Collection[str]) -> Self:
        """Read the settings in a model folder.

        Raises:
            ZooError: A file is damaged, or the type of the model is not in `model_types`.
        """
        config = Settings(read_json(path / CONFIG), str(path / CONFIG))
        config.require({"model_type": model_types})
        if not is_present(path / GENERATION_CONFIG):
            return cls(path, config, config)
        return cls(path, config, Settings(read_json(path / GENERATION_CONFIG), str(path / GENERATION_CONFIG)))

    @cached_property
    def weights(self) -> ForeignTensors:
        """Weights of the model. The import removes each tensor that it uses."""
        return open_weights(self.path)

    def special_tokens(self, end: int, pad: int, start: int | None = None) -> SpecialTokens:
        """Return the special token IDs that the model has in transformers.

        A start token in the search settings takes precedence over the start token in `config.json`.

        Args:
            end: The default ID of EOS.
            pad: The default ID of the padding token.
            start: The default ID of the start token. If None, the default is the ID of the padding token.
        """
        end, pad = self.config.integer("eos_token_id", end), self.config.integer("pad_token_id", pad)
        for file in (self.search, self.config):
            if file.any("decoder_start_token_id") is not None:
                return SpecialTokens(end, file.integer("decoder_start_token_id"), pad)
        return SpecialTokens(end, pad if start is None else start, pad)

    def generation_settings(
        self,
        end: int,
        numbering: Numbering,
        *,
        forces_end: bool,
        source_positions: int | None = None,
        has_language_token: bool = False,
    ) -> GenerationSettings:
        """Convert the model's search settings to zoo's format.

        Args:
            end: transformers' ID of EOS.
            numbering: The target tokens, in the order of zoo's token IDs.
            forces_end: Whether a translation of maximum length must end with EOS. Only used for models that have
                neither `generation_config.json` nor the setting `forced_eos_token_id`.
            source_positions: The maximum length of a source in tokens without EOS. If None, zoo's default applies.
            has_language_token: Whether translations begin with a language token. Each request specifies this token.

        Raises:
            ZooError: A setting is not supported.
        """
        settings = self.search
        section = "multilingual.generation" if has_language_token else "bilingual"
        settings.require_known("transformers.generation", f"transformers.{section}")
        if settings.any("eos_token_id", end) not in (end, [end]):
            raise settings.error("eos_token_id", f"differs from the value {end} in `config.json`")
        forced = settings.any("forced_eos_token_id", end if forces_end and settings is self.config else None)
        if forced not in (None, end, [end]):
            raise settings.error("forced_eos_token_id", f"differs from `eos_token_id: {end}`")
        suppressed = _suppressed(settings)
        renormalized = settings.boolean("renormalize_logits", False)
        alpha, beam = settings.number("length_penalty", 1.0), settings.integer("num_beams", _DEFAULT_BEAM, minimum=1)
        if alpha < 0:
            raise settings.error("length_penalty", "is negative, but zoo supports only 0 and positive values")
        notes = []
        if settings.any("max_length") is None and settings.any("max_new_tokens") is None:
            notes.append(_NO_MAX_LENGTH)
        if settings.any("early_stopping", False) is not True and beam > 1:
            notes.append("beam search stops when the beam is full, unlike in transformers: few translations differ")
        # With `early_stopping`, transformers' rule equals `stopping_rule: full`. Otherwise, `full` is the closest rule.
        # transformers counts the language token, and zoo does not.
        length = max(0, _max_length(settings) - (forced is not None) - has_language_token)
        decoding = search_fields(beam, length, alpha)
        decoding["suppressed_tokens"] = [] if renormalized else [numbering.ids[row] for row in suppressed]
        if source_positions is not None:
            decoding["max_source_length"] = min(source_positions, _MAX_SOURCE_LENGTH)
        return GenerationSettings(decoding, tuple(suppressed) if renormalized else (), tuple(notes))


def _max_length(settings: Settings) -> int:
    """Return the maximum length of a translation without BOS, but with EOS. transformers' `max_length` counts both."""
    if settings.any("max_new_tokens") is not None:
        return settings.integer("max_new_tokens", minimum=1)
    return settings.integer("max_length", _DEFAULT_MAX_LENGTH, minimum=1) - 1


def _suppressed(settings: Settings) -> list[int]:
    """Return transformers' IDs of suppressed tokens. Raise ZooError if a sequence of several tokens is suppressed."""
    words = settings.any("bad_words_ids") or []
    if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise settings.error("bad_words_ids", "suppresses words of several tokens, but zoo supports only single tokens")
    return [int(word[0]) for word in words]
