"""The folders in which zoo keeps its data, and the disk space that files take."""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_dir

from specs import ZooError
from zoo.report import sizes

_BLOCK_BYTES = 512  # the unit of st_blocks
FREE_SPACE_HINT = "free some space there, or set ZOO_HOME to a folder on another disk"


def home() -> Path:
    """Return the data folder: `ZOO_HOME` if it is set, otherwise the user's data folder. It may not exist yet.

    Raises:
        ZooError: The path is not valid UTF-8.
    """
    configured = os.environ.get("ZOO_HOME")
    folder = Path(os.path.expanduser(configured)).absolute() if configured else _default_home()
    require_utf8(folder)
    return folder


def _default_home() -> Path:
    return Path(user_data_dir("zoo", appauthor=False))


def models() -> Path:
    """Return the local model store: one folder per published model."""
    return home() / "models"


def pulls() -> Path:
    """Return the folder for partly downloaded models: one folder per model, named by its digest."""
    return home() / "pulls"


def registries() -> Path:
    """Return the path of the user's list of registries, which has one address per line."""
    return home() / "registries.txt"


def archives() -> Path:
    """Return the folder for downloaded archives, their extracted members and `corpus.lock`."""
    return home() / "archives"


def prepared() -> Path:
    """Return the folder for prepared corpora: one folder per corpus, named by its fingerprint."""
    return home() / "prepared"


def compiled() -> Path:
    """Return the folder that caches compiled artefacts. It may be removed at any time."""
    return home() / "compiled"


def timings() -> Path:
    """Return the folder that caches how fast specs ran on this processor."""
    return home() / "timings"


def verified() -> Path:
    """Return the folder that caches digests of large files."""
    return home() / "verified"


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Check that the disk has enough free space.

    Args:
        folder: A folder on the disk. It may not exist yet.
        needed: The number of bytes that will be written.
        purpose: What the space is for, as the error message names it.

    Raises:
        ZooError: Fewer than `needed` bytes are free.
    """
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        needed_text, free_text = sizes(needed, free)
        problem = f"{purpose} needs {needed_text} in `{folder}`, but only {free_text} are free"
        raise ZooError(problem, hint=FREE_SPACE_HINT, exit_code=1)


def require_utf8(path: Path) -> None:
    """Check that a path is valid UTF-8, which the libraries that read and write models need.

    Raises:
        ZooError: The path is not valid UTF-8.
    """
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        problem = f"the path `{path.absolute()}` is not valid UTF-8, so models cannot be stored there"
        raise ZooError(problem, hint="rename the folder, or use another one") from None


def reclaimable_bytes(paths: Iterable[Path]) -> int:
    """Return the disk space in bytes that becomes free when these paths are removed, folders included.

    Symbolic links are counted but not followed. A file with several hard links counts only if all of its links are in
    these paths.

    Args:
        paths: Files and folders, none of them inside another.
    """
    total, links, files = 0, Counter[tuple[int, int]](), dict[tuple[int, int], os.stat_result]()
    for path in paths:
        for state in _walk(path):
            if stat.S_ISDIR(state.st_mode):
                total += _BLOCK_BYTES * state.st_blocks
            else:
                key = (state.st_dev, state.st_ino)
                links[key] += 1
                files[key] = state
    return total + sum(_BLOCK_BYTES * state.st_blocks for key, state in files.items() if links[key] == state.st_nlink)


def _walk(path: Path) -> Iterator[os.stat_result]:
    """Yield the `lstat` result of a path and of everything in it. Skip files that another process removes meanwhile."""
    try:
        state = path.lstat()
        children = sorted(path.iterdir()) if stat.S_ISDIR(state.st_mode) else []
    except FileNotFoundError:
        return
    yield state
    for child in children:
        yield from _walk(child)


def folder_bytes(folder: Path) -> int:
    """Return the size in bytes of the regular files in a folder. Links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # another process removed it
                state = os.lstat(os.path.join(parent, name))
                total += state.st_size if stat.S_ISREG(state.st_mode) else 0
    return total
