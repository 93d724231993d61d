"""All that is known of an operation stands in its class: none lacks a part of it."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import getmembers, isabstract, isclass

import pytest

from compiler import drawing, operations
from compiler.operations.operation import Operation

OPERATIONS = sorted(
    {
        each
        for module in pkgutil.iter_modules(operations.__path__)
        for _, each in getmembers(import_module(f"{operations.__name__}.{module.name}"), isclass)
        if issubclass(each, Operation) and not isabstract(each)
    },
    key=lambda each: each.__name__,
)


def test_they_are_found() -> None:
    assert {"Attention", "ChunkedLoss", "QuantisedLogits", "UnwrittenMask"} < {each.__name__ for each in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_its_code_calls_is_there_and_is_called(operation: type[Operation]) -> None:
    source = [operation.code, *operation.emit.__code__.co_consts]
    for call in operation.calls:
        module, _, name = call.rpartition(".")
        assert callable(getattr(import_module(module), name))
        assert any(f"{name}(" in text for text in source if isinstance(text, str)), f"{operation} never calls {name}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_says_what_it_is_and_a_drawing_has_its_colour(operation: type[Operation]) -> None:
    assert operation.__doc__
    assert operation.code or operation.emit is not Operation.emit
    assert operation.caption is None or operation.caption[0] in drawing._COLOURS
    assert not operation.view or operation.alias  # what is a view elsewhere takes no place in the native machine
