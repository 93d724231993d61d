"""The shipped specs by name, and where a reference leads: a name of the catalogue or a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specs.errors import ZooError, nearest
from specs.notation import shown

FOLDER = Path(__file__).resolve().parent
_SUFFIXES = (".yaml", ".yml")
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Source:
    """A spec's file: where it lies, how errors call it, and the short name of the spec in it."""

    path: Path
    file: str
    short: str

    @property
    def shipped(self) -> bool:
        """Whether it is one of the catalogue's."""
        return self.path.is_relative_to(FOLDER)

    def text(self) -> str:
        """What is written in the file. Raises ZooError where it cannot be read or is not UTF-8."""
        try:
            content = file_content(self.path, self.file)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ZooError(f"`{self.file}` cannot be read: {reason}", exit_code=1) from None
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"{self.file}:{content.count(10, 0, error.start) + 1}"
            problem = f"byte 0x{content[error.start]:02x} is not UTF-8"
            raise ZooError(problem, where=where, hint="save the file as UTF-8") from None


def file_content(path: Path, file: str) -> bytes:
    """All that is in a spec's file. Raises OSError, and ZooError where it is larger than a spec could be."""
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        hint = "a spec has a few thousand bytes: is this another file?"
        raise ZooError(f"`{file}` has more than {_MOST_BYTES:,} bytes", hint=hint)
    return content


def names() -> tuple[str, ...]:
    """Short names of all shipped specs: those at the top first, then folder by folder."""
    found = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml")]
    return tuple(sorted(found, key=lambda name: (name.count("/"), name)))


def within(reference: str) -> tuple[str, ...]:
    """References to the specs in a folder: one at that path, else one of the catalogue; none where it is no folder."""
    if os.path.isdir(reference):
        files = sorted(file for file in os.listdir(reference) if file.endswith(_SUFFIXES))
        return tuple(os.path.normpath(os.path.join(reference, file)) for file in files)
    folder = reference.removeprefix("./").removeprefix("specs/").rstrip("/")
    return tuple(name for name in names() if folder and name.rpartition("/")[0] == folder)


def find(reference: str, *, beside: str = "", where: str | None = None) -> Source:
    """The file that `reference` names: a file at that path, else a spec of the catalogue.

    A relative path starts from the folder of the file `beside` (the current folder if empty); `where` is the
    place the reference was written. Raises ZooError where there is neither.
    """
    if reference.endswith(_SUFFIXES):
        file = os.path.normpath(os.path.join(os.path.dirname(beside), reference))
        if os.path.isfile(file):
            return _file(file, where)
    # The catalogue is asked for a name it has; nothing that a name could spell leads anywhere else.
    name = reference.removeprefix("./").removeprefix("specs/")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    known = names()
    if (called := _called(name, known)) is not None:
        name = called
        return Source(FOLDER / f"{name}.yaml", f"specs/{name}.yaml", name)
    near = nearest(name, known)
    guess = "" if near is None else f"did you mean `{near}`? "
    if reference.endswith(_SUFFIXES):
        hint = f"{guess}a path starts from {'the file it is written in' if beside else 'the current folder'}; "
        raise ZooError(
            f"there is no file {shown(reference)}",
            where=where,
            hint=f"{hint}`zoo list` shows the shipped specs",
        )
    inside = os.path.join(os.path.dirname(beside), reference, "spec.yaml")
    if os.path.isfile(inside):
        raise ZooError(f"{shown(reference)} is a folder", where=where, hint=f"its spec is {shown(inside)}")
    own = "a file, such as a model's spec.yaml, is named by its path"
    hint = f"{guess}`zoo list` shows the shipped specs; {own}"
    raise ZooError(f"there is no spec {shown(reference)}", where=where, hint=hint)


def _called(name: str, known: Sequence[str]) -> str | None:
    """The spec of this name, else the only one in any folder that is called so."""
    if name in known:
        return name
    inside = [each for each in known if each.rpartition("/")[2] == name]
    return inside[0] if len(inside) == 1 else None


def _file(file: str, where: str | None) -> Source:
    path = Path(file).resolve()
    if path.is_relative_to(FOLDER):
        return Source(path, file, path.relative_to(FOLDER).with_suffix("").as_posix())
    short = Path(file).stem
    if not short.strip("."):
        raise ZooError(f"`{file}` is no name for a spec's file", where=where, hint="call it `mine.yaml`, for example")
    return Source(path, file, short)
