"""Verify a published model: its files, its reference log-probabilities, and the score of its reference outputs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specs import ZooError
from zoo.files import manifest
from zoo.generation.compilation import BackendOptions
from zoo.generation.loading import open_model
from zoo.models import find
from zoo.models.folder import CARD, SCORES, SPEC, WEIGHTS
from zoo.models.weights import RESTORE_HINT
from zoo.publishing import reference_results
from zoo.publishing.reference_results import ReproducedOutputs
from zoo.report import Report

REQUIRED_FILES = (SPEC, WEIGHTS, reference_results.NAME, SCORES, CARD)
"""Files of every bundle, besides its vocabulary and its manifest."""
EXACT: BackendOptions = {"device": "cpu", "precision": "float32", "backend": "eager"}
"""Options of the reference implementation, which runs on every machine."""


@dataclass(frozen=True)
class Verified:
    """Result of a verification.

    Attributes:
        files: Number of files that were checked.
        sentences: Number of sentences with reference log-probabilities.
        max_difference: Largest difference between a reference log-probability and the one computed now.
        reference_outputs: Result of decoding the reference sentences again. None if the bundle has none.
        backend: Name of the backend that ran the model.
    """

    files: int
    sentences: int
    max_difference: float
    reference_outputs: ReproducedOutputs | None
    backend: str


def verify(name: str | os.PathLike[str], *, backend: str | None = None, report: Report | None = None) -> Verified:
    """Verify a published model.

    Args:
        name: A model name, or the folder of a bundle.
        backend: The backend that computes in float32: `auto`, or one that `zoo doctor` lists. The default is the
            reference implementation on the CPU.
        report: Receives progress and warnings.

    Returns:
        The numbers of checked files and sentences, and the differences from the reference results.

    Raises:
        ZooError: There is no such model, a file has changed, or a log-probability or the score of the reference outputs
            differs by more than the tolerances in `zoo.publishing.reference_results`.
    """
    how: BackendOptions = EXACT if backend is None else {"device": "auto", "precision": "float32", "backend": backend}
    report = report or Report()
    return verify_folder(find.published_model(name, report), report, how)


def verify_folder(folder: Path, report: Report, how: BackendOptions = EXACT) -> Verified:
    """Verify the bundle in a folder, which may not be published yet. Result and errors are those of `verify`."""
    listed = manifest.read(folder)
    names = {*listed.entries, *REQUIRED_FILES}
    try:
        manifest.check(folder, sorted(names))
    except ZooError as error:
        raise ZooError(error.problem, where=error.where, hint=error.hint or RESTORE_HINT, exit_code=1) from None
    outputs = reference_results.read_outputs(listed)
    translator = open_model(folder, **how, report=report)
    references = reference_results.read(folder / reference_results.NAME, translator.spec)
    difference = references.check(translator.program, translator.device)
    reproduced = reference_results.reproduce(outputs, translator) if outputs else None
    return Verified(len(names), len(references.target), difference, reproduced, translator.backend)
