"""The bytes that a graph reads and writes, before anything runs.

Every operation is taken to read its inputs and parameters from memory and to write its result there: what small
programs are bound by, such as a decoder's step, whose products are too thin to keep a processor busy.
"""

from __future__ import annotations

from compiler.graph import Graph
from compiler.operations.operation import FLOAT_BYTES
from compiler.size import Size


def traffic(graph: Graph) -> Size:
    """Bytes that one run of the graph moves, as a polynomial of its sizes; weights count in the type they have."""
    halved = any(parameter.type == "bfloat16" for parameter in graph.parameters.values())
    types, of_a_float = graph.types, FLOAT_BYTES // 2 if halved else FLOAT_BYTES
    moved = Size()
    for node in graph.nodes:
        weights = Size.of(sum(graph.parameters[name].bytes for name in node.parameters))
        given = [types[name] for name in node.inputs]
        moved += node.operation.moved(given, node.type, weights, of_a_float)
    return moved
