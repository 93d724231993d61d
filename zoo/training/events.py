"""The figures of `log.jsonl` as TensorBoard reads them, where tensorboardX is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    from tensorboardX import SummaryWriter
except ImportError:
    SummaryWriter = None

_NO_CURVE = {"step", "seconds"}


class Events:
    """Writes the figures of a run into a folder. What a stopped run wrote of steps that are done again is left out."""

    def __init__(self, folder: Path, step: int) -> None:
        # Files are called by the second: one that goes on within the same second must not take the other's name.
        suffix = f".{step:07d}"
        self._writer = (
            SummaryWriter(str(folder), purge_step=step + 1, filename_suffix=suffix) if SummaryWriter else None
        )

    def add(self, line: Mapping[str, Any]) -> None:
        """A line of `log.jsonl`."""
        if self._writer is None:
            return
        for name, value in line.items():
            if name not in _NO_CURVE and value is not None:
                self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
