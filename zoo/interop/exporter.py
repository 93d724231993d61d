"""Export of published models to the formats of other toolkits (`zoo export`)."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from compiler.assemble import prepare_build
from compiler.backends.conformance import disagreement
from compiler.backends.onnx import open_models, write_models
from specs import ZooError
from zoo.files import manifest
from zoo.files.atomic import atomic_folder
from zoo.files.storage import require_space
from zoo.interop.formats import (
    ExportCheck,
    ExportFormat,
    ImportFormat,
    ImportRequest,
    cannot_export,
    format_named,
)
from zoo.interop.sentencepiece_model import foreign_name
from zoo.interop.tensors import NEVER
from zoo.models import find
from zoo.models.folder import SPEC
from zoo.models.loading import Model, read_model
from zoo.publishing import reference_results
from zoo.publishing.reference_results import ReferenceLogProbabilities
from zoo.report import Report
from zoo.version import __version__

_NOT_IN_ONNX = {"restricted_attention", "ssru", "lstm"}
"""Encoder sub-layers that cannot be exported to ONNX, because `is_exportable` is false for their operations."""
_ONNX_NOTE = "your program must run the search with `decode_step.onnx`: `zoo plan --code` shows its inputs and outputs"
_TOLERANCE = 1e-3
_COPY_SYMBOLS_NOTE = (
    "the model was trained with copy symbols (`vocabulary.copy_symbols`) in place of numbers and links; the caller "
    "must replace numbers and links in each source and restore them in the translation, as zoo does"
)


class OnnxExport(ExportFormat):
    """The `onnx` export format."""

    name = "onnx"

    def write(self, model: Model, folder: Path) -> list[str]:
        """Write the encoder, the decoding step, the spec and the vocabulary.

        Returns:
            Notes for the user about how to use the files.

        Raises:
            ZooError: torch cannot export the model's encoder with a dynamic source length.
        """
        if kinds := {each.kind for each in model.spec.architecture.encoder} & _NOT_IN_ONNX:
            problem = f"cannot export this model to ONNX: its encoder contains {min(kinds)} sub-layers"
            hint = "use `zoo decode` or `zoo serve` instead: no export format supports these sub-layers"
            raise ZooError(problem, hint=hint)
        _, order = prepare_build(model.spec, weights=model.weights.tensors, precision="float32", backend=self.name)
        write_models(order, folder)
        (folder / SPEC).write_text(model.spec.yaml(__version__), encoding="utf-8")
        model.vocabulary.save(folder)
        return [_ONNX_NOTE]

    def check(self, model: Model, references: ReferenceLogProbabilities, folder: Path) -> ExportCheck:
        """Run the encoder and the decoding step in onnxruntime, with random tokens as inputs.

        Compare the results with the results of zoo's graph interpreter.
        """
        onnxruntime = import_module("onnxruntime")
        _, order = prepare_build(model.spec, weights=model.weights.tensors, precision="float32", backend=self.name)
        differences = disagreement(open_models(order, folder), weights=model.weights.tensors)
        largest = float(torch.tensor([*differences.values()]).max())  # unlike the built-in max, this propagates NaN
        return ExportCheck(f"onnxruntime {onnxruntime.__version__}", largest, "zoo's graph interpreter")


def export_model(name: str, to: str, folder: Path, report: Report) -> ExportCheck | None:
    """Write a published model in another toolkit's format, and check the result.

    Args:
        name: The name of a published model, or its folder.
        to: The name of the export format, such as `onnx`.
        folder: A new or empty folder.
        report: Receives notes about the exported model.

    Returns:
        The result of running the exported model in its toolkit. None if the toolkit is not installed.

    Raises:
        ZooError: The model or the format does not exist, the folder is not empty, the format cannot represent the
            model, or the exported model computes different results. In all these cases, nothing is written.
    """
    format: ExportFormat = format_named(to, "export")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ZooError(f"`{folder}` is not an empty folder", hint="choose a new or empty folder with `-o`")
    path = find.published_model(name, report)
    model = read_model(path)
    model.spec.require_source("each export format")
    manifest.read(path).check_file(reference_results.NAME)
    references = reference_results.read(path / reference_results.NAME, model.spec)
    require_space(folder, 2 * sum(tensor.nbytes for tensor in model.weights.tensors.values()), "the export")
    target = Path(os.path.realpath(folder))  # if the path is a link to an empty folder, keep the link
    with atomic_folder(target, replace=False) as partial:
        notes = format.write(model, partial)
        if model.vocabulary.copy_symbols:
            notes.append(_COPY_SYMBOLS_NOTE)
        if reader := format.reader(model):
            _require_same_when_read(model, format, reader, partial)
        check = format.check(model, references, partial)
        if check is not None and not check.difference <= _TOLERANCE:
            raise ZooError(
                f"the exported model of `{path.name}` computes different results: {check.engine} differs by "
                f"{check.difference:.2g} from {check.reference}, but at most {_TOLERANCE:g} is allowed",
                hint="please report this with the command and the model's spec",
                exit_code=1,
            )
    for note in notes:
        report.info(f"note: {note}")
    return check


def _require_same_when_read(model: Model, format: ExportFormat, reader: ImportFormat, folder: Path) -> None:
    """Import the exported folder again. Raise ZooError if the architecture, the tensors or the vocabulary differ.

    The imported model may have additional biases, if they have no effect.
    """
    try:
        imported = reader.read(folder, ImportRequest(model.spec.name)).model
    except ZooError as error:
        raise cannot_export(format.name, error.problem.replace(f"{folder}/", "")) from None
    format.require_same_architecture(model.spec.architecture, imported.spec.architecture)
    ours, theirs = model.vocabulary, imported.vocabulary
    if ours.source_suffix != theirs.source_suffix:
        raise cannot_export(format.name, "the model and this format differ in whether source sentences end with EOS")
    before, after = model.weights.tensors, imported.weights.tensors
    changed = [name for name, ours in before.items() if name not in after or not torch.equal(after[name], ours.float())]
    for name in after.keys() - before.keys():
        tensor = after[name]
        if not name.endswith("_bias") or bool(((tensor != 0) & (tensor != NEVER)).any()):
            changed.append(name)
    for size, *sides in zip(ours.sizes, (ours.source, ours.target), (theirs.source, theirs.target), strict=True):
        if _names(sides[0], size) != _names(sides[1], size):
            changed.append("vocabulary")
    if changed:
        raise cannot_export(format.name, f"in this format, `{changed[0]}` would change")


def _names(side: Any, size: int) -> list[str]:
    """Return the token names of the source or target, without the space that an import adds before language tokens."""
    return [foreign_name(name) for name in side.token_strings(range(size))]
