"""`zoo remove`: published models go from the shelf; what registries have stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zoo.files import manifest
from zoo.files.content import stands
from zoo.files.occupied import occupied
from zoo.models import names
from zoo.models.find import unpublished
from zoo.models.origin import digest
from zoo.models.registries.reference import Reference, reference
from zoo.publishing.clearance import Clearance, Removable


def removal(wanted: Sequence[str]) -> Clearance:
    """What is to go: of a name all that stands there, its pinned revisions and that it leads to another, too.

    Of a pinned one that alone.

    Raises ZooError where one is not on the shelf.
    """
    folders = list(dict.fromkeys(folder for name in wanted for folder in _folders(name)))
    removable = tuple(Removable("model", each, occupied([each]), each.stat().st_ino) for each in folders)
    return Clearance(removable, (), occupied(folders))


def _folders(name: str) -> list[Path]:
    known = reference(name)
    if known is None:
        raise unpublished(name)
    if known.pinned:
        found = _pinned(known)
    else:
        forward = names.forward_file(known.name)
        found = [*names.standing(known.name), *([forward.parent] if stands(forward) else ())]
    if not found:
        raise unpublished(name)
    return found


def _pinned(known: Reference) -> list[Path]:
    """Where its pin put it, if that is there, and not what its name alone means and may be the same."""
    one = names.here(known)
    own = None if one is None else names.pinned_place(known.name, digest(one) or "")
    return [] if one is None or own is None else [own if stands(own / manifest.NAME) else one]
