"""A model opened as a translator: what a run ends with and what is published are opened alike."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from compiler import TRANSLATE, build, find_device
from zoo.model.contents import read_model
from zoo.report import Plain, Report
from zoo.storage import places
from zoo.translation.translator import Translator


class How(TypedDict, total=False):
    """How a model is run. What is None or left out is as its spec says."""

    device: str
    precision: str | None
    backend: str | None


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
    translator = Translator(
        program,
        model.vocabulary,
        model.spec,
        longest_source=model.weights.longest_source,
        report=report or Plain(),
        device=device,
        tokens=tokens,
    )
    translator.opened = (_open, (folder.absolute(), device, precision, backend, tokens))
    return translator


def _open(folder: Path, device: str, precision: str | None, backend: str | None, tokens: int | None) -> Translator:
    """What a pickle of a translator calls."""
    return open_model(folder, device=device, precision=precision, backend=backend, tokens=tokens)
