"""Modules that are imported when one of their names is first used.

Importing torch takes about a second, and the native backend translates without torch. A module that `zoo decode`
imports must therefore import torch from here:

    from compiler.lazy import torch
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """Placeholder for a module. The module is imported when an attribute of the placeholder is first used.

    The placeholder is not in `sys.modules`.
    """

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that the next access is as fast as in a real module
        return value


if TYPE_CHECKING:
    import torch as torch

    from compiler import decoder as decoder
else:
    torch, decoder = LazyModule("torch"), LazyModule("compiler.decoder")


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without gradients, as in `torch.no_grad()`.

    The decorator `@no_grad()` imports torch only when the decorated function is called.
    """
    with torch.no_grad():
        yield
