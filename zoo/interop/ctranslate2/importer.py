"""Import CTranslate2 models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import Spec
from zoo.files.reading import damaged, file_exists, is_present, read_bytes, read_json
from zoo.interop.ctranslate2.network import Network, read_layers
from zoo.interop.formats import (
    ImportedModel,
    ImportFormat,
    ImportRequest,
    assemble,
    require_folder,
    search_fields,
)
from zoo.interop.tables import Settings
from zoo.interop.tensors import ForeignTensors, TokenList
from zoo.interop.text_rules import ModelText, find_rules
from zoo.interop.vocabulary import convert_vocabulary, find_models

MODEL = "model.bin"
_CONFIG = "config.json"
_FIRST_VERSION_WITH_CONFIG = 6  # version of `model.bin`; in earlier versions, variables contain the settings
_FLAGS = ("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens")
_TOKENS = ("unk_token", "bos_token", "eos_token")
_BOS, _EOS = "<s>", "</s>"  # CTranslate2's defaults
_DECODING = {**search_fields(beam=2, extra_length=256), "min_length": 1}
"""CTranslate2's default search options. A CTranslate2 model contains no search options.

Two details differ from zoo. CTranslate2 truncates a translation at the maximum length, and zoo ends it with EOS. Below
`min_length`, CTranslate2 excludes EOS from the softmax, and zoo does not.
"""


class CTranslate2Import(ImportFormat):
    """The `ctranslate2` import format."""

    name = "ctranslate2"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is a folder with `model.bin`."""
        return file_exists(path / MODEL)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        require_folder(path, self.name)
        network = Network(path / MODEL)
        settings = _read_settings(path / _CONFIG, network)
        reads_end = settings.boolean("add_source_eos", False)
        epsilon = None if settings.any("layer_norm_epsilon") is None else settings.number("layer_norm_epsilon", 0.0)
        architecture, positions = network.architecture(epsilon)
        tables = network.tables()
        starts_from_zeros = bool(network.number("decoder/start_from_zero_embedding", 0))
        source, target = _read_token_lists(path, settings, starts_from_zeros=starts_from_zeros)
        settings.require_all_known()
        tables.require_rows(source, target)
        models = find_models(path, request.languages)
        rules = find_rules(models, path, request.text, ModelText(request.languages))
        vocabulary = convert_vocabulary(
            models, source, target, shared=source == target, where=path, source_has_end=reads_end, rules=rules
        )
        description = f"Imported from CTranslate2 ({network.name or 'Transformer'}, revision {network.revision})."

        def layers(source: ForeignTensors, spec: Spec) -> dict[str, Tensor]:
            return {**read_layers(source, spec), **positions}

        model = assemble(request, description, architecture, tables, vocabulary, _DECODING, network, layers)
        notes = [*vocabulary.notes]
        if not reads_end:
            notes.append("The model's sources do not end with EOS, so zoo does not add EOS to sources.")
        if file_exists(path / "vmap.txt"):
            notes.append("`vmap.txt`, which lets CTranslate2 restrict the vocabulary, is not imported.")
        origin = {"engine": "CTranslate2", "numbers": network.number_type}
        return ImportedModel(model, origin, tuple(notes))


def _read_settings(file: Path, network: Network) -> Settings:
    """Read a model's settings from `config.json`, or from the variables of an older model.

    Raises:
        ZooError: A setting is not supported.
    """
    from_file = network.version >= _FIRST_VERSION_WITH_CONFIG
    settings = Settings(read_json(file) if from_file else _settings_of_variables(network), str(file))
    settings.require_known("ctranslate2.config")
    if settings.any("decoder_start_token", _BOS) is None:
        raise settings.error(
            "decoder_start_token",
            "lets each request choose the first token, such as a language token, but zoo requires a fixed first token",
            hint="copy the folder, and replace this value in the copy with the token of one language",
        )
    return settings


def _token(settings: Settings, key: str, default: str) -> str:
    """Return the token in the setting `key`, or `default` if it is missing. Raise ZooError if it is not a string."""
    if settings.any(key, default) is None:
        raise settings.error(key, "is not a token")
    return settings.text(key, default)


def _settings_of_variables(network: Network) -> dict[str, Any]:
    """Pop the settings that older models store as variables. Return them in the format of `config.json`."""
    tokens = {name: bytes(network.pop(name).flatten().tolist()).decode() for name in _TOKENS if name in network}
    flags = {name: bool(network.number(name, 0)) for name in _FLAGS if name in network}
    start, default = ("bos_token", _BOS) if flags.get("with_target_bos", True) else ("eos_token", _EOS)
    return {
        **tokens,
        "add_source_bos": flags.get("with_source_bos", False),
        "add_source_eos": flags.get("with_source_eos", False),
        "decoder_start_token": None if flags.get("user_decoder_start_tokens") else tokens.get(start, default),
    }


def _read_token_lists(folder: Path, settings: Settings, *, starts_from_zeros: bool) -> tuple[TokenList, TokenList]:
    """Read the source vocabulary and the target vocabulary.

    Args:
        folder: The folder of the model.
        settings: The model's settings.
        starts_from_zeros: Whether decoding starts with a zero embedding instead of a token.

    Raises:
        ZooError: A vocabulary is missing, or lacks a token that the settings require.
        ValueError: A vocabulary is damaged.
    """
    unknown, start = _token(settings, "unk_token", "<unk>"), _token(settings, "decoder_start_token", _BOS)
    shared, lists = _read_list(folder, "shared_vocabulary"), []
    for side in ("source", "target"):
        names = shared or _read_list(folder, f"{side}_vocabulary")
        if names is None:
            raise damaged(folder, f"it has no {side} vocabulary: neither {side}_vocabulary nor shared_vocabulary")
        # CTranslate2 appends the unknown token if the list does not contain it.
        lists.append(names if unknown in names else [*names, unknown])
    source, target = lists
    tokens = {"unknown": unknown, "end": _token(settings, "eos_token", _EOS)}
    # No source begins with the start token, but the source's list contains it if both sides share a list.
    of_source = {} if starts_from_zeros or start not in source else {"start": start}
    of_target = {} if starts_from_zeros else {"start": start}
    return _token_list(folder, source, tokens | of_source), _token_list(folder, target, tokens | of_target)


def _token_list(folder: Path, names: list[str], tokens: dict[str, str]) -> TokenList:
    """Create the token list of a vocabulary. Raise ZooError if the vocabulary lacks a special token.

    Args:
        folder: The folder of the model, for error messages.
        names: The tokens in the vocabulary, in the order of their IDs.
        tokens: The special tokens, keyed by field of `TokenList`, such as `unknown`.
    """
    if missing := next((name for name in tokens.values() if name not in names), None):
        raise damaged(folder, f"its vocabulary lacks the token `{missing}`, which the settings of the model contain")
    pad = next((names.index(name) for name in ("<blank>", "<pad>") if name in names), None)
    return TokenList(tuple(names), **{kind: names.index(name) for kind, name in tokens.items()}, pad=pad)


def _read_list(folder: Path, name: str) -> list[str] | None:
    """Read a vocabulary: a JSON list, or a text file with one token per line. Return None if neither file exists."""
    if is_present(file := folder / f"{name}.json"):
        names = json.loads(read_bytes(file))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"`{file.name}` is not a list of tokens")
        return names
    if not is_present(file := folder / f"{name}.txt"):
        return None
    lines = read_bytes(file).decode("utf-8").removesuffix("\n").split("\n")
    # A token may end with a carriage return. It belongs to the line ending only if every line has one.
    return [line[:-1] for line in lines] if all(line.endswith("\r") for line in lines) else lines
