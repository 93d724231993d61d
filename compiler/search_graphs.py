"""Graphs for a beam search on a GPU: an encoder on packed rows, and a decoder step on slots.

The graphs are derived from a compiled model's own graphs for the encoder and the decoder step. They have the same
parameters in the same layout, so all these graphs share one copy of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.graph import Graph, Graphs, Purpose, infer_types, prune
from compiler.instruction import Unsupported
from compiler.lowering.positions import PositionalEncoding
from compiler.operations.gpu import (
    LinearRelu,
    NormLinear,
    Part,
    ReadState,
    ResidualNorm,
    SlotCrossAttention,
    SlotEmbedding,
    SlotParents,
    SlotSelfAttention,
    StepLinear,
    WriteState,
)
from compiler.operations.operation import MaskRole, Node, ValueKind, ValueType
from compiler.operations.views import MergeHeads, Slice
from compiler.passes import graphs
from compiler.passes.pack_rows import columns, fuse_kernels, head_columns, pack, plain_attention
from compiler.size import ONE, Size
from specs import Spec

_PASSES = ("beams_as_queries", "plan_cache", "choose_attention")
"""Passes that would hide the operations that `_on_slots` replaces. They do not change parameters."""
MEMORY, SLOTS, CACHE, LOGITS = "memory", "slots", "cache", "logits"
"""Names of the encoder's output, of the step's inputs (slots, and the cache of a layer), and of the step's output."""
_PARENTS = "slot_parents"


def search_graphs(spec: Spec, purposes: Iterable[Purpose], precision: str) -> Graphs:
    """Return the graphs for a beam search on a GPU, for the purposes ENCODE and DECODE_STEP.

    Args:
        spec: The model's spec.
        purposes: All purposes of the compiled model. They determine how the parameters are stored.
        precision: The precision of the compiled model.

    Raises:
        Unsupported: A part of the model has no GPU kernel. The message gives the reason.
    """
    if not spec.architecture.encoder:
        raise Unsupported("the model has no encoder")
    if spec.architecture.source.kind != "tokens":
        raise Unsupported("the model's source is not text")
    disabled = (*spec.compilation.disabled_passes, *_PASSES)
    compilation = spec.compilation.model_copy(update={"disabled_passes": disabled})
    plain = graphs(spec.model_copy(update={"compilation": compilation}), purposes, "cuda", precision)
    encode, step = plain[Purpose.ENCODE], plain[Purpose.DECODE_STEP]
    step, memory = _on_slots(encode, step)
    encode = prune(replace(encode, outputs={MEMORY: memory}))
    return {Purpose.ENCODE: fuse_kernels(pack(encode)), Purpose.DECODE_STEP: _fuse_products(fuse_kernels(step))}


def _fuse_products(graph: Graph) -> Graph:
    """Fuse each norm with the matrix product that follows. One kernel computes both if there are few hypotheses."""
    nodes, readers = list[Node](), dict[str, list[tuple[Node, StepLinear]]]()
    for node in graph.nodes:
        if node.operation.is_projection:
            linear = StepLinear(relu=isinstance(node.operation, LinearRelu))
            node = replace(node, operation=linear)
            readers.setdefault(node.inputs[0], []).append((node, linear))
        nodes.append(node)
    joined, parts = dict[str, Node](), list[Node]()
    for node in nodes:
        norm, products = node.operation, readers.get(node.name, [])
        if isinstance(norm, ResidualNorm) and len(products) == 1:
            ((product, linear),), name, width = products, f"{node.name}_and_product", node.type.shape[-1].constant
            both = NormLinear(norm, linear, len(node.parameters))
            parts.append(replace(node, name=name, operation=both, parameters=(*node.parameters, *product.parameters)))
            node = replace(node, operation=Part(-1, 0, width), inputs=(name,), parameters=())
            joined[product.name] = replace(product, operation=Part(-1, width, None, 1), inputs=(name,), parameters=())
        parts.append(joined.get(node.name, node))
    return infer_types(replace(graph, nodes=tuple(parts)))


def _on_slots(encode: Graph, step: Graph) -> tuple[Graph, str]:
    """Rewrite the graph of a decoder step so that it operates on slots (see `compiler.slots`).

    Return the new graph, and the name of the encoder value that contains the keys and values of cross-attention.
    """
    slots = {SLOTS: ValueType((ONE,), ValueKind.INTEGER)}
    graph = replace(step, inputs={**step.inputs, **slots}, states={})
    rows = step.inputs["token"].shape[0]
    nodes = [Node(_PARENTS, SlotParents(rows), (SLOTS,), (), ValueType((rows,), ValueKind.INTEGER))]
    shapes = {name: step.inputs[name].shape for name in step.states}
    # States with a constant number of positions, as in an RNN.
    recurrent = {n: state for n, state in step.states.items() if not shapes[n][state.length_axis].symbols}
    current = {name: f"{name}_read" for name in recurrent}
    nodes += [Node(current[name], ReadState(), (name, _PARENTS), (), step.inputs[name]) for name in recurrent]
    memory = set[str]()
    positioned = {node.inputs[0] for node in step.nodes if isinstance(node.operation, PositionalEncoding)}
    for node in step.nodes:
        node = replace(node, inputs=tuple(current.get(name, name) for name in node.inputs))
        if isinstance(node.operation, MergeHeads):
            attention = step.by_name[node.inputs[0]]
            if attention.inputs[-1] in step.by_name:  # the mask of cross-attention is an input
                node, cache = _self_attention(step, node, attention)
                graph = replace(graph, inputs={**graph.inputs, **cache})
            else:
                node, projected = _cross_attention(step, encode, node, attention)
                memory.add(projected)
        elif isinstance(node.operation, PositionalEncoding) or (
            node.inputs == ("token",) and node.name not in positioned
        ):
            node = _embedding(step, node)
        nodes.append(node)
    if len(memory) != 1:
        raise Unsupported("cross-attention keys and values are computed separately: enable the `fuse_memory` pass")
    (output,) = (node for node in nodes if node.name == step.outputs["log_probabilities"])
    outputs = {LOGITS: output.inputs[0]}
    for name, state in recurrent.items():
        last, written = f"{name}_last", f"{name}_written"
        kept = Slice(state.length_axis, 1)  # without the oldest position
        nodes.append(Node(last, kept, (state.value,), (), step.inputs[name]))
        nodes.append(Node(written, WriteState(), (name, last), (), step.inputs[name]))
        outputs[written] = written
    graph = prune(replace(graph, nodes=tuple(nodes), outputs=outputs))
    for node in graph.nodes:
        unknown = set(node.inputs) & (step.inputs.keys() - recurrent.keys())
        if node.operation.mask_role is not None or unknown:
            raise Unsupported(f"the decoder uses {type(node.operation).__name__}, which the GPU kernels do not support")
    return infer_types(graph), memory.pop()


def _embedding(step: Graph, node: Node) -> Node:
    """Fuse the token embedding and the positional encoding into one operation."""
    positions = node.operation if isinstance(node.operation, PositionalEncoding) else None
    embedded, learned = (step.by_name[node.inputs[0]], node.parameters) if positions else (node, ())
    if embedded.inputs != ("token",):
        raise Unsupported("the model changes embeddings before adding positions, which the GPU kernels do not support")
    slots = SlotEmbedding(node.type.shape[0], embedded.operation.scale, positions)
    return replace(node, operation=slots, inputs=(SLOTS,), parameters=(*embedded.parameters, *learned))


def _self_attention(step: Graph, merged: Node, attention: Node) -> tuple[Node, dict[str, ValueType]]:
    """Fuse self-attention into one operation, which looks up the cache rows of each hypothesis in the slots.

    Return the fused node, and the graph input for the cache.
    """
    scale, by_name = plain_attention(attention).scale, step.by_name
    query, keys, values, mask = (by_name[name] for name in attention.inputs)
    reads_cache = keys.operation.appends_to_cache and values.operation.appends_to_cache
    if not reads_cache or mask.operation.mask_role is not MaskRole.UNWRITTEN:
        raise Unsupported("the decoder attends to something other than a cache, which the GPU kernels do not support")
    key, value = by_name[keys.inputs[1]], by_name[values.inputs[1]]
    (q, q_column), (k, k_column), (v, v_column) = (columns(step, each) for each in (query, key, value))
    heads = head_columns(query.type, value.type, q_column, k_column, v_column)
    width = heads.kv_count * (heads.d_k + heads.d_v)
    fits = q == k == v and v_column == k_column + heads.kv_count * heads.d_k
    if not fits or step.types[k].shape[-1] != Size.of(k_column + width):
        raise Unsupported("queries, keys and values are computed separately: enable the `fuse_projections` pass")
    name = f"{attention.layer}.{CACHE}"
    cache = {name: ValueType((step.types[k].shape[0], ONE, Size.of(width)))}
    return replace(merged, operation=SlotSelfAttention(heads, scale), inputs=(k, name, SLOTS)), cache


def _cross_attention(step: Graph, encode: Graph, merged: Node, attention: Node) -> tuple[Node, str]:
    """Fuse cross-attention into one node. Return the node, and the encoder value that contains its keys and values."""
    scale = plain_attention(attention).scale
    query, (_, key_name, value_name, _) = step.by_name[attention.inputs[0]], attention.inputs
    if not {key_name, value_name} <= encode.outputs.keys():
        raise Unsupported("the decoder projects the encoder output in each step: enable the `hoist_memory` pass")
    key, value = (encode.by_name[encode.outputs[name]] for name in (key_name, value_name))
    q, q_column = columns(step, query)
    (k, k_column), (v, v_column) = (columns(encode, each, whole=True) for each in (key, value))
    if k != v:
        raise Unsupported("cross-attention keys and values are computed separately: enable the `fuse_memory` pass")
    heads = head_columns(query.type, value.type, q_column, k_column, v_column)
    return replace(merged, operation=SlotCrossAttention(heads, scale), inputs=(q, SLOTS)), k
