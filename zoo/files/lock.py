"""`corpus.lock`: what was fetched from each address the first time, so that later it must be the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from specs import ZooError
from zoo.files import places
from zoo.files.files import read_json, write_json
from zoo.report import Report

try:
    import fcntl
except ImportError:  # not on Windows: two processes must not fetch the same file at once there
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Entry:
    """A file as it was fetched."""

    sha256: str
    bytes: int


def lock_file() -> Path:
    """Where the entries are."""
    return places.archives() / "corpus.lock"


def recorded(url: str) -> Entry | None:
    """What was fetched from `url`, if anything. Raises ZooError where the lock is damaged."""
    return _entries().get(url)


def record(url: str, entry: Entry) -> None:
    """Notes what was fetched from `url`; what others note meanwhile is not lost."""
    if recorded(url) == entry:
        return
    with alone(lock_file()):
        entries = {**_entries(), url: entry}
        write_json(lock_file(), {url: asdict(entries[url]) for url in sorted(entries)})


@contextmanager
def alone(path: Path, report: Report | None = None) -> Iterator[None]:
    """While it lasts, no other process is in here with the same path, whose wait `report` hears of.

    Raises ZooError where its folder is read only.
    """
    with _locked(path) as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if report:
                    report.info(f"waiting for another process that fetches {path.name}")
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:  # a file system without locks
                pass
        yield


def _locked(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _lock_of(path).open("w")
    except OSError as error:
        problem = f"`{path.parent}` cannot be written: {error.strerror or error}"
        raise ZooError(problem, hint="the variable ZOO_HOME names another folder", exit_code=1) from error


def fetching(path: Path) -> Path | None:
    """The file that is locked while `path`, or what has arrived of it (`.partial`), is fetched; None before it was."""
    lock = _lock_of(path.with_name(path.name.removesuffix(".json").removesuffix(".partial")))
    return lock if lock.exists() else None


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _entries() -> dict[str, Entry]:
    path = lock_file()
    if not path.exists():
        return {}
    try:
        return {url: Entry(str(entry["sha256"]), int(entry["bytes"])) for url, entry in read_json(path).items()}
    except (KeyError, TypeError, ValueError):
        hint = "remove it: the next fetch of each archive records it anew"
        raise ZooError(f"`{path}` is damaged", hint=hint, exit_code=1) from None
