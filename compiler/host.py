"""What this machine can do, where a choice depends on it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpuinfo() -> dict[str, str]:
    """What Linux tells of the first core; nothing where there is nobody to tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def cpp_compiler() -> str | None:
    """The C++ compiler, or None."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
