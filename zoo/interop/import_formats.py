"""The import formats: detection of a model's format, and reading of models in all formats."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from specs import ZooError
from zoo.interop import FORMATS
from zoo.interop.formats import ImportedModel, ImportFormat, ImportRequest, format_named, listed_formats
from zoo.interop.huggingface.config import model_type
from zoo.interop.huggingface.family import Family
from zoo.models import catalogue
from zoo.report import size
from zoo.system.memory import is_out_of_memory, memory_limit

_MAX_MESSAGE = 500  # characters
_MEMORY_PER_BYTE = 16
"""Maximum memory for reading a model, as a multiple of the size of its files. 8-bit weights are copied to float32
twice."""
_SPARE_MEMORY = 1 << 28  # additional bytes, for vocabularies and the libraries that read them


def find_format(path: Path, name: str | None = None) -> ImportFormat:
    """Return the format with the given name. Without a name, detect the format of a file or folder.

    Raises:
        ZooError: The path does not exist, there is no format with this name, or the files have no known format.
    """
    if not path.exists():
        hint = "give a file or a folder, or `hf:ORG/NAME`"
        if catalogue.find(str(path)) is not None:
            hint = f"`zoo pull {path}` downloads and imports the public model with this name"
        raise ZooError(f"`{path}` does not exist", hint=hint)
    if name is not None:
        return cast(ImportFormat, format_named(name, "import"))
    formats: list[ImportFormat] = [format_named(each, "import") for each in FORMATS["import"]]
    for format in formats:
        if format.recognises(path):
            return format
    if path.is_file() and any(format.recognises(path.parent) for format in formats):
        raise ZooError(f"`{path}` is only part of a model", hint=f"give the model's folder, `{path.parent}`")
    if found := model_type(path):
        families: list[Family] = [format_named(each, "families") for each in FORMATS["families"]]
        known = ", ".join(f"`{type_}`" for family in families for type_ in family.model_types)
        problem = f"`{path}` is a transformers model of the type `{found}`, but zoo imports only {known}"
        raise ZooError(problem, hint="choose a model of one of these types")
    raise ZooError(f"`{path}` is not in a known model format", hint=f"supported formats: {listed_formats('import')}")


def read_foreign(format: ImportFormat, path: Path, request: ImportRequest) -> ImportedModel:
    """Read a model from another toolkit.

    Raises:
        ZooError: The model has a property that zoo does not support, its files are damaged, or reading them would
            need far more memory than their size justifies.
    """
    files = _total_bytes(path)
    allowed = _SPARE_MEMORY + _MEMORY_PER_BYTE * files
    try:
        with memory_limit(allowed):
            return format.read(path, request)
    except ZooError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            problem = (
                f"reading `{path}` needs more than {size(allowed)} of memory, but the files are only {size(files)}"
            )
            hint = "do not use this model: it may be malicious, because reading it would exhaust the memory"
            raise ZooError(problem, hint=hint, exit_code=1) from None
        reason = next(iter(str(error).splitlines()), "")
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        problem = f"`{path}` is not a valid {format.name} model: {kind}{reason}"[:_MAX_MESSAGE]
        hint = "restore the files from their source; if the original toolkit can open the model, please report this"
        raise ZooError(problem, hint=hint, exit_code=1) from error


def _total_bytes(path: Path) -> int:
    """Return the total size of a model's files, in bytes. For a `decoder.yml`, count all files in its folder."""
    folder = path if path.is_dir() else path.parent if path.suffix == ".yml" else None
    return sum(file.stat().st_size for file in (folder.iterdir() if folder else [path]) if file.is_file())
