"""Triton kernels for GPUs. Each module is imported when it is first used, because Triton is optional."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.cuda import attention, losses, norms, products, recurrence, search

__all__ = ["attention", "losses", "norms", "products", "recurrence", "search"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module: ModuleType = import_module(f"compiler.cuda.{name}")
    return module
