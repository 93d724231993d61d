"""A model opened as a translator: what a run ends with and what is published are opened alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict

from compiler import TRANSLATE, Purpose, build, find_device
from specs import Task
from zoo.generation.attending import Attending
from zoo.generation.building import built
from zoo.generation.parser import Parser
from zoo.generation.translator import Translator
from zoo.models.loading import read_model
from zoo.report import Library, Report

ATTENDS = "eager"
"""What shows attention, whatever translates: one pass over one sentence is over before anything is compiled."""
_KINDS: Mapping[str, type[Translator]] = {"translation": Translator, "parsing": Parser}


def kind(task: Task) -> type[Translator]:
    """What makes outputs of a program, for this task."""
    return _KINDS[task.kind]


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
    """The translator that a run's or a bundle's folder holds; its warnings go to `report` (else to `warnings`).

    `precision` and `backend` are the spec's where they are not given; what a backend compiles is kept in
    `places.compiled()`. Raises ZooError as `read_model` does, and where device, precision or backend are not there.
    """
    device = find_device(device)
    model = read_model(folder)
    report = report or Library()
    how: How = {"device": device, "precision": precision, "backend": backend}
    program = built(model.spec, TRANSLATE, model.weights.tensors, report, **how)
    translator = kind(model.spec.task)(
        program,
        model.vocabulary,
        model.spec,
        longest_source=model.weights.longest_source,
        report=report,
        device=device,
        tokens=tokens,
    )
    translator.backend = program.backend
    attends = partial(
        build,
        model.spec,
        [Purpose.ATTEND],
        weights=model.weights.tensors,
        device=device,
        precision=precision,
        backend=ATTENDS,
    )
    translator.attending = Attending(attends)
    translator.opened = (_open, (folder.absolute(), device, precision, backend, tokens))
    return translator


def _open(folder: Path, device: str, precision: str | None, backend: str | None, tokens: int | None) -> Translator:
    """What a pickle of a translator calls."""
    return open_model(folder, device=device, precision=precision, backend=backend, tokens=tokens)
