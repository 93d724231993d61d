"""A file of the user's own to write to: where he said, and as what stands there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from specs import ZooError
from zoo.files.files import explained, writing

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
_LINKS = 40  # the system follows no more


@contextmanager
def output(path: Path) -> Iterator[TextIO]:
    """UTF-8 text into `path`.

    A file takes its place whole, at the end, or what was there stays. Links are followed, and stay. What is no file (a
    device, a FIFO, a descriptor such as /dev/stdout or /dev/fd/63) is written to as it stands. Raises ZooError where
    it cannot be; no folder is made.
    """
    with explained(path):
        straight = _straight(path)
        if straight is not None:
            with open(straight, "w", encoding="utf-8", newline="\n") as stream:
                yield stream
            return
        place = path.resolve()
    if not place.parent.is_dir():
        problem = (
            f"`{path}` cannot be written: there is no folder `{place.parent if path.is_symlink() else path.parent}`"
        )
        raise ZooError(problem, hint="make it first, or write elsewhere")
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    with writing(place, mode) as partial, partial.open("w", encoding="utf-8", newline="\n") as stream:
        if mode is not None:
            partial.chmod(mode)  # before anything is in it
        yield stream


def require_svg(path: Path) -> None:
    """Raises ZooError unless the name of a file that a drawing goes to ends in .svg."""
    if path.suffix.lower() != ".svg":
        raise ZooError(f"`{path}` does not end in .svg", hint=f"the drawing is SVG: call it `{path.stem}.svg`")


def require_html(path: Path) -> None:
    """Raises ZooError unless the name of a file that a page goes to ends in .html."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ZooError(f"`{path}` does not end in .html", hint=f"the page is HTML: call it `{path.stem}.html`")


def check_apart(written: Path | int, read: Iterable[Path | int]) -> None:
    """Raises ZooError where a file is written to that is read; each is a path or an open descriptor."""
    for other in read:
        if _same_file(written, other):
            named = next((f"`{each}`" for each in (written, other) if isinstance(each, Path)), "one file")
            raise ZooError(f"{named} would be read and written at once", hint="write to another file")


def _straight(path: Path) -> Path | int | None:
    """What is to be opened itself; None for a file, and for what is not there."""
    descriptor = _descriptor(path)
    if descriptor is not None:
        try:
            return os.dup(descriptor)  # opened by its name, a file would begin anew
        except OSError as error:  # none that is open
            raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise ZooError(f"`{path}` cannot be written: it is a folder", hint="name a file")
    return None if stat.S_ISREG(mode) else path


def _descriptor(path: Path) -> int | None:
    """The open descriptor that a path is a name of."""
    folders = {Path(folder).resolve() for folder in _DESCRIPTORS}
    for _ in range(_LINKS):
        if path.name.isdecimal() and path.parent.resolve() in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _same_file(one: Path | int, other: Path | int) -> bool:
    try:
        first, second = os.stat(one), os.stat(other)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)
