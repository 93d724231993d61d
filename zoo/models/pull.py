"""From a registry to the shelf: a revision's files arrive one by one, are held to their hashes, and appear together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from specs import ZooError
from zoo.files import manifest, places
from zoo.files.content import stands
from zoo.files.files import explained, require_space, sha256, share, writing_folder
from zoo.files.lock import alone
from zoo.files.partial import remove
from zoo.files.transfer import discard
from zoo.models import names
from zoo.models.origin import FILE as ORIGIN
from zoo.models.origin import digest, of, origin
from zoo.models.registries.listed import registries, unasked
from zoo.models.registries.reference import Reference
from zoo.models.registries.registry import Registry, blob_path
from zoo.models.registries.revision import File, Revision
from zoo.report import Report

_HOPS = 10


class Found(NamedTuple):
    """A revision, and where it is published."""

    registry: Registry
    revision: Revision


def pull(wanted: Reference, report: Report) -> Path | None:
    """The newest revision of a name, or the pinned one, on the shelf; None where no registry has it.

    A pinned one stands beside what the name alone means. One that is here already is held to its hashes: what is not
    whole is fetched anew. What has arrived when a pull ends early stays, and the next goes on from there; processes
    that ask at once wait for the one that fetches. Raises ZooError where a registry that may have it cannot be reached,
    where what came is not what was published, where a model that was made here would be replaced, and where the disk is
    full.
    """
    found = published(wanted, report)
    if found is None:
        return None
    revision = found.revision
    place = names.place(revision.name)
    if wanted.pinned and digest(place) != revision.digest:
        place = names.pinned_place(revision.name, revision.digest)
    _require_free(place, found)
    _bring(found, place, report)
    if revision.name != wanted.name:
        names.remember_forward(wanted.name, revision.name)
    return place


def published(wanted: Reference, report: Report) -> Found | None:
    """What is referred to, in the first registry that has it; a name that leads to another is followed, with a warning.

    Where one cannot be reached the next is asked, and it is warned of. Raises ZooError where then none has it.
    """
    failed: list[ZooError] = []
    for registry in registries():
        try:
            revision = _followed(registry, wanted, report)
        except ZooError as error:
            failed.append(error)
            continue
        if revision is not None:
            for each in failed:
                report.warn(each.summary)
            return Found(registry, revision)
    if failed:
        raise failed[0]
    return None


def looked(wanted: Reference) -> str:
    """Where a model was looked for beside the shelf, and what is there in its place, for an error."""
    asked = [f", in `{registry.address}`{_instead(registry, wanted)}" for registry in registries()]
    return "".join([*asked, *(f", and not in `{address}`: ZOO_OFFLINE forbids it" for address in unasked())])


def _instead(registry: Registry, wanted: Reference) -> str:
    with suppress(ZooError):
        if (absent := registry.absent()) is not None:
            return f", which {absent}"
        if wanted.pinned and (newest := registry.newest(wanted.name)) is not None:
            several = f"revisions 1 to {newest.revision}" if newest.revision > 1 else "revision 1"
            return f", which has {several} of `{wanted.name}`"
    return ""


def there() -> list[str]:
    """The names that registries list, as far as they can be reached: one of them may have been meant."""
    found = []
    for registry in registries():
        with suppress(ZooError):
            found += [entry.name for entry in registry.entries(lambda _: None)]
    return found


def _followed(registry: Registry, wanted: Reference, report: Report) -> Revision | None:
    seen = wanted
    for _ in range(_HOPS):
        new = None if seen.pinned else registry.forward(seen.name)
        if new is None:
            return registry.find(seen)
        report.warn(f"`{seen.name}` is called `{new}` now: write that name")
        seen = Reference(new)
    raise ZooError(f"`{registry.address}` leads `{wanted.name}` from one name to the next without end", exit_code=1)


def _require_free(place: Path, found: Found) -> None:
    """Raises ZooError where a model stands that was made here: it would be lost."""
    there = digest(place)
    if there is None or there == found.revision.digest or stands(place / ORIGIN):
        return
    raise ZooError(
        f"`{place}` was published here, and is no revision that `{found.registry.address}` has given",
        hint=f"`zoo remove {place.name}` makes room for it; `zoo pull {found.revision.pin}` puts it beside that one",
    )


def _bring(found: Found, place: Path, report: Report) -> None:
    revision, address = found.revision, found.registry.address
    folder = places.pulls() / f"{revision.name}@{revision.digest}"
    with explained(folder), alone(folder, report):
        if not _is_here(place, revision, report):
            report.info(f"`{revision.pin}` from `{address}`")
            folder.mkdir(parents=True, exist_ok=True)
            lacking = {
                name: file
                for name, file in revision.files.items()
                if not _taken_over(revision.name, folder / name, file)
            }
            arrived = sum(each.stat().st_size for name in lacking if (each := _partial(folder / name)).exists())
            require_space(folder, sum(file.bytes for file in lacking.values()) - arrived, f"`{revision.pin}`")
            for name, file in lacking.items():
                _arrive(found, folder / name, file, report)
            _require_whole(folder, revision)
            with writing_folder(place) as partial:
                for name in revision.files:
                    share(folder / name, partial / name)
                of(revision, address).write(partial)
                _require_free(place, found)  # somebody may have published meanwhile
        else:
            report.info(f"`{revision.pin}` of `{address}` is here already, and whole")
            if origin(place) is None:
                of(revision, address).write(place)
        remove(folder)


def _is_here(place: Path, revision: Revision, report: Report) -> bool:
    """Whether all of it stands there as it was published; what is damaged is warned of."""
    if digest(place) != revision.digest:
        return False
    try:
        manifest.check(place)
    except ZooError as error:
        report.warn(f"{error.summary}; it is fetched anew")
        return False
    return True


def _taken_over(model: str, path: Path, file: File) -> bool:
    """Whether a file is at `path` with the content that it must have, be it from another revision on the shelf."""
    if path.exists() and _is(path, file):
        return True
    path.unlink(missing_ok=True)
    for other in _alike(model, path.name, file):
        share(other, path)
        if _is(path, file):
            return True
        path.unlink()
    return False


def _arrive(found: Found, path: Path, file: File, report: Report) -> None:
    """Fetches a file to `path`, where it has the content that it must have."""
    partial = _partial(path)
    again = partial.exists()
    found.registry.fetch(file.sha256, partial, file.bytes, report)
    if again and not _is(partial, file):
        discard(partial)
        report.warn(f"what had arrived of `{path.name}` does not go on as `{found.registry.address}` does: once more")
        found.registry.fetch(file.sha256, partial, file.bytes, report)
    if not _is(partial, file):
        discard(partial)
        problem = f"`{found.registry.address}` is damaged: what it has of `{path.name}` is not what was published"
        hint = f"remove `{blob_path(file.sha256)}` there, and publish `{found.revision.name}` again; or pull another"
        raise ZooError(problem, hint=hint, exit_code=1)
    os.replace(partial, path)
    discard(partial)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _alike(name: str, file_name: str, file: File) -> Iterator[Path]:
    """Files of other revisions on the shelf that should have the same content."""
    for folder in names.standing(name):
        try:
            entry = manifest.read(folder).entries.get(file_name)
        except ZooError:
            continue
        place = folder / file_name
        same = entry is not None and (entry.sha256, entry.bytes) == (file.sha256, file.bytes)
        if same and stands(place) and not place.is_symlink():
            yield place


def _require_whole(folder: Path, revision: Revision) -> None:
    """Raises ZooError where the manifest lists other files than the revision."""
    listed = {name: (entry.sha256, entry.bytes) for name, entry in manifest.read(folder).entries.items()}
    given = {name: (file.sha256, file.bytes) for name, file in revision.files.items() if name != manifest.NAME}
    if listed != given:
        raise ZooError(f"`{revision.pin}` is damaged: its manifest lists other files than it has", exit_code=1)


def _is(path: Path, file: File) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes and sha256(path) == file.sha256
