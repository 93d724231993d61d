"""Every operation declares everything about itself."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import getmembers, isabstract, isclass

import numpy as np
import pytest
import torch

from compiler import operations
from compiler.lowering.features import SubsampledLength
from compiler.operations import elementwise, views
from compiler.operations.convolution import ClearPadding
from compiler.operations.elementwise import BinaryOperation
from compiler.operations.operation import Operation, PlainOperation
from compiler.operations.probability import LogSoftmax
from compiler.operations.views import View

MODULES = [import_module(f"{operations.__name__}.{m.name}") for m in pkgutil.iter_modules(operations.__path__)]
CLASSES = {each for module in MODULES for _, each in getmembers(module, isclass) if issubclass(each, Operation)}
BASES = {PlainOperation, View, BinaryOperation}
OPERATIONS = sorted((each for each in CLASSES - BASES if not isabstract(each)), key=lambda each: each.__name__)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_declarations(operation: type[Operation]) -> None:
    """It is documented, and its code exists."""
    assert operation.__doc__
    assert operation.code or operation.emit is not Operation.emit
    assert not operation.view or operation.shares_buffer


A, B = np.random.default_rng(0).normal(size=(2, 6, 2, 8))
HEADS, MASK, LENGTHS = A.reshape(3, 2, 4, 4), np.array([True, False] * 6).reshape(6, 1, 1, 2), np.arange(20)
PLAIN = [
    (elementwise.Add(), [A, B], np.add(A, B)),
    (elementwise.Multiply(), [A, B], np.multiply(A, B)),
    (elementwise.Scale(0.5), [A], A / 2),
    (views.SplitHeads(4), [A], np.stack([A[..., i : i + 2] for i in range(0, 8, 2)], 1)),
    (views.MergeHeads(), [HEADS], np.concatenate([HEADS[:, 0], HEADS[:, 1]], -1)),
    (views.BeamsToRows(), [HEADS], np.concatenate(list(HEADS))),
    (views.RowsToQueries(), [A, HEADS], np.stack([np.concatenate(A[i : i + 2]) for i in range(0, 6, 2)])),
    (views.QueriesToRows(), [A, HEADS], np.stack([row.reshape(4, 8) for row in np.split(A.reshape(12, 8), 3)])),
    (views.Concat(), [A, B], np.stack([*np.moveaxis(A, -1, 0), *np.moveaxis(B, -1, 0)], -1)),
    (views.AppendToCache(), [A, B], np.stack([*np.moveaxis(A, 1, 0), *np.moveaxis(B, 1, 0)], 1)),
    (ClearPadding(), [A, MASK], np.stack([A[:, 0] * 0, A[:, 1]], 1)),
    (SubsampledLength(3), [LENGTHS], [-(-n // 3) for n in LENGTHS]),
    (LogSoftmax(), [A], A - np.log(np.exp(A).sum(-1, keepdims=True))),
]


@pytest.mark.parametrize(("operation", "inputs", "expected"), PLAIN)
def test_plain_operations(operation: PlainOperation, inputs: list[np.ndarray], expected: np.ndarray) -> None:
    """The interpreter evaluates the code that is emitted, so NumPy checks these operations."""
    result = operation.interpret([torch.from_numpy(each) for each in inputs], [])
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_all_plain_operations_are_checked() -> None:
    plain = {each for each in OPERATIONS if issubclass(each, PlainOperation) and "interpret" not in vars(each)}
    assert {each for each in plain if "code" in vars(each)} == {type(each) for each, *_ in PLAIN} - {SubsampledLength}
