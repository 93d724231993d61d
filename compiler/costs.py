"""Costs of a graph, before anything runs: parameters, FLOPs, bytes in memory and memory traffic.

FLOPs are those of matrix products only; a multiply-add counts as two, as in torch's FlopCounterMode.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.graph import Graph
from compiler.operations.operation import FLOAT_BYTES
from compiler.size import Size


@dataclass(frozen=True)
class Cost:
    """Costs of a graph or of one of its layers.

    Costs that depend on the batch are polynomials. Bytes are those of float32 numbers, except for weights.
    """

    parameters: int
    weight_bytes: int
    """Bytes of the weights, in their data type in the graph."""
    flops: Size
    activation_bytes: Size
    """Bytes of all results except views. This approximates the memory that training needs for the backward pass."""
    cache_bytes: Size
    """Bytes of the state that one decoder step passes to the next."""


def cost(graph: Graph, layer: str | None = None) -> Cost:
    """Return the costs of a graph.

    Args:
        graph: The graph.
        layer: Count only this layer, such as "encoder.0", or "" for everything outside of layers. None: count all.
    """
    types = graph.types
    flops, activations, cache, names = Size(), Size(), Size(), set[str]()
    for node in graph.nodes:
        if layer not in (None, node.layer):
            continue
        names.update(node.parameters)
        arguments = [types[i] for i in node.inputs], graph.shapes(node)
        flops += node.operation.matmul_flops(*arguments)
        activations += FLOAT_BYTES * node.operation.saved_elements(*arguments)
        if not node.operation.view and node.operation.overwrites is None:
            activations += node.type.bytes()
    for name in graph.states:
        if layer in (None, name.rpartition(".")[0]):
            cache += types[name].bytes()
    weights = [graph.parameters[name] for name in names]
    return Cost(sum(w.count for w in weights), sum(w.bytes for w in weights), flops, activations, cache)


def layers(graph: Graph) -> list[str]:
    """Return the names of the layers in order, including "" for nodes outside of layers."""
    return list(dict.fromkeys(node.layer for node in graph.nodes))


def memory_traffic(graph: Graph) -> Size:
    """Return how many bytes one run of a graph reads from memory and writes to it.

    Each operation reads its inputs and parameters from memory and writes its result there. In small programs, such as a
    decoder step, this traffic limits the speed, because matrix products with few rows do not keep a processor busy.
    """
    half = any(parameter.type == "bfloat16" for parameter in graph.parameters.values())
    types, float_bytes = graph.types, FLOAT_BYTES // 2 if half else FLOAT_BYTES
    total = Size()
    for node in graph.nodes:
        weight_bytes = Size.of(sum(graph.parameters[name].bytes for name in node.parameters))
        inputs = [types[name] for name in node.inputs]
        total += node.operation.memory_traffic(inputs, node.type, weight_bytes, float_bytes)
    return total
