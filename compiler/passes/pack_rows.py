"""Pass for training on packed rows: all sentences of a batch are concatenated in one row of constant length.

Therefore all training steps have the same shapes, and a GPU can run each step as one CUDA graph. Only attention,
recurrence and positions depend on where a sentence begins. All other operations compute each position separately.
Dropout gets its masks from a seed. The operations after a matrix product are fused into one operation, which one kernel
computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from compiler.graph import Graph, infer_types, prune
from compiler.instruction import Unsupported
from compiler.lowering.norm import LayerNorm
from compiler.lowering.positions import PositionalEncoding
from compiler.operations.attention import Attention, HeadColumns
from compiler.operations.elementwise import Add, Dropout, Relu
from compiler.operations.gpu import (
    LinearRelu,
    PackedAttention,
    PackedPositions,
    PackedSsru,
    ResidualNorm,
    SeededDropout,
    WholeCrossEntropy,
)
from compiler.operations.operation import MaskRole, Node, ValueKind, ValueType
from compiler.operations.recurrence import Ssru
from compiler.operations.views import MergeHeads, SplitHeads
from compiler.passes.vocabulary import join_loss
from compiler.size import BATCH, SOURCE, TARGET, Size

MAX_HEAD_WIDTH = 128
"""The largest d_k and d_v for which the kernels of packed attention have been compiled and tested."""
PACKED_INPUTS: Mapping[str, ValueType] = {
    **dict.fromkeys(("source", "source_position"), ValueType((BATCH, SOURCE), ValueKind.INTEGER)),
    **dict.fromkeys(("source_spans", "reader_spans"), ValueType((Size.of(2), SOURCE), ValueKind.INTEGER)),
    **dict.fromkeys(("target", "labels", "target_position"), ValueType((BATCH, TARGET), ValueKind.INTEGER)),
    **dict.fromkeys(("target_spans", "memory_spans"), ValueType((Size.of(2), TARGET), ValueKind.INTEGER)),
}
"""Inputs of a graph for packed rows. For each token, they contain its position, the span of its sentence, and the span
of the sentence's source or target. A span is the index of a sentence's first token, and the index after its last token.
"""


def pack_rows(graph: Graph) -> Graph:
    """Rewrite the training graph to use packed rows of constant length, so that each update can be one CUDA graph."""
    return fuse_kernels(pack(graph))


def pack(graph: Graph) -> Graph:
    """Replace attention, SSRUs and positional encodings with operations on packed rows."""
    if "source" not in graph.inputs:
        raise Unsupported("the model has no encoder")
    if graph.inputs["source"].kind is not ValueKind.INTEGER:
        raise Unsupported("the model's source is not text")
    graph = replace(graph, inputs={**graph.inputs, **PACKED_INPUTS})
    nodes = []
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, MergeHeads):
            node = _packed_attention(graph, node)
        elif isinstance(operation, PositionalEncoding):
            position = "source_position" if node.type.shape[1] == SOURCE else "target_position"
            packed = operation if node.parameters else PackedPositions(operation.halves, operation.first)
            node = replace(node, operation=packed, inputs=(node.inputs[0], position))
        elif operation == Ssru() and node.type.shape[1] == TARGET:  # in the encoder, one of two SSRUs runs backwards
            node = replace(node, operation=PackedSsru(), inputs=(*node.inputs, "target_spans"))
        nodes.append(node)
    packed_graph = prune(replace(graph, nodes=tuple(nodes)))
    for node in packed_graph.nodes:
        operation = node.operation
        if operation.receptive_field() is not None or operation.mask_role is not None or operation.depends_on_batch:
            raise Unsupported(f"the model uses {type(node.operation).__name__}, which the GPU kernels do not support")
    return packed_graph


def _packed_attention(graph: Graph, merged: Node) -> Node:
    """Fuse an attention node and the node that merges its heads into one operation."""
    node = graph.by_name[merged.inputs[0]]
    attention = plain_attention(node)
    query, key, value, mask = (graph.by_name[name] for name in node.inputs)
    if mask.operation.mask_role not in (MaskRole.PADDING, MaskRole.CAUSAL):
        raise Unsupported(f"the attention uses {type(mask.operation).__name__}, which the GPU kernels do not support")
    (q, q_column), (kv, k_column), (v, v_column) = (columns(graph, each) for each in (query, key, value))
    heads = head_columns(query.type, value.type, q_column, k_column, v_column)
    q_width, kv_width = heads.count * heads.d_k, heads.kv_count * (heads.d_k + heads.d_v)
    widths = [graph.types[name].shape[-1].constant for name in (q, kv)]
    # The kernels of the backward pass write the gradients of all columns of these two values.
    if kv != v or widths != ([q_width + kv_width] * 2 if q == kv else [q_width, kv_width]):
        raise Unsupported("queries, keys and values are computed separately: enable the `fuse_projections` pass")
    spans = {
        (SOURCE, SOURCE): ("source_spans", "source_spans"),
        (TARGET, TARGET): ("target_spans", "target_spans"),
        (TARGET, SOURCE): ("memory_spans", "reader_spans"),
    }[query.type.shape[2], key.type.shape[2]]
    packed = PackedAttention(heads, attention.scale, mask.operation.mask_role is MaskRole.CAUSAL)
    return replace(merged, operation=packed, inputs=(q, kv, *spans))


def plain_attention(node: Node) -> Attention:
    """Return a node's attention operation. Raise Unsupported unless it is dot-product attention with one mask.

    The GPU kernels support no other kind of attention.
    """
    operation = node.operation
    if not isinstance(operation, Attention):
        raise Unsupported(f"the model uses {type(operation).__name__}, which the GPU kernels do not support")
    if operation.dropout or operation.biased or node.parameters or len(node.inputs) != 4:
        raise Unsupported("the attention has dropout, biases or additive scores, which the GPU kernels do not support")
    return operation


def head_columns(query: ValueType, value: ValueType, *columns: int) -> HeadColumns:
    """Return the columns of all heads, given the types of queries and values [batch, heads, n, width].

    `columns` contains the first column of queries, keys and values.
    """
    (_, count, _, d_k), (_, kv_count, _, d_v) = query.shape, value.shape
    if max(d_k.constant, d_v.constant) > MAX_HEAD_WIDTH:
        raise Unsupported(f"attention heads have more than {MAX_HEAD_WIDTH} features, the limit of the GPU kernels")
    return HeadColumns(count.constant, kv_count.constant, d_k.constant, d_v.constant, *columns)


def columns(graph: Graph, heads: Node, *, whole: bool = False) -> tuple[str, int]:
    """Return the name of the value from which a node takes its heads, and the first column of the heads in this value.

    Args:
        graph: The graph that contains the node.
        heads: The node that splits features into heads.
        whole: If the features are a slice of a slice, whether to return the original value, which is not a slice.
    """
    if not isinstance(heads.operation, SplitHeads):
        raise Unsupported("the model rotates queries and keys, which the GPU kernels do not support")
    (name,), first = heads.inputs, 0
    while (part := graph.by_name[name].operation.sliced_range()) and part[0] == -1:
        name, first = graph.by_name[name].inputs[0], first + part[1]
        if not whole:
            break
    return name, first


def fuse_kernels(graph: Graph) -> Graph:
    """Fuse groups of operations, such as a projection and ReLU, into operations with one GPU kernel each."""
    sites, nodes, unbiased = Counter[str](), list[Node](), set[str]()

    def sole(name: str) -> Node | None:
        """Return the node that computes a value, or None if the value is an input or has several readers."""
        return graph.by_name.get(name) if graph.uses[name] == 1 else None

    def biased_product(name: str) -> Node | None:
        """Return `sole(name)` if this node is a projection with a bias, otherwise None."""
        node = sole(name)
        return node if node and node.operation.is_projection and len(node.parameters) == 2 else None

    for node in graph.nodes:
        site = sites[node.layer]
        match node.operation:
            case LayerNorm(epsilon=epsilon):
                inputs, parameters, probability = node.inputs, node.parameters, 0.0
                total = sole(node.inputs[0])
                if total and isinstance(total.operation, Add):
                    (x, y), dropped = total.inputs, sole(total.inputs[1])
                    if dropped and isinstance(dropped.operation, Dropout):
                        y, probability = dropped.inputs[0], dropped.operation.dropout
                    inputs = (x, y)
                    if product := biased_product(y):
                        parameters = (*parameters, product.parameters[1])
                        unbiased.add(y)
                fused = ResidualNorm(epsilon, len(inputs) == 2, probability, site)
                inputs = (*inputs, "seed") if probability else inputs
                node = replace(node, operation=fused, inputs=inputs, parameters=parameters)
            case Dropout(dropout=probability):
                node = replace(node, operation=SeededDropout(probability, site), inputs=(*node.inputs, "seed"))
            case Relu():
                if product := biased_product(node.inputs[0]):
                    node = replace(node, operation=LinearRelu(), inputs=product.inputs, parameters=product.parameters)
            case _:
                node = join_loss(graph, node, WholeCrossEntropy)
        sites[node.layer] += node.operation.dropout > 0
        nodes.append(node)
    nodes = [replace(node, parameters=node.parameters[:1]) if node.name in unbiased else node for node in nodes]
    with_seed = {**graph.inputs, "seed": ValueType((), ValueKind.INTEGER)}
    return infer_types(prune(replace(graph, nodes=tuple(nodes), inputs=with_seed)))
