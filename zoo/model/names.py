"""The names of published models, without a look inside (and without torch)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from specs import ZooError
from specs.spec import Name
from zoo.storage import manifest, places
from zoo.storage.content import stands
from zoo.storage.partial import put_back

_NAME = TypeAdapter(Name)


def names(pattern: str = "*") -> list[str]:
    """The published models whose names match the pattern ("*big*"), in order."""
    shelf = places.shelf()
    if not shelf.is_dir():
        return []
    put_back(shelf)
    found = (folder.name for folder in shelf.iterdir() if stands(folder / manifest.NAME))
    return sorted(name for name in found if is_name(name) and fnmatchcase(name, pattern))


def is_name(text: str) -> bool:
    """Whether a model may be called so: as the `name` of a spec, which leads out of no folder."""
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def place(name: str) -> Path:
    """Where a published model of this name stands, or would; what a killed `zoo publish` put aside is put back.

    Raises ZooError for what is no name ("../x").
    """
    if not is_name(name):
        hint = "a name has letters, digits and - _ . , only, a letter or digit first, and never two dots in a row"
        raise ZooError(f"`{name}` cannot be the name of a model", hint=hint)
    put_back(places.shelf())
    return places.shelf() / name
