"""What Python opened: an ear that hears of every file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_heard: list[str] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        _heard.append(os.fsdecode(arguments[0]))


sys.addaudithook(_hear)


def begin() -> None:
    """From now on."""
    _heard.clear()


def was_opened(path: Path) -> bool:
    """Whether it was, by whatever name."""
    return os.path.realpath(path) in {os.path.realpath(each) for each in _heard if "\0" not in each}
