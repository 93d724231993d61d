"""The header of a safetensors file: how long it says it is, before a library believes it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from specs import ZooError
from zoo.report import size

MOST = 10_000_000
"""Bytes: a hundred for each tensor and its name, and some for what is known of them, are a few thousand."""


def require_header(stream: BinaryIO, file: Path) -> None:
    """Raises ZooError where the header of an opened file is longer than any of ours."""
    said = int.from_bytes(stream.read(8), "little")
    if said > MOST:
        problem = f"`{file}` is damaged: its header would have {size(said)}, and {size(MOST)} at most"
        raise ZooError(problem, exit_code=1)
