"""What a lack of memory looks like, whoever lacks it."""

from __future__ import annotations

import torch

FAILURES = (MemoryError, RuntimeError)
"""What may be raised; not every RuntimeError is one of memory (`is_short`)."""

_SAID = ("not enough memory", "can't allocate memory", "out of memory")


def is_short(error: BaseException) -> bool:
    """Whether there was too little memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID)
