"""`zoo clean`: what may be removed, what that frees, and what stays for a reason; published models always do.

(`zoo remove` is for those.)"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.files import places
from zoo.files.files import remove_folder
from zoo.files.lock import fetching, lock_file
from zoo.files.occupied import occupied
from zoo.files.partial import begun
from zoo.files.use import reserved
from zoo.models import find
from zoo.models.folder import RUNS
from zoo.training.run import Run


@dataclass(frozen=True)
class Removable:
    what: str
    path: Path
    bytes: int
    inode: int | None = None
    """Of a published model's folder: another one that is put there meanwhile stays."""


@dataclass(frozen=True)
class Kept:
    """What was asked for, and stays."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Clearance:
    """`bytes` are free when all is gone; files that have two names count once."""

    removable: tuple[Removable, ...]
    kept: tuple[Kept, ...]
    bytes: int

    def remove(self) -> list[Kept]:
        """Removes what nobody has begun to use since; says what stays therefore."""
        return [kept for each in self.removable if (kept := _removed(each))]


CACHES = ("compiled", "prepared", "archives", "pulls")
"""What is made or fetched again when it is wanted."""


def clearance(wanted: Sequence[str] = ()) -> Clearance:
    """What is to go: the caches without a word, else `runs`, some of the caches, single runs by folder or spec.

    Raises ZooError where a word is neither. `corpus.lock` stays, by which what is fetched again is known.
    """
    candidates = {each[1].absolute(): each for word in wanted or CACHES for each in _candidates(word)}
    removable, kept = [], []
    for what, path in candidates.values():
        if reason := _reason(what, path):
            kept.append(Kept(path, reason))
        else:
            removable.append(Removable(what, path, occupied([path])))
    return Clearance(tuple(removable), tuple(kept), occupied(each.path for each in removable))


_Candidate = tuple[str, Path]


def _candidates(word: str) -> Iterator[_Candidate]:
    if word in _OF:
        yield from _OF[word]()
    else:
        found = find.run(word)
        yield "run", found if found.name not in ("", "..") else found.resolve()


def _within(what: str, folder: Path) -> Iterator[_Candidate]:
    """What stands in a folder of ours, but what is hidden: somebody is still at work on it. A link leads elsewhere."""
    if folder.is_symlink():
        yield what, folder
    elif folder.is_dir():
        yield from ((what, path) for path in sorted(folder.iterdir()) if not path.name.startswith("."))


def _runs() -> Iterator[_Candidate]:
    yield from (("run", folder) for folder in ([RUNS] if RUNS.is_symlink() else find.all_runs()))


_OF: dict[str, Callable[[], Iterator[_Candidate]]] = {
    "compiled": lambda: _within("compiled", places.compiled()),
    "prepared": lambda: _within("prepared", places.prepared()),
    "archives": lambda: (each for each in _within("fetched", places.archives()) if each[1] != lock_file()),
    "pulls": lambda: _within("arrived", places.pulls()),
    "runs": _runs,
}


def _reason(what: str, path: Path) -> str | None:
    """Why it must stay, if it must."""
    if path.is_symlink():
        return "it is a link, and what it leads to is not looked at"
    if what in _NAMES and not _NAMES[what].fullmatch(path.name):
        return "zoo gives nothing such a name"
    if what == "run" and Run(path).published:
        return "it is a published model"
    if what == "run" and (strangers := Run(path).foreign_files()):
        return f"it holds what is not the run's own: {', '.join(strangers)}"
    if what == "fetched" and path.is_dir() and any(begun(each.name) for each in path.rglob(".*")):
        return "something is being taken out of an archive"
    with reserved(_lock(what, path)) as free:
        return None if free else _USED[what]


_USED = {
    "run": "it is being trained",
    "prepared": "a process uses it",
    "fetched": "it is being fetched",
    "compiled": "a process uses it",
    "arrived": "it is being pulled",
    "model": "a process uses it",
}


_NAMES = {
    "compiled": re.compile(r"\w+-[0-9a-f]{24}"),
    "prepared": re.compile(r"[0-9a-f]{16}|(dev|test)-[0-9]+-.+"),
    "fetched": re.compile(r"[0-9a-f]{8}-.+|members"),
    "arrived": re.compile(r".+@[0-9a-f]{64}"),
}
"""Of what is in a cache: its folder may have been there before, with other things in it."""


def _lock(what: str, path: Path) -> Path:
    """What is somebody's while the path is used: itself, or a file that is locked."""
    lock = {"run": Run(path).lock, "fetched": fetching(path), "arrived": fetching(path)}.get(what)
    return lock if lock is not None and lock.exists() else path


def _removed(each: Removable) -> Kept | None:
    """Takes it away; or says why not."""
    try:
        if reason := _reason(each.what, each.path):
            return Kept(each.path, reason)
        if each.what == "model" and each.path.stat().st_ino != each.inode:
            return Kept(each.path, "another one has been put there")
        if each.what == "run":
            Run(each.path).lock.touch()  # for a training that would begin now
        with reserved(_lock(each.what, each.path)) as free:
            if not free:
                return Kept(each.path, _USED[each.what])
            if each.path.is_dir():
                if left := remove_folder(each.path):
                    return Kept(left, "not all of it may be removed by this user")
            else:
                each.path.unlink()
    except FileNotFoundError:  # somebody else was quicker
        pass
    return None
