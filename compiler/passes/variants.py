"""Passes that replace operations one by one: without dropout, with fused kernels, in bfloat16, and in int8."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, prune
from compiler.operations.operation import Node, Operation
from compiler.operations.projection import QuantisedLinear, QuantisedLogits
from compiler.weights import Parameter, Quantised, Rounded, Scales


def drop_dropout(graph: Graph) -> Graph:
    """Remove dropout from all graphs except those for training. In training, remove only dropout with probability 0."""
    nodes: list[Node] = []
    replaced: dict[str, str] = {}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(replaced.get(i, i) for i in node.inputs))
        if not graph.purpose.trains or not node.operation.dropout:
            operation = node.operation.without_dropout()
            if operation is None:
                replaced[node.name] = node.inputs[0]
                continue
            node = replace(node, operation=operation)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)).with_results(replaced)


def choose_attention(graph: Graph) -> Graph:
    """On a GPU, compute dot-product attention without dropout in one fused kernel, not in separate PyTorch calls.

    Fused attention saves memory traffic on a GPU. On a CPU, separate calls are faster for short sentences.
    """
    nodes = (replace(node, operation=node.operation.with_one_kernel(node.parameters)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def bfloat16(graph: Graph) -> Graph:
    """Round all weights to bfloat16. PyTorch code then computes everything before the log-probabilities in bfloat16.

    The weights take half the memory. On many processors, matrix products are several times as fast.
    """
    return replace(graph, parameters={n: Parameter(n, Rounded(p.origin)) for n, p in graph.parameters.items()})


def int8(graph: Graph) -> Graph:
    """Compute all linear maps in int8, with one scale per row of the input and per column of the matrix.

    int8 weights are a quarter of the size of float32 weights, and most processors multiply int8 faster than other
    types. LSTMs and convolutions are not quantised. Embeddings are not quantised either. If the pre-softmax projection
    has the same table as an embedding, it gets a separate int8 copy of the table.
    """
    parameters = dict(graph.parameters)

    def quantise(node: Node) -> Node:
        if not (node.operation.is_projection or node.operation.is_vocabulary_projection):
            return node
        dimension = 1 if node.operation.is_projection else 0
        operation: Operation = QuantisedLinear() if dimension else QuantisedLogits()
        matrix, *bias = node.parameters
        # A matrix that is read both as W and as Wᵀ gets two int8 copies with different scales.
        origin, suffix = graph.parameters[matrix].origin, "" if dimension else "_rows"
        names = (f"{matrix}_int8{suffix}", f"{matrix}_scales{suffix}")
        parameters[names[0]] = Parameter(names[0], Quantised(origin, dimension))
        parameters[names[1]] = Parameter(names[1], Scales(origin, dimension))
        return replace(node, operation=operation, parameters=(*names, *bias))

    nodes = tuple(map(quantise, graph.nodes))
    return prune(replace(graph, nodes=nodes, parameters=parameters))


def int8_dimensions(graph: Graph) -> dict[str, int]:
    """Return the matrices to store in int8, and the dimension of their scales: 0 for one per row, 1 for one per column.

    These are the matrices that the pass `int8` converts, with the same scales, and the embedding tables.
    """
    columns = {node.parameters[0]: 1 for node in graph.nodes if node.operation.is_projection}
    tables = (node for node in graph.nodes if node.operation.is_embedding or node.operation.is_vocabulary_projection)
    return columns | {node.parameters[0]: 0 for node in tables}
