"""Passes for the pre-softmax projection, whose table and logits are the largest tensors of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.graph import Graph, Graphs, prune, unique_name
from compiler.operations.operation import Node, ValueType
from compiler.operations.probability import ChunkedCrossEntropy, CrossEntropy
from compiler.operations.views import Slice
from compiler.weights import Padded, Parameter

_MULTIPLE = 8


def pad_vocabulary(graphs: Graphs) -> Graphs:
    """Pad the table and bias of the pre-softmax projection to a multiple of 8 rows.

    Matrix products are fastest if their dimensions are multiples of the hardware's tile size. Most vocabulary
    sizes are not such multiples.
    """
    padded: dict[str, Parameter] = {}
    for graph in graphs.values():
        for node in graph.nodes:
            if node.operation.is_vocabulary_projection:
                for name in node.parameters:
                    origin = graph.parameters[name].origin
                    if missing := -origin.shape[0] % _MULTIPLE:
                        padded[name] = Parameter(name, Padded(origin, origin.shape[0] + missing))
    return {purpose: _pad(graph, padded) for purpose, graph in graphs.items()}


def _pad(graph: Graph, padded: Mapping[str, Parameter]) -> Graph:
    """Return the graph with padded tables and biases. A slice removes the logits of the padding.

    Args:
        graph: The graph to change.
        padded: The padded parameters, keyed by name. All graphs share them.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.operation.is_vocabulary_projection and node.parameters[0] in padded:
            rows, size = padded[node.parameters[0]].shape[0], node.type.shape[-1].constant
            name = unique_name(f"padded_{node.name}", graph.types)
            nodes.append(replace(node, name=name, type=ValueType((*node.type.shape[:-1], rows))))
            node = replace(node, operation=Slice(-1, 0, size), inputs=(name,), parameters=())
        nodes.append(node)
    parameters = {name: padded.get(name, parameter) for name, parameter in graph.parameters.items()}
    return replace(graph, nodes=tuple(nodes), parameters=parameters)


def chunk_loss(graph: Graph) -> Graph:
    """Merge the pre-softmax projection and the loss into one operation that works on chunks of positions.

    The logits are the largest tensor in training: for example, 37,000 numbers for each target token in a batch.
    Computing the logits in chunks avoids storing all of them.
    """
    nodes = tuple(join_loss(graph, node, ChunkedCrossEntropy) for node in graph.nodes)
    return prune(replace(graph, nodes=nodes))


def join_loss(graph: Graph, node: Node, joined: type[ChunkedCrossEntropy]) -> Node:
    """Merge a cross entropy with the pre-softmax projection that it reads. Return any other node unchanged.

    Args:
        graph: The graph that contains the node.
        node: A node, such as a cross entropy.
        joined: The class of the merged operation. Its result is the same as the result of `CrossEntropy`.
    """
    loss, logits = node.operation, graph.by_name.get(node.inputs[0])
    if not isinstance(loss, CrossEntropy) or logits is None:
        return node
    classes = logits.type.shape[-1].constant
    if logits.operation.sliced_range() == (-1, 0, classes):
        logits = graph.by_name.get(logits.inputs[0])  # the slice removes the padding of the vocabulary
    if logits is None or not logits.operation.is_vocabulary_projection:
        return node
    operation = joined(loss.smoothing, loss.wrong_classes, classes)
    return replace(node, operation=operation, inputs=(logits.inputs[0], node.inputs[1]), parameters=logits.parameters)
