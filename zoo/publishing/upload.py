"""Publish a bundle to a registry, from which others can pull it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specs import ZooError
from zoo.files import manifest, storage
from zoo.files.atomic import link_or_copy, temporary_path
from zoo.files.reading import file_exists
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.models.local_store import Origin, bundle_digest, read_origin
from zoo.models.registries.registry import Registry, alias_path, open_registry
from zoo.models.registries.revision import Revision, is_file_name, is_name
from zoo.publishing.inventory import summarize
from zoo.publishing.publish import REQUIRED_FILES, verify
from zoo.report import Report
from zoo.visualization.registry_page import registry_page


def is_published_model(reference: str) -> bool:
    """Return whether a reference names a published model on this machine, and not a run."""
    try:
        find.run(reference)
    except ZooError:
        return find.local_model(reference) is not None
    return False


def upload(
    model: str | os.PathLike[str], to: str, *, alias: str | None = None, report: Report | None = None
) -> Revision:
    """Publish a bundle to a registry. The bundle is verified first.

    Args:
        model: Name of a model in the local model store, or the folder of a bundle.
        to: Address of the registry.
        alias: Old name of a renamed model. In the registry, it becomes an alias of the new name.
        report: Receives progress and warnings.

    Returns:
        The revision that the bundle has in the registry.

    Raises:
        ZooError: There is no such bundle, it does not pass the verification, or the registry cannot be written to.
    """
    report, registry = report or Report(), require_registry(to, alias)
    if "://" not in to and not os.path.exists(to):
        report.info(f"creating a new registry in the folder `{os.path.abspath(to)}`")
    registry.require_writable()
    folder = find.local_model(model, report)
    if folder is None:
        raise find.not_published_error(model)
    with _snapshot(folder) as bundle:
        name = ModelFolder(bundle).spec.name
        _require_usable_name(registry, name, alias)
        verify(bundle, report=report)
        revision = registry.publish(name, bundle, summarize(bundle), report)
    _record_origin(folder, revision, registry, report)
    if alias is not None:
        registry.create_alias(alias, name)
        report.info(f"`{alias}` is now an alias of `{name}`; `{alias}@NUMBER` still loads its own revisions")
    registry.write_index(registry_page, report)
    return revision


def require_registry(address: str, alias: str | None = None) -> Registry:
    """Return the registry at an address, if a model can be published there. Do not connect to it yet.

    Raises:
        ZooError: The address is not valid, that kind of registry is read-only, or `alias` is not a valid name.
    """
    registry = open_registry(address)
    registry.require_writable_kind()
    if alias is not None and not is_name(alias):
        raise ZooError(
            f"`{alias}` is not a valid model name", hint="an alias is an old name of the model, such as `my-model`"
        )
    return registry


def _require_usable_name(registry: Registry, name: str, alias: str | None) -> None:
    """Raise ZooError if a model's name is already an alias in the registry, or would become an alias of itself."""
    if name == alias:
        raise ZooError(f"`{alias}` would become an alias of itself", hint="give the old name of the model as the alias")
    if (new := registry.alias(name)) is not None:
        problem = (
            f"`{name}` is an alias of `{new}` in `{registry.address}`, so nobody could pull this model by its name"
        )
        hint = (
            f"publish it under another name (`zoo publish RUN --name NAME`), or ask the registry's owner to remove "
            f"`{alias_path(name)}`"
        )
        raise ZooError(problem, hint=hint)


def _record_origin(folder: Path, revision: Revision, registry: Registry, report: Report) -> None:
    """Record in the local model store which revision of the registry a bundle is.

    Do nothing if the bundle was pulled from another registry, or is not in the local model store.
    """
    origin = read_origin(folder)
    is_in_store = bundle_digest(folder) == revision.digest and folder.parent == storage.models()
    if is_in_store and (origin is None or origin.registry == registry.address):
        try:
            Origin.of(revision, registry.address).write(folder)
        except ZooError as error:  # the model is published, so the alias and the index must still be written
            report.warn(f"{error.summary}; the local model store does not record that the model is `{revision.pin}`")


@contextmanager
def _snapshot(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder with a copy of a bundle's files, which does not change if the bundle is replaced."""
    with temporary_path(storage.pulls() / folder.name) as snapshot:
        snapshot.mkdir()
        for name in sorted({*manifest.read(folder).entries, *REQUIRED_FILES, manifest.NAME}):
            if not is_file_name(name):
                problem = f"`{folder}` has a file `{name}`, a name that registries do not accept"
                raise ZooError(problem, hint="use letters, digits, - and _, then an extension such as .txt")
            if not file_exists(folder / name):
                raise ZooError(f"`{folder / name}` is missing", hint="publish the run of this model again", exit_code=1)
            link_or_copy(folder / name, snapshot / name)
        yield snapshot
