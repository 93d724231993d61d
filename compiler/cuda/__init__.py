"""Triton kernels for GPUs, and the functions that run them in training updates and beam search steps.

`tests/compiler/kernels_in_pytorch.py` implements most of these functions in plain PyTorch. Each module is imported when
one of its names is first used, because Triton is optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.lazy import LazyModule

__all__ = ["attention", "losses", "norms", "products", "recurrence", "search"]

if TYPE_CHECKING:
    from compiler.cuda import attention, losses, norms, products, recurrence, search
else:
    attention, losses, norms, products, recurrence, search = (LazyModule(f"{__name__}.{name}") for name in __all__)
