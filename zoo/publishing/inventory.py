"""List shipped specs, the runs in the current folder, and published models. This module does not load torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

import compiler
import specs
from specs import Spec, ZooError
from zoo.evaluation.metrics import metrics_for
from zoo.models import catalogue, find, local_store
from zoo.models.catalogue import ModelCard
from zoo.models.folder import ModelFolder
from zoo.models.local_store import StoredModel
from zoo.models.registries.registry import Registries, Registry, included_registry
from zoo.models.registries.revision import Summary
from zoo.report import Report
from zoo.version import __version__

LOCAL, INCLUDED = "local", "included"
"""Values of `location` for a model in the local model store, and for a model that is included in the package."""
_LISTED_PAIRS = 3
RUN, CATALOGUE = "run", "catalogue"
"""Values of `origin` for a model that was trained on this machine, and for a model from the catalogue."""


@dataclass(frozen=True)
class ShippedSpec:
    """Spec that is shipped with zoo. `parameters` counts tied matrices once."""

    short_name: str
    name: str
    parameters: int
    description: str


@dataclass(frozen=True)
class RunSummary:
    """Training run below the current folder.

    Attributes:
        folder: Folder of the run.
        name: Name in the run's spec.
        parameters: Number of parameters; tied matrices count once.
        step: Step of the newest checkpoint. None if the run has no checkpoints.
        steps: Number of steps of the complete training run.
        trained: Whether the run has averaged weights, which can be used and published.
        metric: Name of the first metric for the task.
        dev: Score on the dev set. None if there is no score.
        test: Score on the test set. None if there is no score.
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

    @property
    def weights(self) -> str:
        """Table cell for `trained`: "trained" or an empty string."""
        return "trained" if self.trained else ""


@dataclass(frozen=True)
class PublishedModel:
    """Published model, in the local model store or in a registry.

    Attributes:
        name: Name of the model.
        location: `LOCAL`, `INCLUDED`, or the address of the registry.
        origin: Where the model comes from: `RUN`, `CATALOGUE`, the address of a registry, or the source of an import.
        revision: Number of the revision. None if the model has not been published to a registry.
        digest: SHA-256 that identifies the files of this revision.
        parameters: Number of parameters; tied matrices count once.
        metric: Name of the first metric for the task.
        dev: Score on the dev set. None if there is no score.
        test: Score on the test set. None if there is no score.
        licence: Licence in the model's spec. Empty if the publisher did not specify one.
        description: Description in the model's spec.
    """

    name: str
    location: str
    origin: str
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
    """Specs, runs and published models, in the order in which `zoo list` prints them."""

    specs: tuple[ShippedSpec, ...]
    runs: tuple[RunSummary, ...]
    models: tuple[PublishedModel, ...]


@dataclass(frozen=True)
class PublicModel:
    """Model in the catalogue, or a name pattern for many models, one per language pair.

    Attributes:
        name: Name of the model. A pattern contains `{source}` and `{target}`.
        languages: The language pair, or the number of pairs or languages.
        bytes: Size of the download. None if it is not documented.
        parameters: Number of parameters. None if it is not documented.
        licence: Licence. Empty if it is not documented.
        texts: Kind of text that the model was trained on. Empty if it is not documented.
        stored: Origin of the model with this name in the local model store. Empty if the store has no such model.
        description: Description of the model.
    """

    name: str
    languages: str
    bytes: int | None
    parameters: int | None
    licence: str
    texts: str
    stored: str
    description: str


def inventory(pattern: str | None, report: Report) -> Inventory:
    """Return the shipped specs, runs and models on this machine whose names match a pattern. Warn about damaged models.

    Args:
        pattern: A pattern with `*`, `?` or `[`, or a part of a name. None matches everything.
        report: Receives the warnings.
    """
    local = tuple(_local_models(report))
    stored = {model.name for model in local}
    included = (model for model in _models_in(included_registry(), report) if model.name not in stored)
    shipped = ((short_name, specs.load(short_name)) for short_name in specs.names())
    return Inventory(
        tuple(
            ShippedSpec(short_name, spec.name, compiler.parameters(spec), spec.description)
            for short_name, spec in shipped
            if _matches(pattern, short_name, spec.name)
        ),
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
    models, registries = list(_local_models(report, with_pinned=True)), Registries.configured()
    for registry in registries.searched:
        models += _models_in(registry, report)
    for address in registries.skipped:
        report.warn(f"`{address}` was not searched because ZOO_OFFLINE is set")
    return tuple(model for model in models if _matches(pattern, model.name))


def public_models(pattern: str | None) -> tuple[PublicModel, ...]:
    """Return the models in the catalogue that match a language pair or a name pattern.

    For a language pair, the recommended model comes first. Otherwise, the models are sorted by language.

    Args:
        pattern: A language pair such as `de-fr`, a name pattern, or a part of a name (see `inventory`). None
            selects the whole catalogue. A card for many language pairs is then returned as one model.
    """
    source, _, target = (pattern or "").partition("-")
    if cards := catalogue.for_pair(source, target):
        return tuple(map(_public_model, cards))
    cards = catalogue.cards() if pattern is None else catalogue.models()
    found = [_public_model(card) for card in cards if _matches(pattern, card.name, *card.aliases)]
    return tuple(sorted(found, key=lambda each: (each.languages[0].isdigit(), each.languages)))


def _public_model(card: ModelCard) -> PublicModel:
    members = [] if card.is_pattern else find.stored_members(card, card.name)
    return PublicModel(
        name=card.name,
        languages=card.languages.summary(_LISTED_PAIRS),
        bytes=card.bytes,
        parameters=card.parameters,
        licence=card.short_licence,
        texts=card.texts or "",
        stored=_origin(members[0]) if members else "",
        description=card.description,
    )


def _matches(pattern: str | None, *names: str) -> bool:
    if pattern is None:
        return True
    glob = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return any(fnmatch.fnmatchcase(name.lower(), glob.lower()) for name in names)


def _runs(report: Report) -> Iterator[RunSummary]:
    for folder in find.all_runs():
        try:
            yield _summarize(ModelFolder(folder))
        except ZooError as error:
            report.warn(error.summary)


def _summarize(run: ModelFolder) -> RunSummary:
    spec = run.spec
    steps = [int(folder.name) for folder in run.checkpoints.glob("*") if folder.name.isdigit()]
    return RunSummary(
        folder=run.folder.as_posix(),
        name=spec.name,
        parameters=compiler.parameters(spec),
        step=max(steps, default=None),
        steps=spec.training.steps,
        trained=run.trained,
        **_first_metric_scores(spec, run.known_scores),
    )


def _local_models(report: Report, with_pinned: bool = False) -> Iterator[PublishedModel]:
    for model in local_store.models():
        if model.pin is not None and not with_pinned:
            continue
        try:
            summary, origin, digest = summarize(model), model.origin, model.digest
        except ZooError as error:
            report.warn(error.summary)
            continue
        revision = origin.revision if origin else None
        yield PublishedModel(model.name, LOCAL, _origin(model), revision, digest or "", **_listed(summary))


def _origin(model: StoredModel) -> str:
    """Return the origin of a model in the local model store (see `PublishedModel.origin`)."""
    if (origin := model.origin) is not None:
        return origin.registry
    return CATALOGUE if "catalogue" in model.imported else str(model.imported.get("source", RUN))


def _models_in(registry: Registry, report: Report) -> list[PublishedModel]:
    try:
        entries = registry.entries(lambda error: report.warn(error.summary))
        if not entries and (absence := registry.absence()) is not None:
            report.warn(f"`{registry.address}` {absence}")
    except ZooError as error:
        report.warn(error.summary)
        return []
    location = INCLUDED if registry == included_registry() else registry.address
    return [
        PublishedModel(each.name, location, location, each.revision, each.digest, **_listed(each.summary))
        for each in entries
    ]


def _listed(summary: Summary) -> dict[str, Any]:
    """Return the fields of a `PublishedModel` that are copied from the model's summary."""
    return summary.model_dump(include={"parameters", "metric", "dev", "test", "licence", "description"})


def summarize(bundle: ModelFolder) -> Summary:
    """Summarize a published model. In the summary, the time of publication is the current time.

    Raises:
        ZooError: The spec or the scores in the folder are damaged.
    """
    spec = bundle.spec
    try:
        return Summary(
            task=spec.task.kind,
            source=spec.corpus.source,
            target=spec.corpus.target,
            languages=list(spec.languages.codes) if spec.languages else [],
            parameters=compiler.parameters(spec),
            **_first_metric_scores(spec, bundle.known_scores),
            description=spec.description,
            licence=spec.licence or "",
            published=datetime.now(UTC).isoformat(timespec="seconds"),
            zoo=__version__,
        )
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        hint = "restore the folder from the model's source"
        raise ZooError(f"`{field}` of the model in `{bundle.folder}` is not valid", hint=hint, exit_code=1) from None


def _first_metric_scores(spec: Spec, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of the task's first metric (`metric`), and its `dev` and `test` scores from `scores.json`."""
    first, *_ = metrics_for(spec)
    return {"metric": first.name} | {split: first.read_score(scores.get(split)) for split in ("dev", "test")}
