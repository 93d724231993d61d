"""The folders that contain zoo's data, and the disk space that files need."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_data_dir

from specs import ZooError
from zoo.report import sizes


def home() -> Path:
    """Return the data folder: `ZOO_HOME` if it is set, otherwise the user's data folder. It may not exist yet.

    Raises:
        ZooError: The path is not valid (see `require_valid_path`).
    """
    configured = os.environ.get("ZOO_HOME")
    folder = Path(os.path.expanduser(configured or user_data_dir("zoo", appauthor=False))).absolute()
    require_valid_path(folder)
    return folder


def models() -> Path:
    """Return the folder of the local model store. It has one subfolder per published model."""
    return home() / "models"


def pulls() -> Path:
    """Return the folder for partly downloaded models. It has one subfolder per model, named after its digest."""
    return home() / "pulls"


def registries() -> Path:
    """Return the path of the text file with the addresses of the user's model registries, one per line."""
    return home() / "registries.txt"


def archives() -> Path:
    """Return the folder for downloaded archives and their extracted members.

    It also contains `corpus.lock`, the file that records the SHA-256 of each download.
    """
    return home() / "archives"


def prepared() -> Path:
    """Return the folder for prepared corpora. It has one subfolder per corpus, named after the corpus fingerprint."""
    return home() / "prepared"


def synthetic() -> Path:
    """Return the folder for synthetic training texts. It has one subfolder per text, named after the text's digest."""
    return home() / "synthetic"


def compiled() -> Path:
    """Return the cache folder for compiled code and packed weights. It may be removed at any time."""
    return home() / "compiled"


class Cache(NamedTuple):
    """Folder with files that zoo recreates when they are needed."""

    folder: Callable[[], Path]
    contents: str
    """Description of the entries, such as "prepared corpora"."""
    name_pattern: str
    """Regular expression for the names of zoo's entries. Other programs may have written entries with other names."""
    is_extracted: bool = False
    """Whether zoo extracts archives in the folders of the cache."""


CACHES = {
    "compiled": Cache(compiled, "compiled programs", r"(\w+|packed-.+)-[0-9a-f]{24}"),
    "prepared": Cache(prepared, "prepared corpora", r"[0-9a-f]{16}|(dev|test)-[0-9]+-.+|digits-.+"),
    "archives": Cache(archives, "downloaded archives", r"[0-9a-f]{8}-.+|members", is_extracted=True),
    "pulls": Cache(pulls, "incomplete pulls", r".+@([0-9a-f]{64}|catalogue)"),
    "synthetic": Cache(synthetic, "synthetic text", r"[0-9a-f]{16}(\.partial)?"),
}
"""Caches, keyed by the names that `zoo clean` accepts."""


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Check that the disk has enough free space.

    Args:
        folder: A folder on the disk. It may not exist yet.
        needed: The number of bytes that will be written.
        purpose: What needs the space, such as "the bundle". The error message begins with it.

    Raises:
        ZooError: Fewer than `needed` bytes are free.
    """
    if (free := free_bytes(folder)) < needed:
        needed_text, free_text = sizes(needed, free)
        problem = f"{purpose} needs {needed_text} in `{folder}`, but only {free_text} are free"
        raise ZooError(problem, hint=free_space_hint(folder), exit_code=1)


def free_space_hint(path: Path) -> str:
    """Return the hint for a full disk, which depends on whether `path` is in the data folder."""
    other = "set ZOO_HOME to a folder on" if path.absolute().is_relative_to(home()) else "write to"
    return f"free some space there, or {other} another disk"


def free_bytes(folder: Path) -> int:
    """Return the free space in bytes on the disk that contains a folder. The folder may not exist yet."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def require_valid_path(path: Path) -> None:
    """Check that models can be stored at a path, which may not exist yet.

    Raises:
        ZooError: The path is too long for the file system, contains a NUL character, or is not valid UTF-8. The
            libraries for reading and writing models require UTF-8.
    """
    reason = None
    try:
        str(path.absolute()).encode()
        path.lstat()
    except UnicodeEncodeError:
        reason = "is not valid UTF-8"
    except ValueError:
        reason = "contains a NUL character"
    except OSError as error:
        reason = "is too long" if error.errno == errno.ENAMETOOLONG else None
    if reason:
        raise ZooError(f"models cannot be stored in `{path.absolute()}`: its path {reason}", hint="use another folder")


def folder_bytes(*paths: Path) -> int:
    """Return the total size in bytes of the given files, and of all files in the given folders.

    Symbolic links are not followed. A file with several hard links counts once.
    """
    found = {}
    for path in paths:
        inside = [os.path.join(parent, name) for parent, _, names in os.walk(path) for name in names]
        for file in inside or [str(path)]:
            with suppress(OSError):  # another process removed it
                state = os.lstat(file)
                if stat.S_ISREG(state.st_mode):
                    found[state.st_dev, state.st_ino] = state.st_size
    return sum(found.values())
