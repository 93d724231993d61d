"""Folder of a model of transformers: its model type and its settings files. Each import format reads some types."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from specs import ZooError
from zoo.files.reading import is_present, read_json
from zoo.interop.formats import require_folder
from zoo.interop.huggingface.generation import GENERATION_KEYS
from zoo.interop.settings import Settings

CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"


class ModelTypeImport:
    """Base class of the import formats of transformers' models. `model_type` in `config.json` selects one of them."""

    name: ClassVar[str]
    model_types: ClassVar[tuple[str, ...]]
    """The values of `model_type` that the format reads."""
    engine = "transformers"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is a folder whose `config.json` has one of the model types."""
        return model_type(path) in self.model_types

    def settings(self, path: Path) -> tuple[Settings, Settings]:
        """Return the settings of the network and those of the search.

        In older folders, `config.json` contains both. The two results are then the same object.

        Raises:
            ZooError: The path is not a folder, or a file is damaged.
        """
        require_folder(path, self.name)
        config = Settings(read_json(path / CONFIG), str(path / CONFIG))
        config.require({"model_type": self.model_types})
        if not is_present(path / GENERATION_CONFIG):
            return config, config
        config.ignore(*GENERATION_KEYS)
        return config, Settings(read_json(path / GENERATION_CONFIG), str(path / GENERATION_CONFIG))


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
