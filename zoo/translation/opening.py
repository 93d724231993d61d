"""A model in a folder: what a run ends with and what is published are opened alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from compiler import TRANSLATE, Purpose, build, find_device, lower
from compiler.graph import stored
from compiler.weights import check
from specs import Spec, ZooError
from zoo.model import weights
from zoo.model.folder import SPEC, WEIGHTS, ModelFolder
from zoo.model.weights import Weights
from zoo.report import Plain, Report
from zoo.storage import manifest, places
from zoo.text.vocabulary import Vocabulary
from zoo.translation.translator import Translator


class How(TypedDict, total=False):
    """How a model is run. What is None or left out is as its spec says."""

    device: str
    precision: str | None
    backend: str | None


@dataclass(frozen=True)
class Model:
    """What a run's or a bundle's folder holds, and belongs together."""

    spec: Spec
    vocabulary: Vocabulary
    weights: Weights


def read_model(folder: Path) -> Model:
    """What the folder holds. Raises ZooError where a file is missing, damaged, or does not fit the others."""
    if (folder / manifest.NAME).is_file():
        # The weights carry a digest of their own, which covers the vocabulary, too.
        manifest.check(folder, [SPEC])
    spec = ModelFolder(folder).spec
    vocabulary = Vocabulary.load(folder)
    if (found := (vocabulary.size, vocabulary.shared)) != (wanted := (spec.vocabulary.size, spec.vocabulary.shared)):
        problem = f"the vocabulary in `{folder}` has {_said(*found)}, and its spec says {_said(*wanted)}"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1)
    file = folder / WEIGHTS
    read = weights.read(file)
    try:
        check(read.tensors, stored([lower(spec, Purpose.SCORE)]), spec.name)
    except ZooError as error:
        raise ZooError(error.problem, where=str(file), hint=error.hint, exit_code=1) from None
    return Model(spec, vocabulary, read)


def open_model(
    folder: Path,
    *,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    tokens: int | None = None,
    report: Report | None = None,
) -> Translator:
    """The translator that a run's or a bundle's folder holds; its warnings go to `report` (stderr without one).

    `precision` and `backend` are the spec's where they are not given; what a backend compiles is kept in
    `places.compiled()`. Raises ZooError as `read_model` does, and where device, precision or backend are not there.
    """
    device = find_device(device)
    model = read_model(folder)
    program = build(
        model.spec,
        TRANSLATE,
        weights=model.weights.tensors,
        device=device,
        precision=precision,
        backend=backend,
        folder=places.compiled(),
    )
    return Translator(
        program,
        model.vocabulary,
        model.spec,
        longest_source=model.weights.longest_source,
        report=report or Plain(),
        device=device,
        tokens=tokens,
    )


def _said(size: int, shared: bool) -> str:
    return f"{size:,} pieces, {'shared' if shared else 'for each side'}"
