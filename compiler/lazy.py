"""Modules that are imported when one of their names is first used.

Importing torch takes about a second, and the native backend translates without it. A module that `zoo decode` imports
must therefore import torch from here:

    from compiler.lazy import torch
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class LazyModule(ModuleType):
    """Stand-in for a module that has not been imported yet. It is not in `sys.modules`."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that the next access is as fast as in a real module
        return value


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")


def no_grad(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function to run under `torch.no_grad()`. The first call imports torch."""

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with torch.no_grad():
            return function(*args, **kwargs)

    return call
