"""Open a trained or published model from its folder, as a translator, parser, recognizer or language model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Unpack, cast

import compiler
from compiler.options import BackendOptions
from specs import Parsing, ZooError
from zoo.generation.alignment import AlignmentHead
from zoo.generation.compilation import build_with_message, packed_artefact, read_or_build
from zoo.generation.confidence import Calibration
from zoo.generation.config import DEFAULT_MAX_BATCH_TOKENS
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder
from zoo.models.loading import Model, read_model, read_weights
from zoo.report import WARNINGS, Report

if TYPE_CHECKING:
    from torch import Tensor

    from compiler import EmittedProgram, Program
    from compiler.kernels.program import PackedModel

_MAX_ATTEMPTS = 20
ATTENTION_BACKEND = "eager"
"""Backend that computes attention weights, even if the model translates with a different backend.

Compiling a model for one text would take too long.
"""


def open_model(
    folder: Path,
    *,
    max_batch_tokens: int | None = None,
    constrained: bool = True,
    report: Report = WARNINGS,
    **options: Unpack[BackendOptions],
) -> Translator:
    """Open a trained or published model from its folder.

    The compiled model is cached in the folder `storage.compiled()`.

    Args:
        folder: Folder of the training run or published model.
        max_batch_tokens: Maximum number of source tokens in a batch. None for the default.
        constrained: Whether a parser follows `task.constrained` in its spec. If false, its search is not restricted to
            valid trees.
        report: Receives warnings. By default, they are issued with Python's `warnings` module.
        **options: Device, precision and backend (see `BackendOptions`).

    Raises:
        ZooError: The folder has no valid model, or the device, precision or backend is not available.
    """
    options.setdefault("device", "auto")
    for _ in range(_MAX_ATTEMPTS):
        with suppress(_ReplacedError):
            return _open_version(folder, options, max_batch_tokens, constrained, report)
    return _open_version(folder, options, max_batch_tokens, constrained, report)


def _open_version(
    folder: Path, options: BackendOptions, max_batch_tokens: int | None, constrained: bool, report: Report
) -> Translator:
    """Open a model (see `open_model`). Raise _ReplacedError if another process replaces the model at the same time."""
    light = read_model(folder, tensors=False)

    def build_complete(model: PackedModel | None) -> Program:
        weights = _read_weights(folder, light)
        return build_with_message(light.spec, compiler.TRANSLATE, report, weights=weights, packed=model, **options)

    def build_attention() -> EmittedProgram:
        weights, purposes = _read_weights(folder, light), [compiler.Purpose.ATTEND]
        how: BackendOptions = {**options, "backend": ATTENTION_BACKEND}
        return cast("EmittedProgram", compiler.build(light.spec, purposes, weights=weights, **how))

    packed, spec, task = packed_artefact(light, **options), light.spec, light.spec.task
    if isinstance(task, Parsing) and not constrained:
        spec = spec.model_copy(update={"task": task.model_copy(update={"constrained": False})})
    translator: Translator = resolve_name(task.translator)(
        read_or_build(packed, build_complete),
        light.vocabulary,
        spec,
        longest_source=light.weights.longest_source,
        shortlist=light.shortlist,
        calibration=Calibration.read(ModelFolder(folder)),
        alignment_head=AlignmentHead.parse(light.weights.metadata.get("alignment_head")),
        attention_program=cache(build_attention),
        reopen=partial(
            open_model, folder.absolute(), max_batch_tokens=max_batch_tokens, constrained=constrained, **options
        ),
        report=report,
        device="cpu" if packed is not None else compiler.find_device(options["device"]),
        max_batch_tokens=DEFAULT_MAX_BATCH_TOKENS if max_batch_tokens is None else max_batch_tokens,
    )
    return translator


class _ReplacedError(ZooError):
    """Error for a model that another process has replaced since it was opened."""


def _read_weights(folder: Path, light: Model) -> Mapping[str, Tensor]:
    """Read the tensors of a model whose other files have already been read.

    Raises:
        _ReplacedError: The model was replaced after the other files were read.
    """
    weights = read_weights(folder)
    if weights.metadata != light.weights.metadata:
        raise _ReplacedError(f"the model in `{folder}` was replaced", hint="open the model again", exit_code=1)
    return weights.tensors
