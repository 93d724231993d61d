"""Every operation declares everything about itself."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import getmembers, isabstract, isclass

import pytest

from compiler import operations
from compiler.operations.attention import Attention, RestrictedAttention
from compiler.operations.elementwise import Dropout, Relu
from compiler.operations.mask import UnwrittenMask
from compiler.operations.operation import Operation
from compiler.operations.probability import ChunkedCrossEntropy, CrossEntropy
from compiler.operations.projection import Embedding, Linear, Logits, QuantisedLinear, QuantisedLogits
from compiler.operations.views import AppendToCache, Slice, WriteToCache
from compiler.size import BATCH, Size
from zoo.visualization.page import asset

OPERATIONS = sorted(
    {
        each
        for module in pkgutil.iter_modules(operations.__path__)
        for _, each in getmembers(import_module(f"{operations.__name__}.{module.name}"), isclass)
        if issubclass(each, Operation) and not isabstract(each)
    },
    key=lambda each: each.__name__,
)


def test_all_operations_are_found() -> None:
    names = {each.__name__ for each in OPERATIONS}
    assert {"Attention", "ChunkedCrossEntropy", "QuantisedLogits", "UnwrittenMask"} < names


@pytest.mark.parametrize("operation", OPERATIONS)
def test_declarations(operation: type[Operation]) -> None:
    """It is documented, its code exists and calls what it declares, and a drawing has a colour for it."""
    assert operation.__doc__
    assert operation.code or operation.emit is not Operation.emit
    assert operation.caption is None or f".{operation.caption[0]} {{" in asset("graph_drawing.css")
    assert not operation.view or operation.shares_buffer
    for call in operation.calls:
        module, _, name = call.rpartition(".")
        assert callable(getattr(import_module(module), name))


def test_variants_for_passes() -> None:
    attention = Attention(0.5, 0.1)
    restricted = RestrictedAttention(3, True, 0.5, 0.1)
    assert (attention.dropout, restricted.dropout, Dropout(0.3).dropout, Relu().dropout) == (0.1, 0.1, 0.3, 0.0)
    assert attention.without_dropout() == Attention(0.5)
    assert restricted.without_dropout() == RestrictedAttention(3, True, 0.5)
    assert Dropout(0.3).without_dropout() is None
    assert attention.has_scale
    assert restricted.has_scale
    assert Embedding(4.0).has_scale
    assert Attention(0.5).fused(has_parameters=False) == Attention(0.5, one_kernel=True)
    assert Attention(0.5).fused(has_parameters=True) == Attention(0.5)
    assert attention.fused(has_parameters=False) == attention
    assert AppendToCache().for_planned_cache() == WriteToCache()
    assert UnwrittenMask().for_planned_cache() == UnwrittenMask(planned=True)
    assert Linear().quantised() == (QuantisedLinear(), 1)
    assert Logits().quantised() == (QuantisedLogits(), 0)
    assert QuantisedLinear().quantised() is QuantisedLogits().quantised() is None
    assert CrossEntropy(0.1, True).chunked(Size.of(9)) == ChunkedCrossEntropy(0.1, True, 9)
    assert Slice(2, 1, 3).sliced_range() == (2, 1, 3)
    relu = Relu()
    assert relu.without_dropout() is relu.fused(False) is relu.for_planned_cache() is relu
    assert not relu.has_scale
    assert relu.quantised() is relu.chunked(BATCH) is relu.sliced_range() is None
