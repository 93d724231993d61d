"""The families of transformers' models. To add one, write a module and add its class to the list."""

from __future__ import annotations

from pathlib import Path

from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.folder import model_type
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.t5 import T5
from zoo.interop.huggingface.t5gemma import T5Gemma

FAMILIES: tuple[Family, ...] = (HuggingFaceMarian(), Multilingual(), T5(), T5Gemma())


def unsupported_model_type(path: Path) -> str | None:
    """Return an error message about a folder whose model type zoo does not import. None if it has no model type."""
    if (found := model_type(path)) is None:
        return None
    known = ", ".join(f"`{type_}`" for family in FAMILIES for type_ in family.model_types)
    return f"`{path}` is a model of transformers with the model type `{found}`, but zoo imports only {known}"
