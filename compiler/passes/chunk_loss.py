"""The logits are the largest tensor of training: the tokens of a batch times a vocabulary of, for example, 37,000.

Computing them in chunks avoids storing all of them.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, prune
from compiler.options import CompileOptions
from specs import Spec


def chunk_loss(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Merge the pre-softmax projection and the loss into one operation that works on chunks of positions."""
    if Purpose.TRAIN not in graphs:
        return graphs
    return {**graphs, Purpose.TRAIN: _chunk(graphs[Purpose.TRAIN])}


def _chunk(graph: Graph) -> Graph:
    by_name = {node.name: node for node in graph.nodes}

    def chunk(node: Node) -> Node:
        classes = graph.types[node.inputs[0]].shape[-1]
        loss, logits = node.operation.chunked(classes), by_name.get(node.inputs[0])
        if loss is None:
            return node
        if logits and logits.operation.sliced_range() == (-1, 0, classes.constant):
            logits = by_name.get(logits.inputs[0])  # the slice removes the padding of the vocabulary
        if logits is None or not logits.operation.is_vocabulary_projection:
            return node
        return replace(node, operation=loss, inputs=(logits.inputs[0], node.inputs[1]), parameters=logits.parameters)

    return prune(replace(graph, nodes=tuple(map(chunk, graph.nodes))))
