"""What a folder of CTranslate2 says beside its network: which tokens stand at the ends of sentences, the norm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.files.reading import read_json
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.settings import Settings

CONFIG = "config.json"
_JSON = 6
"""The binary version from which on it is in a file of its own; before, variables said it."""
_FLAGS = ("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens")
_TOKENS = ("unk_token", "bos_token", "eos_token")
VARIABLES = {*_FLAGS, *_TOKENS}
_BOS, _EOS = "<s>", "</s>"
"""What the engine takes where nothing is written."""


@dataclass(frozen=True)
class Ends:
    """Tokens by their names, and what else it says."""

    unknown: str
    end: str
    start: str
    """What decoding starts with."""
    source_ends: bool
    """Whether EOS stands behind a source."""
    epsilon: float | None


def ends(place: Path, found: Binary) -> Ends:
    """As the engine takes them. Raises ZooError, by name, for one that is not known or that a spec cannot say."""
    file = place / CONFIG
    said = Settings(read_json(file) if found.version >= _JSON else _of_variables(found), str(file))
    if said.truth("add_source_bos", False):
        raise said.refused("add_source_bos", "has a source begin with BOS, which a spec cannot say")
    if said.truth("multi_query_attention", False):
        raise said.refused("multi_query_attention", "has heads share keys and values, which a spec cannot say")
    if said.any("decoder_start_token", _BOS) is None:
        raise said.refused(
            "decoder_start_token",
            "leaves it to whoever translates what each translation begins with, such as its language, and a model here "
            "has one beginning",
            hint="write that token there, in a copy of the folder, for a model of one language",
        )
    epsilon = None if said.any("layer_norm_epsilon") is None else said.number("layer_norm_epsilon", 0.0)
    said.without_effect("bos_token")
    unknown, end, start = (
        _piece(said, key, usual)
        for key, usual in (("unk_token", "<unk>"), ("eos_token", _EOS), ("decoder_start_token", _BOS))
    )
    ended = said.truth("add_source_eos", False)
    said.finish()
    return Ends(unknown, end, start, ended, epsilon)


def _piece(said: Settings, key: str, usual: str) -> str:
    """By its name. Raises ZooError where it is none, `null` as well."""
    if said.any(key, usual) is None:
        raise said.refused(key, "is no token")
    return said.text(key, usual)


def _of_variables(found: Binary) -> dict[str, Any]:
    tokens = {
        name: bytes(found.variables[name].flatten().tolist()).decode() for name in _TOKENS if name in found.variables
    }
    flags = {name: bool(found.variables[name].any()) for name in _FLAGS if name in found.variables}
    start, usual = ("bos_token", _BOS) if flags.get("with_target_bos", True) else ("eos_token", _EOS)
    return {
        **tokens,
        "add_source_bos": flags.get("with_source_bos", False),
        "add_source_eos": flags.get("with_source_eos", False),
        "decoder_start_token": None if flags.get("user_decoder_start_tokens", False) else tokens.get(start, usual),
    }
