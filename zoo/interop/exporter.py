"""Export of published models to the formats of other engines (`zoo export`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specs import ZooError
from zoo.files import manifest
from zoo.files.atomic import atomic_folder
from zoo.files.storage import require_space
from zoo.interop.ctranslate2.exporter import CTranslate2Export
from zoo.interop.formats import Bundle, ExportCheck, ExportFormat, ImportFormat, ImportRequest, format_named
from zoo.interop.importer import FAMILIES
from zoo.interop.numbering import NEVER
from zoo.interop.onnx import OnnxExport
from zoo.interop.roundtrip import cannot_export, require_same_architecture
from zoo.interop.sentencepiece_model import is_language_token
from zoo.models import find
from zoo.models.loading import read_model
from zoo.publishing import reference_results
from zoo.report import Report
from zoo.text.tokenizer import SPACE

EXPORT_FORMATS: tuple[ExportFormat, ...] = (*FAMILIES, CTranslate2Export(), OnnxExport())
"""Formats that models are exported to. To add one, write a module and add its class to this list."""
_TOLERANCE = 1e-3
_COPY_SYMBOLS_NOTE = (
    "the model was trained with copy symbols (`vocabulary.copy_symbols`) in place of numbers and links; the caller "
    "must replace these in each source and restore them in its translation, as zoo does"
)


@dataclass(frozen=True)
class ExportResult:
    """Result of an export.

    Attributes:
        folder: Folder of the exported model.
        check: Result of running the exported model in its engine. None if the engine is not installed.
        notes: Sentences for the user about the exported model.
    """

    folder: Path
    check: ExportCheck | None
    notes: tuple[str, ...]


def export_model(name: str, to: str, folder: Path, report: Report) -> ExportResult:
    """Write a published model in the format of another toolkit, and check the result.

    Args:
        name: The name of a published model, or its folder.
        to: The name of the format.
        folder: A new or empty folder.
        report: Receives the notes.

    Raises:
        ZooError: The model or the format does not exist, the folder is not empty, the format cannot express the model,
            or the exported model computes other results. In all these cases, nothing is written.
    """
    format = format_named(to, EXPORT_FORMATS, "export")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ZooError(f"`{folder}` already exists", hint="give a new folder with `-o`")
    path = find.published_model(name, report)
    model = read_model(path)
    model.spec.require_source("each export format")
    manifest.read(path).check_file(reference_results.NAME)
    bundle = Bundle(
        model.spec,
        model.vocabulary,
        model.weights.tensors,
        reference_results.read(path / reference_results.NAME, model.spec),
    )
    require_space(folder, 2 * sum(tensor.nbytes for tensor in bundle.tensors.values()), "the export")
    target = Path(os.path.realpath(folder))  # if the path is a link to an empty folder, keep the link
    with atomic_folder(target, replace=False) as partial:
        notes = format.write(bundle, partial)
        if bundle.vocabulary.copy_symbols:
            notes.append(_COPY_SYMBOLS_NOTE)
        if reader := format.reader(bundle):
            _require_same_when_read(bundle, format, reader, partial)
        check = format.check(bundle, partial)
        if check is not None and not check.difference <= _TOLERANCE:
            raise ZooError(
                f"the exported model of `{path.name}` computes something else: the results of {check.engine} differ by "
                f"{check.difference:.2g} from {check.reference}, but at most {_TOLERANCE:g} is allowed",
                hint="please report this with the command and the spec of the model",
                exit_code=1,
            )
    for note in notes:
        report.info(f"note: {note}")
    return ExportResult(folder, check, tuple(notes))


def _require_same_when_read(bundle: Bundle, format: ExportFormat, reader: ImportFormat, folder: Path) -> None:
    """Import the exported folder again. Raise ZooError if the architecture, the tensors or the vocabulary differ.

    The imported model may have additional biases, if they have no effect.
    """
    try:
        imported = reader.read(folder, ImportRequest(bundle.spec.name))
    except ZooError as error:
        raise cannot_export(format.name, error.problem.replace(f"{folder}/", "")) from None
    require_same_architecture(bundle.spec.architecture, imported.spec.architecture, format.name, format.may_differ)
    ours, theirs = bundle.vocabulary, imported.vocabulary
    if ours.source_suffix != theirs.source_suffix:
        raise cannot_export(format.name, "this format adds EOS to each source, and the model does not, or vice versa")
    changed = [name for name, tensor in bundle.tensors.items() if not _has(imported.tensors.get(name), tensor)]
    for name in imported.tensors.keys() - bundle.tensors.keys():
        tensor = imported.tensors[name]
        if not name.endswith("_bias") or bool(((tensor != 0) & (tensor != NEVER)).any()):
            changed.append(name)
    for size, before, after in zip(ours.sizes, (ours.source, ours.target), (theirs.source, theirs.target), strict=True):
        if _names(before, size) != _names(after, size):
            changed.append("vocabulary")
    if changed:
        raise cannot_export(format.name, f"in this format, `{changed[0]}` would change")


def _names(side: Any, size: int) -> list[str]:
    """Return the names of tokens. Language tokens such as `>>de<<` may have a leading space after an import."""
    names = ((name, name.removeprefix(SPACE)) for name in side.token_strings(range(size)))
    return [bare if is_language_token(bare) else name for name, bare in names]


def _has(imported: torch.Tensor | None, tensor: torch.Tensor) -> bool:
    return imported is not None and torch.equal(imported, tensor.float())
