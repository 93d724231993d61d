"""`zoo publish --to`: from the shelf to a registry, where others pull it from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import compiler
from specs import ZooError
from zoo.files import manifest, places
from zoo.files.content import stands
from zoo.files.files import share
from zoo.files.partial import beside, remove, sweep
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.models.origin import digest, of, origin
from zoo.models.registries import publishing
from zoo.models.registries.reference import is_name
from zoo.models.registries.registry import Registry, forward_path, registry
from zoo.models.registries.revision import Entry, Revision, Summary, is_file_name
from zoo.publishing.inventory import scored
from zoo.publishing.verify import FILES, verify
from zoo.report import Report
from zoo.version import __version__
from zoo.visualization.index import Listed, index_page


def is_bundle(reference: str) -> bool:
    """Whether a published model is meant; where a run could be, too, that is."""
    try:
        find.run(reference)
    except ZooError:
        return find.on_shelf(reference) is not None
    return False


def upload(
    model: str | os.PathLike[str], to: str, *, formerly: str | None = None, report: Report | None = None
) -> Revision:
    """Publishes a bundle of the shelf (or in a folder) to a registry, and returns the revision that it is there.

    It is verified first: a bundle without proof, or one that is not what its manifest and its proof say, is refused.
    From then on `formerly`, an old name, leads to it. Raises ZooError where there is no such bundle, and where the
    registry cannot be written to.
    """
    report, place = report or Report(), destination(to, formerly)
    publishing.writable(place)
    folder = find.on_shelf(model, report)
    if folder is None:
        raise find.unpublished(model)
    with _snapshot(folder) as bundle:
        name = ModelFolder(bundle).spec.name
        if name == formerly:
            raise ZooError(f"`{formerly}` would lead to itself", hint="`--formerly` is the name that it had before")
        if (new := place.forward(name)) is not None:
            problem = f"`{name}` leads to `{new}` in `{to}`: who asks for it would not get this model"
            hint = f"whoever keeps that registry removes its `{forward_path(name)}`; a run can have another name there"
            raise ZooError(problem, hint=f"{hint} (`zoo publish RUN --name NAME`)")
        verify(bundle, report=report)
        found = publishing.publish(place, name, bundle, _summary(bundle), report)
    known = origin(folder)
    ours = digest(folder) == found.digest and folder.parent == places.shelf()
    if ours and (known is None or known.registry == place.address):  # what came from elsewhere keeps its number
        try:
            of(found, place.address).write(folder)
        except ZooError as error:  # it is published, and the rest has to follow
            report.warn(f"{error.summary}; this shelf does not say that it is `{found.pin}`")
    if formerly is not None:
        publishing.forward(place, formerly, name)
        report.info(f"`{formerly}`{_pinned(place, formerly)} leads to `{name}` now")
    publishing.write_index(place, _page, report)
    return found


def _pinned(place: Registry, name: str) -> str:
    """What becomes of the revisions of a name that leads to another; nothing is said where they cannot be read."""
    newest = None
    with suppress(ZooError):
        newest = place.newest(name)
    if newest is None:
        return ""
    several = f"{newest.revision} revisions" if newest.revision > 1 else "1 revision"
    return f" (its {several} can still be pinned)"


def destination(to: str, formerly: str | None = None) -> Registry:
    """The registry at an address, before anything is done for it: nothing is asked there yet.

    Raises ZooError where it is no address, where nothing can be written to such a place, and where `formerly` is no
    name.
    """
    place = registry(to)
    publishing.require_writable(place)
    if formerly is not None and not is_name(formerly):
        raise ZooError(f"`{formerly}` cannot be the name of a model", hint="`--formerly` is a model's old name")
    return place


@contextmanager
def _snapshot(folder: Path) -> Iterator[Path]:
    """The bundle's files as they are now, and nothing else; who publishes there meanwhile does not change them."""
    places.pulls().mkdir(parents=True, exist_ok=True)
    sweep(places.pulls())
    place = beside(places.pulls() / folder.name)
    remove(place)
    place.mkdir()
    try:
        for name in sorted({*manifest.read(folder).entries, *FILES, manifest.NAME}):
            if not is_file_name(name):
                problem = f"`{folder}` has a file `{name}`, which no registry holds"
                raise ZooError(problem, hint="names of files are letters, digits, - and _, with a suffix")
            if not stands(folder / name):
                raise ZooError(f"`{folder / name}` is missing", hint="publish its run again", exit_code=1)
            share(folder / name, place / name)
        yield place
    finally:
        remove(place)


def _summary(bundle: Path) -> Summary:
    of_model = ModelFolder(bundle)
    spec = of_model.spec
    score = scored(spec, of_model.known_scores)
    return Summary(
        task=spec.task.kind,
        source=spec.corpus.source,
        target=spec.corpus.target,
        parameters=compiler.parameters(spec),
        metric=score["metric"],
        dev=score["dev"],
        test=score["test"],
        description=spec.description,
        licence=spec.licence or "",
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        zoo=__version__,
    )


def _page(models: Sequence[Entry]) -> str:
    """The registry's `index.html`."""
    return index_page([_listed(model) for model in models])


def _listed(model: Entry) -> Listed:
    of = model.summary
    languages = (of.source, of.target) if of.task == "translation" else (of.source,)
    return Listed(
        *(model.name, model.revision, model.digest, of.task, languages, of.parameters, of.metric),
        *(of.dev, of.test, of.description, of.licence, of.published, of.zoo),
    )
