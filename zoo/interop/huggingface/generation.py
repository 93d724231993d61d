"""What `generation_config.json` says of how translations are looked for, as a spec's `decoding`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoo.interop.numbering import Numbering
from zoo.interop.settings import Settings

_BEAM, _LENGTH = 1, 20
"""Where nothing says, transformers takes these."""
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (None, 0),
    "forced_bos_token_id": (None,),
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
_WITHOUT_EFFECT = (
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
"""Of samples, of how fast it is, of what else is given back; numbers of tokens are asked for elsewhere."""
_READ = (
    *("eos_token_id", "forced_eos_token_id", "bad_words_ids", "renormalize_logits", "length_penalty", "num_beams"),
    *("max_length", "max_new_tokens", "early_stopping"),
)
KEYS = (*_ALLOWED, *_WITHOUT_EFFECT, *_READ)
"""All that say how to search: in a config they have no effect where a file of its own says it."""


@dataclass(frozen=True)
class Generation:
    """How translations are looked for."""

    decoding: dict[str, Any]
    """Fields of a spec's section."""
    removed: tuple[int, ...]
    """Foreign numbers of tokens that no translation has and that take no share of the probability."""
    notes: tuple[str, ...]


def generation(settings: Settings, end: int, numbering: Numbering, *, forced: bool) -> Generation:
    """Of the settings, or of a config that has them. Raises ZooError for what a spec cannot say.

    `forced` is whether a longest translation gets an EOS where nothing is said of it: by a config, and by no file of
    its own.
    """
    settings.require(_ALLOWED)
    settings.without_effect(*_WITHOUT_EFFECT)
    if settings.any("eos_token_id", end) not in (end, [end]):
        raise settings.refused("eos_token_id", f"is not the one of `config.json`, {end}")
    last = settings.any("forced_eos_token_id", end if forced else None)
    if last not in (None, end, [end]):
        raise settings.refused("forced_eos_token_id", f"is not `eos_token_id: {end}`")
    suppressed = _suppressed(settings)
    renormalised = settings.truth("renormalize_logits", False)
    alpha, beam = settings.number("length_penalty", 1.0), settings.whole("num_beams", _BEAM, least=1)
    if alpha < 0:
        raise settings.refused("length_penalty", "is less than 0, and a spec's `alpha` is not")
    notes = []
    if settings.any("early_stopping", False) is not True and beam > 1:
        notes.append("a beam search ends when it is full, and not by transformers' own rule: a few translations differ")
    decoding = {
        "beam": beam,
        "alpha": alpha,
        "length_penalty": "power",
        # With `early_stopping` its very rule, and the nearest without.
        "stopping_rule": "full",
        "length_factor": 0.0,
        "extra_length": _longest(settings, int(last is not None)),
        "suppressed_tokens": [] if renormalised else [numbering.id(number) for number in suppressed],
    }
    return Generation(decoding, tuple(suppressed) if renormalised else (), tuple(notes))


def _longest(settings: Settings, forced: int) -> int:
    """Tokens of a translation; what decoding starts with and an EOS that is forced at the end count there, not here."""
    if settings.any("max_new_tokens") is not None:
        settings.without_effect("max_length")
        return max(0, settings.whole("max_new_tokens", least=1) - forced)
    return max(0, settings.whole("max_length", _LENGTH, least=1) - 1 - forced)


def _suppressed(settings: Settings) -> list[int]:
    """Numbers of single tokens. Raises ZooError for words of several."""
    words = settings.any("bad_words_ids") or []
    if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise settings.refused("bad_words_ids", "has words of several tokens, and a spec bars single ones")
    return [int(word[0]) for word in words]
