"""Files that cannot be opened, such as those of another user."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock


def unreadable(path: Path, error: OSError) -> AbstractContextManager[object]:
    """Let `os.open` raise an error for one path."""
    original, absolute = os.open, path.absolute()

    def failing_open(opened: Any, *options: Any, **named: Any) -> int:
        if Path(os.fsdecode(opened)).absolute() == absolute:
            raise error
        return original(opened, *options, **named)

    return mock.patch.object(os, "open", failing_open)
