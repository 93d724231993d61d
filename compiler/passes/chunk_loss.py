"""Logits are the largest thing in training: tokens by 37,000. Computed a chunk at a time they never exist whole."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, prune
from compiler.operations.probability import ChunkedLoss, Loss
from compiler.operations.projection import Logits
from compiler.operations.views import Slice
from compiler.terms import Terms
from specs import Spec


def chunk_loss(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Makes one operation of the pre-softmax projection and the loss, which runs through the positions in chunks."""
    if Purpose.TRAIN not in graphs:
        return graphs
    return {**graphs, Purpose.TRAIN: _chunked(graphs[Purpose.TRAIN])}


def _chunked(graph: Graph) -> Graph:
    made = {node.name: node for node in graph.nodes}

    def chunked(node: Node) -> Node:
        if not isinstance(node.operation, Loss):
            return node
        logits, classes = made.get(node.inputs[0]), graph.types[node.inputs[0]].shape[-1].constant
        if logits and logits.operation == Slice(-1, 0, classes):  # the vocabulary was padded
            logits = made.get(logits.inputs[0])
        if logits is None or not isinstance(logits.operation, Logits):
            return node
        operation = ChunkedLoss(node.operation.smoothing, node.operation.wrong_classes, classes)
        inputs = (logits.inputs[0], node.inputs[1])
        return replace(node, operation=operation, inputs=inputs, parameters=logits.parameters)

    return prune(replace(graph, nodes=tuple(map(chunked, graph.nodes))))
