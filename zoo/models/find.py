"""Find the folder of a model that the user selects with `--spec SPEC`, `--model NAME|RUN` or RUN.

A run is a folder that `zoo train` writes. A name is looked up in the local model store, among the runs, in the
registries and in the catalogue of public models, in this order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote

import specs
from specs import Spec, ZooError, nearest, suggest
from zoo.files import storage
from zoo.files.atomic import partial_target
from zoo.files.reading import file_exists
from zoo.models import catalogue, local_store
from zoo.models.catalogue import ModelCard
from zoo.models.folder import (
    RUN_IDENTITY,
    RUNS,
    SPEC,
    ModelFolder,
    differing_fields,
    format_differences,
)
from zoo.models.local_store import StoredModel
from zoo.models.pull import pull
from zoo.models.registries.registry import Registries, included_registry
from zoo.models.registries.revision import Reference
from zoo.report import WARNINGS, Report

_YAML = (".yaml", ".yml")
_CREATE_HINTS = {
    "model": "to train a model, run `zoo train SPEC`",
    "run": "to start training, run `zoo train SPEC`",
    "published model": "to publish a model, run `zoo publish RUN`",
}


def from_options(spec: str | None, model_name: str | None, report: Report = WARNINGS) -> Path:
    """Return the folder of the model that `--spec` or `--model` selects.

    Raises:
        ZooError: Both options or neither are given, or there is no such model.
    """
    names = [] if model_name is None else [model_name]
    return _single(model_name or "", all_from_options(spec, names, report))


def all_from_options(spec: str | None, model_names: Sequence[str] | None, report: Report = WARNINGS) -> list[Path]:
    """Return the folders of the models that `--spec` or `--model` selects. `--model` may be given several times.

    An ensemble from the catalogue has several folders.

    Raises:
        ZooError: Both options or neither are given, or there is no such model.
    """
    if spec is not None and not model_names:
        return [of_spec(spec, report)]
    if spec is None and model_names:
        return [folder for name in model_names for folder in models(name, report)]
    problem = "no model is given" if spec is None else "`--spec` and `--model` are both given"
    raise ZooError(problem, hint="use either `--spec SPEC` or `--model NAME|RUN`; run `zoo list` to list them")


def of_spec(reference: str, report: Report = WARNINGS) -> Path:
    """Return the folder of a spec's newest trained run. Without such a run, return its published model.

    The published model has the same name as the spec. If it is not in the local model store, it is pulled from the
    registries.

    Raises:
        ZooError: There is no such model, the model with this name has a different spec, or the model cannot be pulled.
            The error lists the paths that were searched, or the fields that differ.
    """
    try:
        spec = specs.load(reference)
    except ZooError:
        if not reference.endswith(_YAML) and (local_model(reference) is not None or find_run(reference) is not None):
            hint = f"use `--model {reference}`, or use the spec that the model was trained with"
            raise ZooError(f"`{reference}` is a model, not a spec", hint=hint) from None
        raise
    # The name or the folder alone do not identify a spec: `extends` inherits names, and specs can share a file name.
    trained = [run for run in map(ModelFolder, all_runs()) if run.trained and _has_spec(run, spec)]
    if trained:
        return max(trained, key=lambda run: run.weights.stat().st_mtime_ns).folder
    bundle, default = StoredModel.current(spec.name), ModelFolder.default(spec)
    if bundle.published and _has_spec(bundle, spec):
        return bundle.folder
    if default.exists and _has_spec(default, spec):
        return _require_trained(default, report)
    if not bundle.exists and (pulled := pull(Reference(spec.name), report)) is not None:
        bundle = pulled
        if _has_spec(bundle, spec):
            return bundle.folder
    for candidate in (default, bundle):
        if candidate.exists:
            _require_spec(candidate, spec, reference)
    raise ZooError(
        f"there is no trained model for `{reference}`: the run `{default.folder}` does not exist, no other run in "
        f"`{RUNS}` has this spec, and the published model `{bundle.folder}` does not exist",
        hint=f"if you trained the model in another folder, change to that folder or select the run with `--model`; "
        f"otherwise, run `zoo train {reference}`; to use the model in every folder, run `zoo publish {spec.short_name}`"
        f"{_describe_alternative(spec)}",
    )


def _has_spec(model: ModelFolder, spec: Spec) -> bool:
    """Return whether a model was trained with this spec. Return False if the model's spec cannot be read."""
    with suppress(ZooError):
        return not differing_fields(model.spec, spec)
    return False


def _require_spec(model: ModelFolder, spec: Spec, reference: str) -> None:
    """Raise ZooError if a model was not trained with this spec. `reference` names the spec in the error message."""
    if differences := differing_fields(model.spec, spec):
        described = format_differences(differences, f"in `{reference}`", "in the folder")
        raise ZooError(
            f"the spec in `{model.folder}` differs from `{reference}`:{described}",
            hint=f"to use the folder anyway, pass `{model.folder}` instead of `{reference}` (as `--model` if the "
            f"command has this option); to train this spec, run `zoo train {reference} --run DIR`",
        )


def _describe_alternative(spec: Spec) -> str:
    """Return the last sentence of a hint, which recommends the public model with the spec's name or `zoo list`.

    If the spec is not for translation, return an empty string.
    """
    if spec.task.kind != "translation":
        return ""
    source, target = spec.corpus.source, spec.corpus.target
    card = catalogue.find(spec.name)
    if card is None or card.languages.direction(source, target) is None:
        return f". Run `zoo list --available {source}-{target}` to list public models for these languages"
    return f". The public model `{card.name}` has a different spec: use it with `--model {card.name}`"


def model(reference: str | os.PathLike[str], report: Report = WARNINGS) -> Path:
    """Return the folder of a model.

    Raises:
        ZooError: There is no such model, it cannot be used (see `models`), or it is an ensemble.
    """
    return _single(os.fspath(reference), models(reference, report))


def models(reference: str | os.PathLike[str], report: Report = WARNINGS) -> list[Path]:
    """Return the folder of a model, or the folders of all models in an ensemble from the catalogue.

    The reference is looked up in this order: the folder of a run or a published model; the name of a published model,
    such as `NAME` or `NAME@2`; the name of a spec that has a run; and the name of a model in the catalogue. If a
    published model is not in the local model store, it is pulled from the registries. If no registry has the model, it
    is downloaded from the source that the catalogue specifies.

    Raises:
        ZooError: There is no such model, the run has no weights yet, or the model cannot be pulled or downloaded.
    """
    name = os.fspath(reference)
    searched = [run_of_spec_file(name) or Path(name)]
    if ModelFolder(searched[0]).exists:
        return [_require_trained(ModelFolder(searched[0]), report)]
    parsed = Reference.parse(name)
    if parsed is not None:
        searched.append(storage.models() / str(parsed))
        if (stored := local_store.find(parsed)) is not None:
            return [stored.folder]
    if (named_run := _run_of_name(name)) is not None:
        searched.append(named_run.folder)
        if named_run.exists:
            return [_require_trained(named_run, report)]
    if parsed is not None and (folders := _obtain(parsed, report)):
        return folders
    known = [*local_store.names(), *run_names(), *catalogue.names()]
    raise _not_found_error("model", name, searched, known, parsed)


def _run_of_name(name: str) -> ModelFolder | None:
    """Return the default run folder of a spec, given the spec's name or file. Return None if `name` cannot be a spec.

    Raises:
        ZooError: `name` is a spec file, but the run in the default folder has a different spec.
    """
    spec = specs.load(name) if name.endswith(_YAML) else None
    path = Path((spec.short_name if spec else name).removeprefix("specs/"))
    if path.is_absolute() or ".." in path.parts or path == Path():
        return None
    run = ModelFolder(RUNS / path)
    if spec and run.exists:
        _require_spec(run, spec, name)
    return run


def _require_trained(run: ModelFolder, report: Report) -> Path:
    if file_exists(run.newest_weights):
        if not run.trained:
            step = int(run.newest_weights.parent.name)
            report.warn(f"`{run.folder}` has no averaged weights yet: its newest checkpoint is used (step {step:,})")
        return run.folder
    hint = f"continue the training run with `zoo train {quote(str(run.spec_file))}`"
    raise ZooError(f"`{run.folder}` has no weights yet", hint=hint)


def _obtain(reference: Reference, report: Report) -> list[Path]:
    """Get a model from a registry or the catalogue. Return its folders, or an empty list if neither has the model."""
    card = None if reference.pinned else catalogue.find(reference.name)
    if card is not None and (members := stored_members(card, reference.name)):
        return [member.folder for member in members]  # the reference is an alias or an ensemble
    if (pulled := pull(reference, report)) is not None:
        return [pulled.folder]
    return [] if card is None else _fetch(card, reference.name, report)


def _fetch(card: ModelCard, name: str, report: Report) -> list[Path]:
    """Download and import a model from the catalogue. Return the folders that the name selects."""
    # The importers depend on this package, so this module cannot import them at its beginning.
    from zoo.interop.fetch import fetch

    fetch(card, report)
    return [member.folder for member in stored_members(card, name)]


def stored_members(card: ModelCard, name: str) -> list[StoredModel]:
    """Return a catalogue model from the local model store: one model, or all members of an ensemble.

    If any of these models is not in the store, return an empty list.

    Args:
        card: The card of the model.
        name: The name of the model, or the name of one member of an ensemble.
    """
    wanted = [name] if name in card.members else card.members
    members = [StoredModel.current(member) for member in wanted]
    return members if all(member.published for member in members) else []


def _single(name: str, folders: Sequence[Path]) -> Path:
    """Return the folder of a single model. Raise ZooError if there are several folders, as for an ensemble."""
    if len(folders) == 1:
        return folders[0]
    members = ", ".join(f"`{folder.name}`" for folder in folders)
    hint = f"choose one of {members}; `zoo decode --model {name}` and `zoo.load` use all of them"
    problem = f"`{name}` is an ensemble of {len(folders)} models, but this operation needs a single model"
    raise ZooError(problem, hint=hint)


def names(pattern: str = "*") -> list[str]:
    """Return the sorted names of the published models on this machine that match a pattern, such as `*big*`.

    These are the models in the local model store and the models that are included in the package.
    """
    included = (entry.name for entry in included_registry().entries(lambda _: None))
    return sorted({*local_store.names(pattern), *(name for name in included if fnmatchcase(name, pattern))})


def published_model(reference: str | os.PathLike[str], report: Report = WARNINGS) -> Path:
    """Return the folder of a published model, given its path or name. Pull it if it is not in the local model store.

    Raises:
        ZooError: There is no such model, it cannot be pulled, or it is an ensemble.
    """
    folder, parsed = local_model(reference), Reference.parse(os.fspath(reference))
    if folder is not None:
        return folder
    if parsed is not None and (folders := _obtain(parsed, report)):
        return _single(os.fspath(reference), folders)
    raise not_published_error(reference, in_registries=True)


def local_model(reference: str | os.PathLike[str]) -> Path | None:
    """Find a published model on this machine by its path or name. Return its folder, or None if it does not exist."""
    name = os.fspath(reference)
    parsed = Reference.parse(name)
    if ModelFolder(Path(name)).published:
        return Path(name)
    stored = None if parsed is None else local_store.find(parsed)
    return None if stored is None else stored.folder


def pull_model(reference: str, report: Report) -> list[Path]:
    """Pull a model from the registries, even if an older revision is in the local model store.

    If no registry has the model, it is downloaded from the source that the catalogue specifies, unless it is already in
    the local model store. If neither a registry nor the catalogue has the model, look only in the local model store.

    Returns:
        The folder of the model, or the folders of all members of an ensemble.

    Raises:
        ZooError: The model was not found in any of these places, or it cannot be pulled.
    """
    parsed = Reference.parse(reference)
    if parsed is not None and (pulled := pull(parsed, report)) is not None:
        return [pulled.folder]
    if (card := catalogue.find(reference)) is not None:
        members = stored_members(card, reference)
        for member in members:
            if member.imported.get("catalogue") != card.name:
                hint = f"to pull the public model, remove your own with `zoo remove {member.name}` first"
                raise ZooError(f"`{member.folder}` is your own model, not the public model `{card.name}`", hint=hint)
        if members:
            report.info(f"`{reference}` is already in the local model store, so nothing was pulled")
        return [member.folder for member in members] or _fetch(card, reference, report)
    registries = Registries.configured()
    if parsed is not None and (stored := local_store.find(parsed)) is not None:
        for address in registries.skipped:
            report.warn(f"`{address}` was not searched because ZOO_OFFLINE is set")
        report.info(f"`{reference}` is already in the local model store, so nothing was pulled")
        return [stored.folder]
    if registries == Registries([included_registry()], []):
        guess = suggest(reference, [*local_store.names(), *catalogue.names()])
        hint = (
            f"{guess}run `zoo list --available` to list the catalogue; to pull from a registry, set ZOO_REGISTRIES to "
            f"its address (a folder, https://, s3:// or hf://), or write the address into `{storage.registries()}`"
        )
        problem = f"`{reference}` cannot be pulled: it is not in the catalogue, and no registry is configured"
        raise ZooError(problem, hint=hint)
    raise not_published_error(reference, in_registries=True)


def not_published_error(reference: str | os.PathLike[str], *, in_registries: bool = False) -> ZooError:
    """Return the ZooError for a published model that was not found.

    Args:
        reference: The name or path that the user gave.
        in_registries: Whether the registries were also searched.
    """
    name = os.fspath(reference)
    if catalogue.find(name) is not None:
        hint = f"run `zoo pull {name}` to download it"
        return ZooError(f"the public model `{name}` is not on this machine", hint=hint)
    parsed = Reference.parse(name)
    searched = [Path(name), *([] if parsed is None else [storage.models() / str(parsed)])]
    known = [*local_store.names(), *(catalogue.names() if in_registries else ())]
    return _not_found_error("published model", name, searched, known, parsed if in_registries else None)


def run(reference: str | os.PathLike[str]) -> Path:
    """Return the folder of a run, given its path or the name of its spec.

    Raises:
        ZooError: There is no such run, or the folder is not a run.
    """
    if (folder := find_run(reference)) is not None:
        return folder
    name, possible = os.fspath(reference), _possible_runs(reference)
    for model in possible:
        if model.published:
            hint = "run `zoo list` to list the runs, or `zoo train SPEC` to start a run"
            raise ZooError(f"there is no run `{name}`: `{model.folder}` is a published model", hint=hint)
        if model.folder.is_dir():
            model.require_spec()
    raise _not_found_error("run", name, [model.folder for model in possible], run_names())


def find_run(reference: str | os.PathLike[str]) -> Path | None:
    """Return the folder of a run, given its path or the name of its spec. Return None if there is no such run."""
    return next((run.folder for run in _possible_runs(reference) if run.exists and not run.published), None)


def _possible_runs(reference: str | os.PathLike[str]) -> list[ModelFolder]:
    name = os.fspath(reference)
    named_run = _run_of_name(name)
    return [ModelFolder(run_of_spec_file(name) or Path(name)), *([] if named_run is None else [named_run])]


def run_of_spec_file(reference: str | os.PathLike[str]) -> Path | None:
    """Return the folder of a run, given the path of its `spec.yaml`. Return None for any other reference."""
    file = Path(reference)
    is_run = file.name == SPEC and file.with_name(RUN_IDENTITY).is_file() and not ModelFolder(file.parent).published
    return file.parent if is_run else None


def all_runs(root: Path = RUNS) -> list[Path]:
    """Return the folders of all runs below a folder, sorted. Runs whose removal was interrupted are skipped."""
    folders = (file.parent for file in root.rglob(SPEC)) if root.is_dir() else ()
    return sorted(folder for folder in folders if not any(map(partial_target, folder.parts)))


def run_names() -> list[str]:
    """Return the names of all runs in `runs/`. A name is the path of the folder, relative to `runs/`."""
    return [folder.relative_to(RUNS).as_posix() for folder in all_runs()]


def _not_found_error(
    kind: str, name: str, searched: Sequence[Path], known: Sequence[str], in_registries: Reference | None = None
) -> ZooError:
    """Return the ZooError for a name that was not found. The error lists the searched paths and suggests a name.

    Args:
        kind: A key of `_CREATE_HINTS`.
        name: The name that the user gave.
        searched: The searched paths.
        known: The existing names, for the suggestion.
        in_registries: The reference that was looked up in the registries. None if the registries were not searched.
    """
    further = ""
    if in_registries is not None:
        registries = Registries.configured()
        known, further = [*known, *registries.names()], registries.describe_search(in_registries)
    similar = next((each for each in known if len(name) > 2 and name in each), None) or nearest(name, known)
    paths = ", ".join(f"`{path}`" for path in dict.fromkeys(searched))
    guess = f"did you mean `{similar}`? " if similar else ""
    list_command = f"zoo list{' --published' * (kind == 'published model')}"
    return ZooError(
        f"there is no {kind} `{name}` in any of these places: {paths}{further}",
        hint=f"{guess}run `{list_command}` to list what is on this machine, or `zoo list --available` to list public "
        f"models; {_CREATE_HINTS[kind]}",
    )
