"""List the specs that are part of zoo, and find the file of a spec by its name or path."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specs.errors import ZooError, suggest
from specs.notation import quote

FOLDER = Path(__file__).resolve().parent
_SUFFIXES = (".yaml", ".yml")
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class SpecFile:
    """File that contains a spec.

    Attributes:
        path: Absolute path of the file.
        file: Path of the file as it is shown to users, such as "specs/big.yaml".
        short_name: Name of a shipped spec ("big", "table3/a-h1"), or the stem of a user's file.
    """

    path: Path
    file: str
    short_name: str

    @property
    def is_shipped(self) -> bool:
        """Whether the file is part of zoo. False for a file that a user has written."""
        return self.path.is_relative_to(FOLDER)

    def text(self) -> str:
        """Return the text of the file. Raise ZooError if it is unreadable, too large or not UTF-8."""
        try:
            with self.path.open("rb") as stream:
                content = stream.read(_MAX_BYTES + 1)
        except OSError as error:
            problem = f"cannot read `{self.file}`: {error.strerror or error}"
            raise ZooError(
                problem, hint="check the file's permissions, and whether the disk can be read", exit_code=1
            ) from None
        if len(content) > _MAX_BYTES:
            hint = "check that the path is right: a spec file usually has a few thousand bytes"
            raise ZooError(f"`{self.file}` is too large for a spec: more than {_MAX_BYTES:,} bytes", hint=hint)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"{self.file}:{content.count(10, 0, error.start) + 1}"
            problem = f"byte 0x{content[error.start]:02x} is not valid UTF-8"
            raise ZooError(problem, where=where, hint="save the file as UTF-8") from None


@cache
def names() -> tuple[str, ...]:
    """Return the names of all shipped specs, such as "big" and "table3/a-h1". Names without a folder come first."""
    found = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml")]
    return tuple(sorted(found, key=lambda name: (name.count("/"), name)))


def specs_in_folder(reference: str) -> tuple[str, ...]:
    """List the specs in a folder.

    Args:
        reference: Path of a folder, or the name of a folder of shipped specs, such as "table3".

    Returns:
        Paths of the specs, or their names if they are shipped. Empty if `reference` is not a folder.
    """
    if os.path.isdir(reference):
        files = sorted(file for file in os.listdir(reference) if file.endswith(_SUFFIXES))
        return tuple(os.path.normpath(os.path.join(reference, file)) for file in files)
    folder = reference.removeprefix("./").removeprefix("specs/").rstrip("/")
    return tuple(name for name in names() if folder and name.rpartition("/")[0] == folder)


def find(reference: str, *, referrer: str = "", where: str | None = None) -> SpecFile:
    """Find the file of a spec by its path or, if the spec is part of zoo, by its name.

    Args:
        reference: A path that ends in .yaml or .yml, or a name. A name may omit the folder if only one spec has
            this name: "a-h1" stands for "table3/a-h1".
        referrer: Path of the spec that contains the reference in its `extends` field. A relative `reference` is
            relative to the folder of that spec. If empty, it is relative to the current folder.
        where: Location of the reference ("mine.yaml:1"), for error messages.

    Returns:
        The spec file, which is guaranteed to exist.

    Raises:
        ZooError: No file has this path, and no shipped spec has this name.
    """
    is_path, path = reference.endswith(_SUFFIXES), os.path.join(os.path.dirname(referrer), reference)
    if is_path:
        file = os.path.normpath(path)
        if os.path.isfile(file):
            return _source(file, where)
    # Only names that the catalogue lists are opened: a name cannot lead to another file.
    name = reference.removeprefix("./").removeprefix("specs/")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    known = names()
    same_stem = [candidate for candidate in known if candidate.rpartition("/")[2] == name]
    if name in known or len(same_stem) == 1:
        name = name if name in known else same_stem[0]
        return SpecFile(FOLDER / f"{name}.yaml", f"specs/{name}.yaml", name)
    guess = "this path exists, but is not a spec; " if os.path.exists(path) else suggest(name, known)
    if is_path:
        start = "the folder of the file that contains it" if referrer else "the current folder"
        hint = f"{guess}relative paths are relative to {start}; to list the shipped specs, run `zoo list`"
        raise ZooError(f"no such file: {quote(reference)}", where=where, hint=hint)
    inner = os.path.join(path, "spec.yaml")
    if os.path.isfile(inner):
        problem = f"{quote(reference)} is a folder, not a spec file"
        raise ZooError(problem, where=where, hint=f"write {quote(inner)}, the spec in this folder")
    hint = f"{guess}run `zoo list` to list the shipped specs; for a file, write its path, ending in .yaml"
    raise ZooError(f"no spec is named {quote(reference)}", where=where, hint=hint)


def _source(file: str, where: str | None) -> SpecFile:
    path = Path(file).resolve()
    if path.is_relative_to(FOLDER):
        return SpecFile(path, file, path.relative_to(FOLDER).with_suffix("").as_posix())
    stem = Path(file).stem
    if not stem.strip("."):
        hint = "rename the file, for example to `mine.yaml`"
        raise ZooError(f"`{file}` is not a valid name for a spec", where=where, hint=hint)
    return SpecFile(path, file, stem)
