"""List shipped specs, the runs in the current folder, and published models. This module does not load torch."""

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
from zoo.models.local_store import all_names, bundle_digest, read_origin, revisions_of
from zoo.models.registries.registry import (
    Registry,
    configured_registries,
    included_registry,
    skipped_registries,
)
from zoo.report import Report

LOCAL, INCLUDED = "local", "included"
"""Values of `location` for a model in the local model store, and for a model that is included in the package."""


@dataclass(frozen=True)
class ShippedSpec:
    """Spec that is shipped with zoo. `parameters` counts tied matrices once."""

    short_name: str
    name: str
    parameters: int
    description: str


@dataclass(frozen=True)
class RunSummary:
    """Run in the current folder.

    Attributes:
        folder: Folder of the run.
        name: Name in its spec.
        parameters: Number of parameters; tied matrices count once.
        step: Step of the newest checkpoint. None if there is none.
        steps: Number of steps of the complete training run.
        trained: Whether the run has averaged weights, which can be used and published.
        metric: Name of the first metric of its task.
        dev: Score on the dev set. None if it was not evaluated.
        test: Score on the test set. None if it was not evaluated.
    """

    folder: str
    name: str
    parameters: int
    step: int | None
    steps: int
    trained: bool
    metric: str
    dev: float | None
    test: float | None


@dataclass(frozen=True)
class PublishedModel:
    """Published model, in the local model store or in a registry.

    Attributes:
        name: Name of the model.
        location: `LOCAL`, `INCLUDED`, or the address of the registry.
        revision: Number of the revision. None if it was not published to a registry.
        digest: SHA-256 that identifies this revision, as in `NAME@sha256:...`.
        parameters: Number of parameters; tied matrices count once.
        metric: Name of the first metric of its task.
        dev: Score on the dev set. None if it was not evaluated.
        test: Score on the test set. None if it was not evaluated.
        licence: Licence in its spec. Empty if the publisher did not specify one.
        description: Description in its spec.
    """

    name: str
    location: str
    revision: int | None
    digest: str
    parameters: int
    metric: str
    dev: float | None
    test: float | None
    licence: str
    description: str


@dataclass(frozen=True)
class Inventory:
    """Specs, runs and published models, in the order in which they are listed."""

    specs: tuple[ShippedSpec, ...]
    runs: tuple[RunSummary, ...]
    models: tuple[PublishedModel, ...]


class Scores(TypedDict):
    """Scores of a model on its dev and test sets, by one metric. None if a set was not evaluated."""

    metric: str
    dev: float | None
    test: float | None


def inventory(pattern: str | None, report: Report) -> Inventory:
    """Return the shipped specs, runs and models on this machine whose names match a pattern. Warn about damaged models.

    Args:
        pattern: A pattern with `*`, `?` or `[`, or a part of a name. None matches everything.
        report: Receives the warnings.
    """
    local = tuple(_local_models(report))
    stored = {model.name for model in local}
    included = (model for model in _models_in(included_registry(), report) if model.name not in stored)
    return Inventory(
        tuple(spec for spec in _shipped_specs() if _matches(pattern, spec.short_name, spec.name)),
        tuple(run for run in _runs(report) if _matches(pattern, run.folder, run.name)),
        tuple(model for model in (*local, *included) if _matches(pattern, model.name)),
    )


def published_models(pattern: str | None, report: Report) -> tuple[PublishedModel, ...]:
    """Return all revisions in the local model store, then the newest revision of each model in each registry.

    Report damaged models and unreachable registries as warnings.

    Args:
        pattern: A pattern with `*`, `?` or `[`, or a part of a name. None matches everything.
        report: Receives the warnings.
    """
    models = list(_local_models(report, with_pinned=True))
    for registry in configured_registries():
        models += _models_in(registry, report)
    for address in skipped_registries():
        report.warn(f"`{address}` was not searched because of ZOO_OFFLINE")
    return tuple(model for model in models if _matches(pattern, model.name))


def _matches(pattern: str | None, *names: str) -> bool:
    if pattern is None:
        return True
    glob = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return any(fnmatch.fnmatchcase(name.lower(), glob.lower()) for name in names)


def _shipped_specs() -> Iterator[ShippedSpec]:
    for short in specs.names():
        spec = specs.load(short)
        yield ShippedSpec(short, spec.name, compiler.parameters(spec), spec.description)


def _runs(report: Report) -> Iterator[RunSummary]:
    for folder in find.all_runs():
        try:
            yield _summarize(ModelFolder(folder))
        except ZooError as error:
            report.warn(error.summary)


def _summarize(run: ModelFolder) -> RunSummary:
    spec, scores = run.spec, run.known_scores
    steps = [int(folder.name) for folder in run.checkpoints.glob("*") if folder.name.isdigit()]
    return RunSummary(
        folder=run.folder.as_posix(),
        name=spec.name,
        parameters=compiler.parameters(spec),
        step=max(steps, default=None),
        steps=spec.training.steps,
        trained=run.trained,
        **first_metric_scores(spec, scores),
    )


def _local_models(report: Report, with_pinned: bool = False) -> Iterator[PublishedModel]:
    for folder in (folder for name in all_names() for folder in revisions_of(name)):
        name, pin, _ = folder.name.partition("@")
        if pin and not with_pinned:
            continue
        bundle = ModelFolder(folder)
        try:
            spec, scores = bundle.spec, bundle.known_scores
            origin, digest = read_origin(folder), bundle_digest(folder)
        except ZooError as error:
            report.warn(error.summary)
            continue
        yield PublishedModel(
            name=name,
            location=LOCAL,
            revision=origin.revision if origin else None,
            digest=digest or "",
            parameters=compiler.parameters(spec),
            **first_metric_scores(spec, scores),
            licence=spec.licence or "",
            description=spec.description,
        )


def _models_in(registry: Registry, report: Report) -> list[PublishedModel]:
    try:
        entries = registry.entries(lambda error: report.warn(error.summary))
        if not entries and (absence := registry.absence()) is not None:
            report.warn(f"`{registry.address}` {absence}")
    except ZooError as error:
        report.warn(error.summary)
        return []
    return [
        PublishedModel(
            name=entry.name,
            location=INCLUDED if registry == included_registry() else registry.address,
            revision=entry.revision,
            digest=entry.digest,
            parameters=entry.summary.parameters,
            metric=entry.summary.metric,
            dev=entry.summary.dev,
            test=entry.summary.test,
            licence=entry.summary.licence,
            description=entry.summary.description,
        )
        for entry in entries
    ]


def first_metric_scores(spec: Spec, scores: Mapping[str, Any]) -> Scores:
    """Return a model's scores on the dev and test sets, by the first metric of its task.

    Args:
        spec: The spec.
        scores: Content of `scores.json`.
    """
    first, *_ = metrics_for(spec.task)
    return {
        "metric": first.name,
        "dev": first.read_score(scores.get("dev")),
        "test": first.read_score(scores.get("test")),
    }
