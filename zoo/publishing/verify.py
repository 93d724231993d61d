"""`zoo verify`: is a published model still what was published?"""

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
from zoo.models.weights import RESTORE
from zoo.publishing import facts, proof, sample
from zoo.publishing.sample import Reproduced
from zoo.report import Report

FILES = (SPEC, WEIGHTS, proof.NAME, SCORES, CARD)
"""What every bundle has beside its vocabulary and its manifest; later ones have facts, and some a sample."""
PLAIN: BackendOptions = {"device": "cpu", "precision": "float32", "backend": "eager"}
"""What every machine has, and exact."""


@dataclass(frozen=True)
class Verified:
    """What `verify` looked at: files, sentences of the proof, the largest difference of a log-probability, its sample.

    `backend` is the one that computed.
    """

    files: int
    sentences: int
    difference: float
    sample: Reproduced | None
    backend: str


def verify(name: str | os.PathLike[str], *, backend: str | None = None, report: Report | None = None) -> Verified:
    """Checks a published model's files against its manifest, its log-probabilities and its score against its own.

    They are computed in float32: on the processor by the plainest code, or by this `backend` (`auto`, or one that
    `zoo doctor` lists) on the device that this machine has. `name` may be the folder of a model. Raises ZooError where
    there is no such model, where a file is not as it was published, where a log-probability differs by more than
    `proof.TOLERANCE`, or the score of its sample, if it has one, by more than `sample.TOLERANCE`.
    """
    how: BackendOptions = PLAIN if backend is None else {"device": "auto", "precision": "float32", "backend": backend}
    report = report or Report()
    return verify_folder(find.published(name, report), report, how)


def verify_folder(folder: Path, report: Report, how: How = PLAIN) -> Verified:
    """The same of a folder that may not be published yet."""
    listed = manifest.read(folder)
    names = {*listed.entries, *FILES}
    try:
        manifest.check(folder, sorted(names))
    except ZooError as error:
        raise ZooError(error.problem, where=error.where, hint=error.hint or RESTORE, exit_code=1) from None
    facts.read(listed)
    taken = sample.read(listed)
    translator = open_model(folder, **how, report=report)
    proved = proof.read(folder / proof.NAME, translator.spec)
    difference = proved.check(translator.program, translator.device)
    found = sample.reproduced(taken, translator) if taken else None
    return Verified(len(names), len(proved.source), difference, found, translator.backend)
