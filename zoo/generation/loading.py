"""Functions that open training runs and published models as translators or parsers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import compiler
from specs import Task, ZooError
from zoo.generation.alignment import AlignmentHead
from zoo.generation.compilation import BackendOptions, build_with_message, packed_artefact, read_or_build
from zoo.generation.confidence import Calibration
from zoo.generation.language_model import LanguageModel
from zoo.generation.parser import Parser
from zoo.generation.recognizer import Recognizer
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder
from zoo.models.loading import Model, read_model, read_weights
from zoo.report import Report, WarningsReport

if TYPE_CHECKING:
    from torch import Tensor

    from compiler import EmittedProgram, Program
    from compiler.kernels.program import PackedModel

_MAX_ATTEMPTS = 20
ATTENTION_BACKEND = "eager"
"""Backend that computes attention weights, even if the model translates with a different backend.

Compiling a program for one text would take too long.
"""


def translator_class(task: Task) -> type[Translator]:
    """Return the class of the translator, parser, language model or recognizer for a task."""
    classes = {"parsing": Parser, "language_modelling": LanguageModel, "recognition": Recognizer}
    return classes.get(task.kind, Translator)


def open_model(
    folder: Path,
    *,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    max_batch_tokens: int | None = None,
    report: Report | None = None,
) -> Translator:
    """Open the model in the folder of a training run or of a published model.

    Compiled artefacts are stored in `storage.compiled()`.

    Args:
        folder: Folder of the training run or published model.
        device: auto, cpu, cuda or cuda:N.
        precision: float32, bfloat16 or int8. None for the precision in the spec.
        backend: auto, or a name that `zoo doctor` lists. None for the backend in the spec.
        max_batch_tokens: Maximum number of source tokens in a batch. None for the default.
        report: Receives warnings. If None, warnings are issued with Python's module `warnings`.

    Raises:
        ZooError: The folder has no valid model, or the device, precision or backend is not available.
    """
    report = report or WarningsReport()
    options: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    for _ in range(_MAX_ATTEMPTS):
        with suppress(_ReplacedError):
            return _open_version(folder, options, max_batch_tokens, report)
    return _open_version(folder, options, max_batch_tokens, report)


def _open_version(folder: Path, options: BackendOptions, max_batch_tokens: int | None, report: Report) -> Translator:
    """Open a model. Raise _ReplacedError if another process replaces the model meanwhile."""
    light = read_model(folder, tensors=False)
    given = options["device"], options["precision"], options["backend"]

    def build_complete(model: PackedModel | None) -> Program:
        weights = _read_weights(folder, light)
        return build_with_message(light.spec, compiler.TRANSLATE, weights, report, packed=model, **options)

    def build_attention() -> EmittedProgram:
        weights, purposes = _read_weights(folder, light), [compiler.Purpose.ATTEND]
        how: BackendOptions = {**options, "backend": ATTENTION_BACKEND}
        return cast("EmittedProgram", compiler.build(light.spec, purposes, weights=weights, **how))

    stored = packed_artefact(light, *given)
    program = read_or_build(stored, build_complete)
    translator = translator_class(light.spec.task)(
        program,
        light.vocabulary,
        light.spec,
        longest_source=light.weights.longest_source,
        report=report,
        device="cpu" if stored is not None else compiler.find_device(options["device"]),
        max_batch_tokens=max_batch_tokens,
    )
    translator.backend, translator.shortlist = program.backend, light.shortlist
    translator.calibration = Calibration.read(ModelFolder(folder))
    translator.alignment_head = AlignmentHead.parse(light.weights.metadata.get("alignment_head"))
    translator.attention_program = cache(build_attention)
    translator.reopen = partial(open_model, folder.absolute(), max_batch_tokens=max_batch_tokens, **options)
    return translator


class _ReplacedError(ZooError):
    """Error of a model that another process has replaced since it was opened."""


def _read_weights(folder: Path, light: Model) -> Mapping[str, Tensor]:
    """Return the tensors of a model that was read before without tensors.

    Raises:
        _ReplacedError: The model was replaced in the meantime.
    """
    weights = read_weights(folder)
    if weights.metadata != light.weights.metadata:
        raise _ReplacedError(f"the model in `{folder}` was replaced", hint="open the model again", exit_code=1)
    return weights.tensors
