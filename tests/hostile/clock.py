"""Time as a case has it: what it waited for a processor that others had is not its own."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path


class Clock:
    """From now on, of a process."""

    def __init__(self, process: int | str = "self") -> None:
        self._file = Path(f"/proc/{process}/schedstat")
        self._start, self._before = time.monotonic(), self._hindered()

    def seconds(self) -> float:
        """Since the beginning, but for waits for a processor; all of it where the system does not tell of them."""
        return time.monotonic() - self._start - (self._hindered() - self._before)

    def _hindered(self) -> float:
        with suppress(OSError, ValueError, IndexError):
            return int(self._file.read_text().split()[1]) / 1e9
        return 0.0
