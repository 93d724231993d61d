"""Import of other toolkits' models, from files or the Hugging Face Hub, into the local model store (`zoo import`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import specs
from specs import Spec, ZooError
from zoo.files import download
from zoo.files.storage import require_space
from zoo.interop import FORMATS
from zoo.interop.formats import (
    UNKNOWN_LANGUAGES,
    ImportedModel,
    ImportFormat,
    ImportRequest,
    are_language_codes,
    format_named,
    listed_formats,
)
from zoo.interop.huggingface.config import model_type
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.hub import HubModel, licence_of_card
from zoo.models import catalogue
from zoo.models.catalogue import ModelCard
from zoo.models.folder import ModelFolder
from zoo.models.local_store import StoredModel
from zoo.models.registries.revision import is_name
from zoo.publishing.provenance import Provenance
from zoo.publishing.publish import complete, new_bundle
from zoo.report import Report, size
from zoo.system.memory import is_out_of_memory, memory_limit

_MAX_MESSAGE = 500  # characters
_MEMORY_PER_BYTE = 16
"""Maximum memory for reading a model, as a multiple of the size of its files. 8-bit weights are copied to float32
twice."""
_SPARE_MEMORY = 1 << 28  # additional bytes, for vocabularies and the libraries that read them


def import_model(
    source: str, request: ImportRequest, report: Report, *, format: str | None = None, replace: bool = False
) -> Path:
    """Import a model from another toolkit into the local model store.

    Args:
        source: A file, a folder, or `hf:ORG/NAME`.
        request: The options for reading the model.
        report: Receives notes, warnings and the progress.
        format: The name of the import format. If None, the files determine it.
        replace: Whether to replace an existing model of the same name.

    Returns:
        The folder of the imported model in the local model store.

    Raises:
        ZooError: The format is unknown, the model is damaged or has a property that zoo does not support, or the
            name is invalid or in use. In all these cases, nothing is written.
    """
    with stage_import(source, request, report, format=format, replace=replace) as bundle:
        name = bundle.spec.name
    return StoredModel.current(name).folder


@contextmanager
def stage_import(
    source: str,
    request: ImportRequest,
    report: Report,
    *,
    format: str | None = None,
    replace: bool = False,
    card: ModelCard | None = None,
) -> Iterator[ModelFolder]:
    """Import a model into a temporary folder, and move it into the local model store at the end of the `with` block.

    If the block raises an exception, nothing is written. The arguments and errors are the same as for `import_model`.
    If `card` is given, the description and origin of the model come from this card of the catalogue. The licence comes
    from the card if the model's files do not specify a licence.
    """
    if request.languages and not are_language_codes(request.languages):
        problem = f"`--languages {' '.join(request.languages)}` must be two language codes"
        raise ZooError(problem, hint="use language codes, for example `--languages en de`")
    if re.match(r"\w+://", source):
        problem = f"`{source}` is a URL, but models are imported from files and folders"
        hint = "download the model first, or write `hf:ORG/NAME` for a model on the Hugging Face Hub"
        raise ZooError(problem, hint=hint)
    hub = HubModel.parse(source)
    path = hub.download(report) if hub else Path(source)
    origin_name = hub.name if hub else path.absolute().name
    name = request.name or _default_name(origin_name)
    if not is_name(name):
        hint = "choose a name with `--name NAME`: letters, digits and `-_.,`, beginning with a letter or a digit"
        raise ZooError(f"`{name}` is not a valid name for a model", hint=hint)
    found = find_format(path, format)
    if request.positions and not found.takes_positions:
        problem = f"`--positions` is for hf-marian only, but this model has the format {found.name}"
        raise ZooError(problem, hint="omit `--positions`")

    with new_bundle(name, replace=replace) as bundle:
        imported = read_foreign(found, path, dataclasses.replace(request, name=name, origin_name=origin_name))
        model = imported.model
        for note in (*imported.notes, *_notes_for_user(model.spec)):
            report.info(f"note: {note}")
        facts = {"format": found.name, "source": source if hub else origin_name, **imported.origin}
        updated = {"licence": licence_of_card(path)}
        if card:
            facts |= _facts(card)
            updated = {"licence": updated["licence"] or card.licence, "description": card.description}
        require_space(bundle.folder, sum(tensor.nbytes for tensor in model.weights.tensors.values()), "the bundle")
        dataclasses.replace(model, spec=model.spec.model_copy(update=updated)).write(bundle)
        provenance = Provenance(imported=facts, notes=imported.notes)
        del imported, model  # free their memory, because the next lines load the bundle
        complete(bundle, provenance, report)
        yield bundle


def _facts(card: ModelCard) -> Mapping[str, str]:
    """Return the facts about the origin of a model that its card in the catalogue documents."""
    sha256 = download.recorded_sha256(card.source) if card.addresses else None
    facts = {"source": card.source, "sha256": sha256, "catalogue": card.name, "trained_by": card.trained_by}
    return {key: value for key, value in facts.items() if value}


def _notes_for_user(spec: Spec) -> Iterator[str]:
    """Yield notes that are only for the user who imports the model, and not for the model card."""
    if spec.languages is None and (spec.corpus.source, spec.corpus.target) == UNKNOWN_LANGUAGES:
        yield "the languages of the model are unknown: set them with `--languages`, such as `--languages en de`"
    if spec.name in specs.names():
        yield (
            f"`{spec.name}` is also the name of a spec included in zoo: `--model {spec.name}` now selects the "
            "imported model. To avoid that, choose another name with `--name`"
        )


def _default_name(origin_name: str) -> str:
    """Derive a name for the imported model: the last part of the original name, without invalid characters."""
    stem = re.sub(r"\.(npz|pt|bin|decoder\.yml|yml)$", "", origin_name.rpartition("/")[2])
    return re.sub(r"[^-_,.A-Za-z0-9]+", "-", stem).strip("-.")


def find_format(path: Path, name: str | None = None) -> ImportFormat:
    """Return the import format with the given name. If `name` is None, detect the format of the file or folder.

    Raises:
        ZooError: The path does not exist, there is no format with this name, or the files have no known format.
    """
    if not path.exists():
        hint = "use the path of a file or folder, or `hf:ORG/NAME`"
        if catalogue.find(str(path)) is not None:
            hint = f"run `zoo pull {path}` to download and import the public model with this name"
        raise ZooError(f"`{path}` does not exist", hint=hint)
    if name is not None:
        return cast(ImportFormat, format_named(name, "import"))
    formats: list[ImportFormat] = [format_named(each, "import") for each in FORMATS["import"]]
    for format in formats:
        if format.recognises(path):
            return format
    if path.is_file() and any(format.recognises(path.parent) for format in formats):
        raise ZooError(f"`{path}` is only part of a model", hint=f"use the model's folder, `{path.parent}`")
    if found := model_type(path):
        known = ", ".join(f"`{type_}`" for each in formats if isinstance(each, Family) for type_ in each.model_types)
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
