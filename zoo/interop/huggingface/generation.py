"""Conversion of search settings of transformers to `decoding`: `generation_config.json`, or an older `config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoo.interop.numbering import Numbering
from zoo.interop.settings import Settings

_DEFAULT_BEAM, _DEFAULT_MAX_LENGTH = 1, 20
_ALLOWED_IN_GENERATION: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (None, 0),
    "force_bos_token_to_be_generated": (False,),
    "exponential_decay_length_penalty": (None,),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "forced_decoder_ids": (None,),
    "sequence_bias": (None,),
    "constraints": (None,),
    "force_words_ids": (None,),
    "guidance_scale": (None, 1, 1.0),
    "penalty_alpha": (None, 0, 0.0),
    "dola_layers": (None,),
    "stop_strings": (None,),
    "watermarking_config": (None,),
}
_NO_EFFECT_IN_GENERATION = (
    *("_from_model_config", "transformers_version", "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h"),
    *("epsilon_cutoff", "eta_cutoff", "num_return_sequences", "output_attentions", "output_hidden_states"),
    *("output_scores", "output_logits", "return_dict_in_generate", "use_cache", "cache_implementation", "cache_config"),
    *("bos_token_id", "pad_token_id", "decoder_start_token_id", "remove_invalid_values", "max_time", "low_memory"),
    *("return_legacy_cache", "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "token_healing"),
    *("assistant_confidence_threshold", "prompt_lookup_num_tokens", "max_matching_ngram_size", "compile_config"),
    *("generation_kwargs", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "disable_compile"),
    *("prefill_chunk_size", "output_past", "use_model_defaults", "trust_remote_code", "max_cache_len", "use_mtp"),
    *("assistant_ensemble_weight", "speculation_type", "continuous_batching_config"),
)
"""Ignored search settings: for sampling, performance and additional outputs, and token IDs that `config.json` has."""
_READ_IN_GENERATION = (
    *("eos_token_id", "forced_eos_token_id", "bad_words_ids", "renormalize_logits", "length_penalty", "num_beams"),
    *("max_length", "max_new_tokens", "early_stopping"),
)
_FORCED_START = "forced_bos_token_id"
GENERATION_KEYS = (*_ALLOWED_IN_GENERATION, _FORCED_START, *_NO_EFFECT_IN_GENERATION, *_READ_IN_GENERATION)
"""All search settings. In `config.json`, they have no effect if there is a `generation_config.json`."""


@dataclass(frozen=True)
class GenerationSettings:
    """Search settings, converted for a spec."""

    decoding: dict[str, Any]
    """Fields of `decoding` in a spec."""
    excluded: tuple[int, ...]
    """transformers' IDs of tokens that are excluded from the softmax, so that no translation contains them."""
    notes: tuple[str, ...]
    """Notes to show to the user."""


def generation_settings(
    settings: Settings, end: int, numbering: Numbering, *, forces_end: bool, is_multilingual: bool = False
) -> GenerationSettings:
    """Convert the search settings.

    Args:
        settings: The content of `generation_config.json`, or of a `config.json` that contains these settings.
        end: transformers' ID of EOS.
        numbering: The tokens of the target.
        forces_end: Whether a translation of maximum length ends with EOS if the settings do not specify it. True for
            the settings in a `config.json`.
        is_multilingual: Whether each request specifies the first token of a translation, a language token. The default
            in the settings then has no effect.

    Raises:
        ZooError: A setting is not supported.
    """
    settings.require(_ALLOWED_IN_GENERATION if is_multilingual else _ALLOWED_IN_GENERATION | {_FORCED_START: (None,)})
    settings.ignore(_FORCED_START)
    settings.ignore(*_NO_EFFECT_IN_GENERATION)
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
    decoding = {
        "beam": beam,
        "alpha": alpha,
        "length_penalty": "power",
        "stopping_rule": "full",  # the same rule with `early_stopping`, and the closest one without it
        "length_factor": 0.0,
        "extra_length": _max_length(settings, forces_end=forced is not None),
        "suppressed_tokens": [] if renormalized else [numbering.id(row) for row in suppressed],
    }
    return GenerationSettings(decoding, tuple(suppressed) if renormalized else (), tuple(notes))


def _max_length(settings: Settings, *, forces_end: bool) -> int:
    """Return the maximum length of a translation, in tokens without BOS and EOS, which transformers also counts."""
    if settings.any("max_new_tokens") is not None:
        settings.ignore("max_length")
        return max(0, settings.integer("max_new_tokens", minimum=1) - forces_end)
    return max(0, settings.integer("max_length", _DEFAULT_MAX_LENGTH, minimum=1) - 1 - forces_end)


def _suppressed(settings: Settings) -> list[int]:
    """Return transformers' IDs of suppressed tokens. Raise ZooError for sequences of several tokens."""
    words = settings.any("bad_words_ids") or []
    if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise settings.error("bad_words_ids", "suppresses words of several tokens, but zoo suppresses single tokens")
    return [int(word[0]) for word in words]
