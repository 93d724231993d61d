"""What files and folders take on the disk."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_BLOCK = 512  # bytes, of st_blocks


def occupied(paths: Iterable[Path]) -> int:
    """The bytes that are free once these paths, none inside another, are removed: on the disk, folders counted.

    A link is counted itself, and never followed; a file of several names counts where all of them are among the paths.
    """
    total, names, taken = 0, Counter[tuple[int, int]](), dict[tuple[int, int], os.stat_result]()
    for path in paths:
        for state in _states(path):
            if stat.S_ISDIR(state.st_mode):
                total += _BLOCK * state.st_blocks
            else:
                file = (state.st_dev, state.st_ino)
                names[file] += 1
                taken[file] = state
    return total + sum(_BLOCK * state.st_blocks for file, state in taken.items() if names[file] == state.st_nlink)


def _states(path: Path) -> Iterator[os.stat_result]:
    try:
        state = path.lstat()
        inside = sorted(path.iterdir()) if stat.S_ISDIR(state.st_mode) else []
    except FileNotFoundError:  # somebody else was quicker
        return
    yield state
    for each in inside:
        yield from _states(each)


def folder_bytes(folder: Path) -> int:
    """Of the files in it, links not followed; another process may be taking some of them away."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                state = os.lstat(os.path.join(parent, name))
                total += state.st_size if stat.S_ISREG(state.st_mode) else 0
    return total
