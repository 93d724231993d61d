"""Files in the folder of a model of transformers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, is_present, read_json

CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"


def model_type(path: Path) -> str | None:
    """Return `model_type` of the `config.json` in a folder, or None if there is none."""
    if not is_present(path / CONFIG):
        return None
    try:
        value = read_json(path / CONFIG).get("model_type")
    except ZooError:
        return None
    return value if isinstance(value, str) else None


def import_transformers() -> Any:
    """Return the package `transformers`, with its progress bars switched off."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def read_optional_json(file: Path, without: str | None = None) -> dict[str, Any]:
    """Return the values in a JSON file, without one key. Return none if there is no such file."""
    values = read_json(file, MAX_VOCABULARY_BYTES) if is_present(file) else {}
    return {key: value for key, value in values.items() if key != without}
