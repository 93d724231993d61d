"""Published models by name and by revision, without a look inside (and without torch)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from specs import ZooError
from zoo.files import manifest, places
from zoo.files.content import content, stands
from zoo.files.files import write_json
from zoo.files.partial import put_back
from zoo.models.origin import digest, origin
from zoo.models.registries.reference import Reference, is_name
from zoo.models.registries.revision import Forward, parsed

_FORWARD = "forward.json"


def names(pattern: str = "*") -> list[str]:
    """The published models whose names match the pattern ("*big*"), in order."""
    return sorted(name for name in _standing() if is_name(name) and fnmatchcase(name, pattern))


def known_names() -> list[str]:
    """The names of which anything stands on the shelf, though it be pinned revisions alone."""
    return sorted({name for name in (folder.partition("@")[0] for folder in _standing()) if is_name(name)})


def place(name: str) -> Path:
    """Where a published model of this name stands, or would; what a killed `zoo publish` put aside is put back.

    Raises ZooError for what is no name ("../x").
    """
    if not is_name(name):
        hint = "a name has letters, digits and - _ . , only, a letter or digit first, and never two dots in a row"
        raise ZooError(f"`{name}` cannot be the name of a model", hint=hint)
    put_back(places.shelf())
    return places.shelf() / name


def pinned_place(name: str, digest: str) -> Path:
    """Where a revision stands that was pulled by its pin, beside the model of this name."""
    return place(name).with_name(f"{name}@{digest[:16]}")


def standing(name: str) -> list[Path]:
    """All that stands on the shelf of a model: what its name alone means, and its pinned revisions."""
    return [place(each) if is_name(each) else places.shelf() / each for each in sorted(_standing()) if _of(each, name)]


def here(wanted: Reference) -> Path | None:
    """The folder on the shelf that is meant, or None where it is not there.

    Raises ZooError where several registries have given another revision of this number.
    """
    found = [folder for folder in standing(wanted.name) if _is_meant(folder, wanted)]
    if len({digest(folder) for folder in found}) > 1:
        several = " and ".join(f"`sha256:{digest(folder)}`" for folder in found)
        hint = f"write `{wanted.name}@sha256:...`, of {several}"
        raise ZooError(f"`{wanted}` is one model in one registry, and another in another: both are here", hint=hint)
    return found[0] if found else None


def _is_meant(folder: Path, wanted: Reference) -> bool:
    if wanted.digest is not None:
        return digest(folder) == wanted.digest
    if wanted.revision is None:
        return folder.name == wanted.name
    known = origin(folder)
    return known is not None and (known.name, known.revision) == (wanted.name, wanted.revision)


def forwarded(name: str) -> str | None:
    """The name that took the place of this one, as it was when a model was last pulled by it."""
    file = forward_file(name)
    return parsed(Forward, content(file), str(file)).to if stands(file) else None


def forward_file(name: str) -> Path:
    """What says on the shelf that a name leads to another, if it does."""
    return place(name) / _FORWARD


def remember_forward(old: str, new: str) -> None:
    """So that the old name leads to what is here without a registry, too."""
    if digest(place(old)) is None and forwarded(old) != new:
        write_json(forward_file(old), Forward(to=new).model_dump())


def _standing() -> list[str]:
    """The folders of bundles."""
    shelf = places.shelf()
    if not shelf.is_dir():
        return []
    put_back(shelf)
    return [folder.name for folder in shelf.iterdir() if stands(folder / manifest.NAME)]


def _of(folder: str, name: str) -> bool:
    own, at, pin = folder.partition("@")
    return own == name and (not at or len(pin) == 16)
