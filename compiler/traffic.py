"""The bytes that a graph reads and writes, before anything runs.

Every operation is taken to read its inputs and parameters from memory and to write its result there: what small
programs are bound by, such as a decoder's step, whose products are too thin to keep a processor busy.
"""

from __future__ import annotations

from compiler.graph import Graph, Node
from compiler.operation import (
    Attention,
    Embed,
    FoldBeams,
    Kernel,
    Kind,
    Position,
    Slice,
    SplitHeads,
    Type,
    UnfoldBeams,
    Write,
)
from compiler.size import Size, product

VIEWS = (Slice, SplitHeads, FoldBeams, UnfoldBeams)
"""What moves nothing: another way to look at the same numbers."""
_FLOAT, _HALF, _INTEGER = 4, 2, 8


def traffic(graph: Graph) -> Size:
    """Bytes that one run of the graph moves, as a polynomial of its sizes; weights count in the type they have."""
    halved = any(parameter.type == "bfloat16" for parameter in graph.parameters.values())
    types, number = graph.types, _HALF if halved else _FLOAT
    return sum((_moved(graph, types, node, number) for node in graph.nodes), Size())


def _moved(graph: Graph, types: dict[str, Type], node: Node, number: int) -> Size:
    given, operation, result = [types[name] for name in node.inputs], node.operation, _bytes(node.type, number)
    if isinstance(operation, VIEWS):
        return Size()
    if isinstance(operation, Embed):  # as many rows of the table as there are tokens
        return _bytes(given[0], number) + 2 * result
    if isinstance(operation, Write):  # in place: one position of the cache
        return 2 * _bytes(given[1], number)
    read = sum((_bytes(type_, number) for type_ in given), Size())
    if isinstance(operation, Position):
        return read + result * (1 + len(node.parameters))
    if isinstance(operation, Attention) and operation.kernel is Kernel.EXPLICIT:
        read += 2 * number * product(given[0].shape[:3]) * given[1].shape[2]  # its weights, written and read
    return read + sum(graph.parameters[name].bytes for name in node.parameters) + result


def _bytes(type_: Type, number: int) -> Size:
    return product(type_.shape) * (_INTEGER if type_.kind is Kind.INTEGER else number)
