"""Properties of the machine that the process runs on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpuinfo() -> dict[str, str]:
    """Return the fields of the first processor in Linux's /proc/cpuinfo, by name. Empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def may_have_gpu() -> bool:
    """Return whether a driver for GPUs is present. This function does not need torch."""
    return any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))


def cpp_compiler() -> str | None:
    """Return the path of the C++ compiler, or None if none is installed."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
