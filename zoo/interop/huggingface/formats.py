"""The formats of transformers' models, one for each family of networks. To add one, add its classes to the lists."""

from __future__ import annotations

from pathlib import Path

from zoo.interop.formats import ExportFormat
from zoo.interop.huggingface.exporter import HuggingFaceMarianExport
from zoo.interop.huggingface.folder import ModelTypeImport, model_type
from zoo.interop.huggingface.importer import HuggingFaceMarianImport
from zoo.interop.huggingface.multilingual import MultilingualImport
from zoo.interop.huggingface.multilingual_exporter import MultilingualExport
from zoo.interop.huggingface.t5 import T5Import
from zoo.interop.huggingface.t5_exporter import T5Export
from zoo.interop.huggingface.t5gemma import T5GemmaImport
from zoo.interop.huggingface.t5gemma_exporter import T5GemmaExport

IMPORT_FORMATS = (HuggingFaceMarianImport(), MultilingualImport(), T5Import(), T5GemmaImport())
EXPORT_FORMATS: tuple[ExportFormat, ...] = (
    HuggingFaceMarianExport(),
    MultilingualExport(),
    T5Export(),
    T5GemmaExport(),
)


def unsupported_model_type(path: Path) -> str | None:
    """Return an error message about a folder whose model type zoo does not import. None if it has no model type."""
    formats: tuple[ModelTypeImport, ...] = IMPORT_FORMATS
    if (found := model_type(path)) is None:
        return None
    known = ", ".join(f"`{type_}`" for format in formats for type_ in format.model_types)
    return f"`{path}` is a model of transformers with the model type `{found}`, but zoo imports only {known}"
