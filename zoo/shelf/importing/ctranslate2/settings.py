"""What a folder of CTranslate2 says beside its network: which pieces stand at the ends of sentences, the norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from specs.notation import shown
from zoo.shelf.importing.ctranslate2.binary import Binary
from zoo.storage.files import read_json

CONFIG = "config.json"
_JSON = 6
"""The binary version from which on it is in a file of its own; before, variables said it."""
_FLAGS = ("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens")
_TOKENS = ("unk_token", "bos_token", "eos_token")
VARIABLES = {*_FLAGS, *_TOKENS}
_KNOWN: Mapping[str, Any] = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "decoder_start_token": "<s>",
    "add_source_bos": False,
    "add_source_eos": False,
    "layer_norm_epsilon": None,
    "multi_query_attention": False,
}
"""Each with what the engine takes where it is not written."""


@dataclass(frozen=True)
class Settings:
    """Pieces by their names."""

    unknown: str
    end: str
    start: str
    """What decoding starts with."""
    source_ends: bool
    """Whether EOS stands behind a source."""
    epsilon: float | None


def settings(place: Path, found: Binary) -> Settings:
    """As the engine takes them. Raises ZooError, by name, for one that is not known or that a spec cannot say."""
    file = place / CONFIG
    said = dict(_KNOWN) | (read_json(file) if found.version >= _JSON else _of_variables(found))
    for key, value in said.items():
        if key not in _KNOWN:
            raise ZooError(f"`{key}` ({shown(value)}) is no setting that is known of a translator", where=str(file))
    if said["add_source_bos"]:
        raise ZooError("a source begins with BOS there (`add_source_bos`), which a spec cannot say", where=str(file))
    if said["multi_query_attention"]:
        raise ZooError("its heads share keys and values (`multi_query_attention`), which a spec cannot say")
    if said["decoder_start_token"] is None:
        raise ZooError(
            "it has no `decoder_start_token`: whoever translates says what each translation begins with, such as its "
            "language, and a model here has one beginning",
            where=str(file),
            hint="write that piece there, in a copy of the folder, for a model of one language",
        )
    epsilon = said["layer_norm_epsilon"]
    unknown, end, start = (_text(said, key, file) for key in ("unk_token", "eos_token", "decoder_start_token"))
    return Settings(unknown, end, start, bool(said["add_source_eos"]), None if epsilon is None else float(epsilon))


def _of_variables(found: Binary) -> dict[str, Any]:
    tokens = {
        name: bytes(found.variables[name].flatten().tolist()).decode() for name in _TOKENS if name in found.variables
    }
    flags = {name: bool(found.variables[name].any()) for name in _FLAGS if name in found.variables}
    start = tokens.get("bos_token" if flags.get("with_target_bos", True) else "eos_token")
    usual = _KNOWN["bos_token" if flags.get("with_target_bos", True) else "eos_token"]
    return {
        **tokens,
        "add_source_bos": flags.get("with_source_bos", False),
        "add_source_eos": flags.get("with_source_eos", False),
        "decoder_start_token": None if flags.get("user_decoder_start_tokens", False) else start or usual,
    }


def _text(said: Mapping[str, Any], key: str, file: Path) -> str:
    if not isinstance(said[key], str):
        raise ZooError(f"`{key}` is {shown(said[key])}, and no piece", where=str(file), exit_code=1)
    return str(said[key])
