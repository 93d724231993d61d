"""What there is: shipped specs, runs under the current folder, published models (no torch is loaded)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import compiler
import specs
from specs import Spec, ZooError
from zoo.evaluation.metrics import metrics_for
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.models.names import known_names, standing
from zoo.models.origin import digest, origin
from zoo.models.registries.listed import registries, unasked
from zoo.models.registries.registry import Registry
from zoo.report import Report


@dataclass(frozen=True)
class ShippedSpec:
    """`parameters` counts tied ones once."""

    short: str
    name: str
    parameters: int
    description: str


@dataclass(frozen=True)
class FoundRun:
    """`step` is that of the newest checkpoint; dev and test are by `metric`, None where nobody scored them."""

    folder: str
    name: str
    parameters: int
    step: int | None
    steps: int
    trained: bool
    metric: str
    """The name of its task's first metric."""
    dev: float | None
    test: float | None


@dataclass(frozen=True)
class PublishedModel:
    """dev and test are by `metric`, None where nobody scored them."""

    name: str
    where: str
    """SHELF, or the address of a registry."""
    revision: int | None
    """None where it is on the shelf, and was published to no registry."""
    digest: str
    """Of this state of it: what `NAME@sha256:...` pins."""
    parameters: int
    metric: str
    """The name of its task's first metric."""
    dev: float | None
    test: float | None
    description: str


@dataclass(frozen=True)
class Inventory:
    """All of it, in the order in which it is shown."""

    specs: tuple[ShippedSpec, ...]
    runs: tuple[FoundRun, ...]
    models: tuple[PublishedModel, ...]


SHELF = "shelf"


class Scored(TypedDict):
    metric: str
    dev: float | None
    test: float | None


def inventory(pattern: str | None, report: Report) -> Inventory:
    """What has a name that matches: a pattern where it has one of `*?[`, else a part of a name.

    What is damaged is left out, with a warning: it must not hide the rest.
    """
    return Inventory(
        tuple(spec for spec in _shipped() if _matches(pattern, spec.short, spec.name)),
        tuple(run for run in _runs(report) if _matches(pattern, run.folder, run.name)),
        tuple(model for model in _on_shelf(report) if _matches(pattern, model.name)),
    )


def published(pattern: str | None, report: Report) -> tuple[PublishedModel, ...]:
    """The models on the shelf, pinned revisions among them, then those of each registry: of each its newest revision.

    What is damaged, and a registry that cannot be reached, is left out with a warning.
    """
    found = [*_on_shelf(report, pinned=True), *(each for one in registries() for each in _in_registry(one, report))]
    for address in unasked():
        report.warn(f"`{address}` is not asked: ZOO_OFFLINE forbids it")
    return tuple(model for model in found if _matches(pattern, model.name))


def _matches(pattern: str | None, *candidates: str) -> bool:
    if pattern is None:
        return True
    whole = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return any(fnmatch.fnmatchcase(name.lower(), whole.lower()) for name in candidates)


def _shipped() -> Iterator[ShippedSpec]:
    for short in specs.names():
        spec = specs.load(short)
        yield ShippedSpec(short, spec.name, compiler.parameters(spec), spec.description)


def _runs(report: Report) -> Iterator[FoundRun]:
    for folder in find.all_runs():
        try:
            yield _run(ModelFolder(folder))
        except ZooError as error:
            report.warn(error.summary)


def _run(run: ModelFolder) -> FoundRun:
    spec, scores = run.spec, run.known_scores
    steps = [int(each.name) for each in run.checkpoints.glob("*") if each.name.isdigit()]
    return FoundRun(
        folder=run.folder.as_posix(),
        name=spec.name,
        parameters=compiler.parameters(spec),
        step=max(steps, default=None),
        steps=spec.training.steps,
        trained=run.trained,
        **scored(spec, scores),
    )


def _on_shelf(report: Report, pinned: bool = False) -> Iterator[PublishedModel]:
    for folder in (folder for name in known_names() for folder in standing(name)):
        name, pin, _ = folder.name.partition("@")
        if pin and not pinned:
            continue
        bundle = ModelFolder(folder)
        try:
            spec, scores, own, known = bundle.spec, bundle.known_scores, digest(folder) or "", origin(folder)
        except ZooError as error:
            report.warn(error.summary)
            continue
        parameters, number = compiler.parameters(spec), known.revision if known else None
        yield PublishedModel(name, SHELF, number, own, parameters, **scored(spec, scores), description=spec.description)


def _in_registry(registry: Registry, report: Report) -> Iterator[PublishedModel]:
    try:
        entries = registry.entries(lambda error: report.warn(error.summary))
        if not entries and (absent := registry.absent()) is not None:
            report.warn(f"`{registry.address}` {absent}")
    except ZooError as error:
        return report.warn(error.summary)
    for each in entries:
        said = each.summary
        score: Scored = {"metric": said.metric, "dev": said.dev, "test": said.test}
        yield PublishedModel(
            *(each.name, registry.address, each.revision, each.digest, said.parameters),
            **score,
            description=said.description,
        )


def scored(spec: Spec, scores: Mapping[str, Any]) -> Scored:
    """What the first metric of the spec's task says of both sets."""
    first, *_ = metrics_for(spec.task)
    return {"metric": first.name, "dev": first.read_score(scores.get("dev")), "test": first.read_score(scores.get("test"))}
