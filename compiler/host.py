"""What this machine can do, where a choice depends on it."""

from __future__ import annotations

import os
from dataclasses import dataclass


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Host:
    """What a program will run on: `device` is cpu or cuda."""

    device: str = "cpu"
