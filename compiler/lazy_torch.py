"""torch, imported when one of its names is first used.

Importing torch takes about a second, and the native backend translates without it. A module on the way of `zoo decode`
therefore imports torch in this way:

    if TYPE_CHECKING:
        import torch
    else:
        from compiler.lazy_torch import torch
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that the next access is as fast as that of a real module
        return value


torch = _LazyModule("torch")
