"""Every operation declares everything about itself."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import getmembers, isabstract, isclass

import pytest

from compiler import operations
from compiler.operations.elementwise import BinaryOperation
from compiler.operations.operation import Operation, PlainOperation
from compiler.operations.views import View
from zoo.visualization.page import asset

MODULES = [import_module(f"{operations.__name__}.{m.name}") for m in pkgutil.iter_modules(operations.__path__)]
CLASSES = {each for module in MODULES for _, each in getmembers(module, isclass) if issubclass(each, Operation)}
BASES = {PlainOperation, View, BinaryOperation}
OPERATIONS = sorted((each for each in CLASSES - BASES if not isabstract(each)), key=lambda each: each.__name__)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_declarations(operation: type[Operation]) -> None:
    """It is documented, its code exists, and a drawing has a colour for it."""
    assert operation.__doc__
    assert operation.code or operation.emit is not Operation.emit
    assert operation.caption is None or f".{operation.caption[0]} {{" in asset("graph_drawing.css")
    assert not operation.view or operation.shares_buffer
