"""A process that is forked has none of OpenMP's threads, and would wait for them for ever."""

from __future__ import annotations

import os

import torch


def _alone() -> None:
    """In the child: torch computes on the one thread that there is."""
    torch.set_num_threads(1)


def survive() -> None:
    """From now on a child of this process computes on one thread."""
    if hasattr(os, "register_at_fork") and not _KNOWN:
        _KNOWN.append(os.getpid())
        os.register_at_fork(after_in_child=_alone)


_KNOWN: list[int] = []
"""Who has asked for it: what is registered cannot be taken back."""
