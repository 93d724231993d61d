"""`zoo export`: from a bundle to a folder that another engine reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specs import ZooError, nearest
from zoo.files import manifest
from zoo.files.atomic import atomic_folder
from zoo.files.storage import require_space
from zoo.interop.ctranslate2.export import CTranslate2
from zoo.interop.exported import Bundle, Checked, Target
from zoo.interop.huggingface.export_format import HuggingFaceMarian
from zoo.interop.onnx.export import Onnx
from zoo.models import find
from zoo.models.loading import read_model
from zoo.publishing import proof
from zoo.report import Report

TARGETS: tuple[Target, ...] = (HuggingFaceMarian(), CTranslate2(), Onnx())
"""The formats that are written. To add one: a file beside this one, and its line here."""
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Done:
    """The folder, how it was checked (None: nobody who could is installed), and what the user should know."""

    folder: Path
    checked: Checked | None
    notes: tuple[str, ...]


def export(name: str, to: str, folder: Path, report: Report) -> Done:
    """Writes the published model of this name, or of this folder, into a new folder, and checks what it wrote.

    Raises ZooError where there is no such model or format, where the folder has content, be it only by the end (which
    stays), where the format cannot say what the model is, by name, and where what was written computes something else:
    then nothing is written.
    """
    target = _called(to)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ZooError(f"`{folder}` is there already", hint="name a new folder with `-o`")
    place = find.published_model(name, report)
    model = read_model(place)
    manifest.read(place).check_file(proof.NAME)
    bundle = Bundle(model.spec, model.vocabulary, model.weights.tensors, proof.read(place / proof.NAME, model.spec))
    require_space(folder, 2 * sum(each.nbytes for each in bundle.tensors.values()), "the export")
    straight = Path(os.path.realpath(folder))  # a link to an empty folder stays one
    with atomic_folder(straight, replace=False) as partial:
        notes = target.write(bundle, partial)
        checked = target.check(bundle, partial)
        if checked is not None and not checked.difference <= _TOLERANCE:
            raise ZooError(
                f"what was written of `{place.name}` computes something else: {checked.by} differs by "
                f"{checked.difference:.2g} from {checked.held_to}, and {_TOLERANCE:g} is allowed",
                exit_code=1,
            )
    for note in notes:
        report.say(f"note: {note}")
    return Done(folder, checked, tuple(notes))


def _called(name: str) -> Target:
    for each in TARGETS:
        if each.name == name:
            return each
    near = nearest(name, [each.name for each in TARGETS])
    guess = f"did you mean `{near}`? " if near else ""
    known = ", ".join(f"{each.name} ({each.description})" for each in TARGETS)
    raise ZooError(f"`{name}` is no format to export to", hint=f"{guess}the formats are {known}")
