"""What a batch that is too large for the memory looks like, and what is said where it cannot be split."""

from __future__ import annotations

import torch

from specs import ZooError
from zoo.decoding.sentences import shown
from zoo.decoding.source import Source

FAILURES = (MemoryError, RuntimeError)
"""What may be raised; not every RuntimeError is one of memory (`is_short`)."""

_SAID = ("not enough memory", "can't allocate memory", "out of memory")


def is_short(error: BaseException) -> bool:
    """Whether there was too little memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID)


def too_long(source: Source) -> ZooError:
    """One sentence does not fit, and a sentence cannot be split."""
    return ZooError(
        f"there is not enough memory to translate sentence {source.index + 1:,} alone: {shown(source.text)}, "
        f"{len(source.pieces) - 1:,} pieces",
        hint="split it, take a smaller beam, or end other programs",
        exit_code=1,
    )
