"""Passes that replace operations one by one: without dropout, with fused kernels, in bfloat16, and in int8."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, prune
from compiler.operations.operation import Node
from compiler.options import CompileOptions
from compiler.weights import Parameter, Quantised, Rounded, Scales
from specs import Spec


def drop_dropout(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Remove dropout from all graphs except those for training. In training, remove only dropout with probability 0."""
    return {purpose: _drop(graph) for purpose, graph in graphs.items()}


def _drop(graph: Graph) -> Graph:
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


def choose_attention(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """On a GPU, compute dot-product attention without dropout in one fused kernel, not in separate PyTorch calls.

    Fused attention saves memory traffic on a GPU. On a CPU, separate calls are faster for short sentences.
    """
    if options.device != "cuda":
        return graphs
    return {purpose: replace(graph, nodes=tuple(map(_fused, graph.nodes))) for purpose, graph in graphs.items()}


def _fused(node: Node) -> Node:
    return replace(node, operation=node.operation.fused(has_parameters=bool(node.parameters)))


def bfloat16(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Round all weights to bfloat16. PyTorch code then computes everything before the log-probabilities in bfloat16.

    bfloat16 halves the size of the weights, and many processors multiply it several times as fast as float32.
    """
    if options.precision != "bfloat16":
        return graphs
    return {
        purpose: replace(graph, parameters={n: Parameter(n, Rounded(p.origin)) for n, p in graph.parameters.items()})
        for purpose, graph in graphs.items()
    }


def int8(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Compute all linear maps in int8, with one scale per row of the input and per column of the matrix.

    int8 weights are a quarter of the size of float32 weights, and most processors multiply int8 faster than other
    types. LSTMs and convolutions are not quantised. Embeddings are not quantised either. If the pre-softmax projection
    has the same table as an embedding, it gets a separate int8 copy of the table.
    """
    if options.precision != "int8":
        return graphs
    return {purpose: _quantise(graph) for purpose, graph in graphs.items()}


def _quantise(graph: Graph) -> Graph:
    parameters = dict(graph.parameters)

    def quantise(node: Node) -> Node:
        variant = node.operation.quantised()
        if variant is None:
            return node
        operation, dimension = variant
        matrix, *bias = node.parameters
        # A matrix that is read both as W and as Wᵀ gets two int8 copies with different scales.
        origin, suffix = graph.parameters[matrix].origin, "" if dimension else "_rows"
        names = (f"{matrix}_int8{suffix}", f"{matrix}_scales{suffix}")
        parameters[names[0]] = Parameter(names[0], Quantised(origin, dimension))
        parameters[names[1]] = Parameter(names[1], Scales(origin, dimension))
        return replace(node, operation=operation, parameters=(*names, *bias))

    nodes = tuple(map(quantise, graph.nodes))
    return prune(replace(graph, nodes=nodes, parameters=parameters))
