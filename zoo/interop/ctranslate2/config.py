"""Reader of the settings and vocabularies in a model folder of CTranslate2."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import is_present, read_bytes, read_json
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.settings import Settings
from zoo.interop.vocabulary import TokenList

CONFIG = "config.json"
_FIRST_VERSION_WITH_CONFIG = 6  # of `model.bin`; before, its variables contain the settings
_FLAGS = ("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens")
_TOKENS = ("unk_token", "bos_token", "eos_token")
SETTING_VARIABLES = {*_FLAGS, *_TOKENS}
"""Variables of `model.bin` that contain settings."""
_BOS, _EOS = "<s>", "</s>"  # CTranslate2's defaults


@dataclass(frozen=True)
class Config:
    """Settings of a model of CTranslate2. Tokens are given by name."""

    unknown: str
    end: str
    start: str
    """Token that decoding starts with."""
    source_has_end: bool
    """Whether the model reads EOS after a source."""
    norm_epsilon: float | None


def read_config(folder: Path, binary: Binary) -> Config:
    """Read the settings of a model.

    Raises:
        ZooError: A setting is unknown, has an invalid value, or is not supported.
    """
    file = folder / CONFIG
    from_file = binary.version >= _FIRST_VERSION_WITH_CONFIG
    settings = Settings(read_json(file) if from_file else _settings_of_variables(binary), str(file))
    if settings.boolean("add_source_bos", False):
        raise settings.error("add_source_bos", "puts BOS before a source, which zoo does not support")
    if settings.any("decoder_start_token", _BOS) is None:
        raise settings.error(
            "decoder_start_token",
            "lets each request choose the first token, such as a language, but a model in zoo has one first token",
            hint="copy the folder, and replace the value there by the token of one language",
        )
    epsilon = None if settings.any("layer_norm_epsilon") is None else settings.number("layer_norm_epsilon", 0.0)
    settings.ignore("bos_token", "multi_query_attention")  # each attention has its own number of key-value heads
    config = Config(
        unknown=_token(settings, "unk_token", "<unk>"),
        end=_token(settings, "eos_token", _EOS),
        start=_token(settings, "decoder_start_token", _BOS),
        source_has_end=settings.boolean("add_source_eos", False),
        norm_epsilon=epsilon,
    )
    settings.require_all_known()
    return config


def _token(settings: Settings, key: str, default: str) -> str:
    """Return the name of a token. Raise ZooError if it is not text or is `null`."""
    if settings.any(key, default) is None:
        raise settings.error(key, "is not a token")
    return settings.text(key, default)


def _settings_of_variables(binary: Binary) -> dict[str, Any]:
    variables = binary.variables
    tokens = {name: bytes(variables[name].flatten().tolist()).decode() for name in _TOKENS if name in variables}
    flags = {name: bool(variables[name].any()) for name in _FLAGS if name in variables}
    start, default = ("bos_token", _BOS) if flags.get("with_target_bos", True) else ("eos_token", _EOS)
    return {
        **tokens,
        "add_source_bos": flags.get("with_source_bos", False),
        "add_source_eos": flags.get("with_source_eos", False),
        "decoder_start_token": None if flags.get("user_decoder_start_tokens") else tokens.get(start, default),
    }


def read_token_lists(folder: Path, config: Config, *, starts_from_zeros: bool) -> tuple[TokenList, TokenList]:
    """Return the tokens of the source and the target.

    Args:
        folder: The folder of the model.
        config: The settings of the model.
        starts_from_zeros: Whether decoding starts with a zero embedding instead of a token.

    Raises:
        ZooError: A list is missing or damaged, or lacks a token that the settings name.
    """
    shared = _read_list(folder, "shared_vocabulary")
    sides = [_read_list(folder, f"{side}_vocabulary") if shared is None else shared for side in ("source", "target")]
    if (sides[0] is None and is_present(folder / "source_1_vocabulary.txt")) or is_present(
        folder / "source_1_vocabulary.json"
    ):
        raise ZooError(f"`{folder}` has several source vocabularies (source factors), but a model in zoo reads one")
    lists: list[list[str]] = []
    for side, names in zip(("source", "target"), sides, strict=True):
        if names is None:
            problem = f"`{folder}` has no {side} vocabulary: neither {side}_vocabulary nor shared_vocabulary"
            raise ZooError(problem, hint="restore the vocabulary from where the model came from", exit_code=1)
        # CTranslate2 appends the unknown token if the list does not contain it.
        lists.append(names if config.unknown in names else [*names, config.unknown])
    source, target = lists
    start = None if starts_from_zeros else config.start
    # No source begins with this token, but the source's list contains it if both sides share a list.
    source_start = start if source == target or config.start in source else None
    return _token_list(folder, source, config, source_start), _token_list(folder, target, config, start)


def _token_list(folder: Path, names: list[str], config: Config, start: str | None) -> TokenList:
    for name in (config.end, start):
        if name is not None and name not in names:
            problem = f"the vocabulary in `{folder}` lacks the token `{name}`, which the settings of the model contain"
            raise ZooError(problem, exit_code=1)
    return TokenList(
        tuple(names),
        unknown=names.index(config.unknown),
        end=names.index(config.end),
        start=None if start is None else names.index(start),
        pad=next((names.index(name) for name in ("<blank>", "<pad>") if name in names), None),
    )


def _read_list(folder: Path, name: str) -> list[str] | None:
    """Read a vocabulary: a JSON list, or a text file with one token per line. Return None if there is neither file."""
    if is_present(file := folder / f"{name}.json"):
        try:
            names = json.loads(read_bytes(file))
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ZooError(f"`{file}` is damaged: it is not a list of tokens", exit_code=1)
        return names
    if not is_present(file := folder / f"{name}.txt"):
        return None
    try:
        lines = read_bytes(file).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ZooError(f"`{file}` is damaged: byte {error.start + 1} is not UTF-8", exit_code=1) from None
    if lines[-1] == "":
        del lines[-1]
    # A token may end with a carriage return. It belongs to the line ending only if every line has one.
    return [line[:-1] for line in lines] if all(line.endswith("\r") for line in lines) else lines
