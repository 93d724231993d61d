"""Plan of a spec: layers, parameters, FLOPs, memory, disk space and the effect of each compiler pass.

This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from compiler import PASSES, TRANSLATE, Graph, Graphs, Purpose, cost, costs, emit, graphs, lower
from compiler.costs import memory_traffic
from compiler.operations.operation import Node, ValueKind
from compiler.size import BEAMS, Size
from specs import Spec
from zoo.planning.memory_estimate import LENGTH, MemoryEstimate, batch_rows, estimate_memory

_EMPTY = Graph(Purpose.ENCODE, {}, (), {})
"""Graph in place of an encoder or a decoder step that a model does not have."""


@dataclass(frozen=True)
class LayerPlan:
    """Layer of the network, with its output shape, parameters and FLOPs."""

    name: str
    shape: str
    """Shape of the layer's output."""
    parameters: int
    """Number of parameters, excluding parameters that are shared with an earlier layer."""
    flops: str
    """FLOPs of the matrix products in a forward pass, as a formula with the sizes `batch`, `source` and `target`."""
    flops_per_token: float


@dataclass(frozen=True)
class StackPositions:
    """Sequential operations and path lengths (Table 1) in the encoder or decoder, for `Plan.length` tokens."""

    stack: str
    steps: int
    """Number of sequential operations in a layer: the length of the longest chain of operations along the sequence."""
    path: int | None
    """Number of operations on the shortest path between the most distant positions. None if there is no path."""
    reach: int
    """Largest distance between two positions that all layers together connect."""


@dataclass(frozen=True)
class GraphSizes:
    """Total cost of a spec's graphs before or after a compiler pass, for sentences of `Plan.length` tokens."""

    operations: int
    flops: int
    """FLOPs of the matrix products to translate one sentence with the spec's beam. A multiply-add counts as two."""
    weight_bytes: int
    """Size of the weights for translating, in bytes. A matrix that several graphs use counts once."""
    step_bytes: int
    """Memory traffic in the last decoding step for one sentence, in bytes."""
    activation_bytes: int
    """Size of the activations that are stored for the backward pass of one accumulation step, in bytes."""


@dataclass(frozen=True)
class PassEffect:
    """Compiler pass, and the total cost of all graphs before and after the pass, in the spec's precision."""

    name: str
    summary: str
    exact: bool
    before: GraphSizes
    after: GraphSizes


@dataclass(frozen=True)
class Plan(MemoryEstimate):
    """Parameters, FLOPs and memory of a spec's model.

    Sizes in bytes are for float32. A multiply-add counts as two FLOPs.
    """

    name: str
    length: int
    """Number of tokens in every sentence, on the source and the target side."""
    beam: int
    layers: tuple[LayerPlan, ...]
    positions: tuple[StackPositions, ...]
    parameters: int
    program_parameters: int
    """Number of parameters after all compiler passes."""
    flops: str
    flops_per_token: float
    """FLOPs of a forward pass over a sentence pair, divided by its target tokens."""
    weight_bytes: int
    cache_bytes: int
    """Memory for one hypothesis of `length` tokens in decoding: keys and values of self- and cross-attention."""


def plan(spec: Spec, length: int = LENGTH) -> Plan:
    """Compute the layers, parameters, FLOPs, memory and disk space of a spec's model.

    Args:
        spec: Spec of the model.
        length: The number of tokens in every sentence.

    Raises:
        ZooError: The spec disables a compiler pass that does not exist.
    """
    train, whole = lower(spec, Purpose.TRAIN), cost(lower(spec, Purpose.TRAIN))
    final = _final_graphs(spec)
    sizes = {"batch": 1, "source": length, "target": length}
    return Plan(
        **asdict(estimate_memory(spec, length)),
        name=spec.name,
        length=length,
        beam=spec.decoding.beam,
        layers=tuple(_layers(train, sizes)),
        positions=tuple(
            _positions(train, stack, length) for stack in ("encoder", "decoder") if getattr(spec.architecture, stack)
        ),
        parameters=whole.parameters,
        program_parameters=cost(final[Purpose.TRAIN]).parameters,
        flops=str(whole.flops),
        flops_per_token=whole.flops(**sizes) / length,
        weight_bytes=whole.weight_bytes,
        cache_bytes=_cache_bytes(final, length),
    )


def code(spec: Spec) -> str:
    """Generate the PyTorch code for training, scoring and translating with a spec, after all compiler passes."""
    return str(emit(_final_graphs(spec).values()))


def pass_effects(spec: Spec, length: int) -> tuple[PassEffect, ...]:
    """Return the graph sizes before and after each enabled compiler pass, in the order in which the passes run."""
    train: Graphs = {Purpose.TRAIN: lower(spec, Purpose.TRAIN)}
    translate: Graphs = {purpose: lower(spec, purpose) for purpose in graphs(spec, TRANSLATE)}
    before, effects = graph_sizes({**train, **translate}, spec, length), []
    for compiler_pass in PASSES:
        if compiler_pass.name in spec.compilation.disabled_passes:
            continue
        train = compiler_pass.apply(train)
        translate = compiler_pass.apply(translate, precision=spec.compilation.precision)
        after = graph_sizes({**train, **translate}, spec, length)
        effects.append(PassEffect(compiler_pass.name, compiler_pass.summary, compiler_pass.exact, before, after))
        before = after
    return tuple(effects)


def graph_sizes(graphs: Graphs, spec: Spec, length: int) -> GraphSizes:
    """Return the total sizes of a spec's graphs for training and translation, if all sentences have `length` tokens."""
    encode, step = (graphs.get(purpose, _EMPTY) for purpose in (Purpose.ENCODE, Purpose.DECODE_STEP))
    flops, last = cost(step).flops, _last_step_sizes(step, spec.decoding.beam, length)
    _, part = batch_rows(spec, length)
    translate = [graphs[purpose] for purpose in TRANSLATE if purpose in graphs]
    parameters = {name: parameter for graph in translate for name, parameter in graph.parameters.items()}
    return GraphSizes(
        operations=sum(len(graph.nodes) for graph in graphs.values()),
        flops=cost(encode).flops(batch=1, source=length)
        + sum(flops(**{**last, "past": read, "capacity": read + 1}) for read in range(length)),
        weight_bytes=sum(parameter.bytes for parameter in parameters.values()),
        step_bytes=memory_traffic(step)(**last),
        activation_bytes=cost(graphs[Purpose.TRAIN]).activation_bytes(batch=part, source=length, target=length),
    )


def _last_step_sizes(step: Graph, beam: int, length: int) -> Mapping[str, int]:
    """Return the value of each symbolic size of a decoding graph, such as `source` and `past`.

    The values are for one sentence, in the last decoding step (step `length`).
    """
    has_beams = any(BEAMS in value.shape for value in step.inputs.values())
    rows = {"batch": 1, "beams": beam} if has_beams else {"batch": beam}
    return {**rows, "new": 1, "source": length, "past": length - 1, "capacity": length}


def _final_graphs(spec: Spec) -> Graphs:
    """Return the graphs for training and for translation after all compiler passes."""
    return {**graphs(spec, [Purpose.TRAIN]), **graphs(spec, TRANSLATE)}


def _layers(graph: Graph, sizes: dict[str, int]) -> Iterator[LayerPlan]:
    """Yield a `LayerPlan` for each layer. Consecutive nodes outside all layers form a segment and count as a layer."""
    seen: set[str] = set()
    for name, group in groupby(graph.nodes, key=lambda node: node.layer):
        nodes = list(group)
        flops = Size()
        for node in nodes:
            flops += node.operation.matmul_flops(tuple(graph.types[i] for i in node.inputs), graph.shapes(node))
        new = {parameter for node in nodes for parameter in node.parameters} - seen
        seen |= new
        # Look-ups of the embeddings of token IDs (section 3.4).
        look_ups = (node for node in nodes if node.parameters and graph.types[node.inputs[0]].kind is ValueKind.INTEGER)
        named = next(look_ups, None)
        logits = next((node for node in nodes if node.operation.is_vocabulary_projection), None)
        result = named or logits or nodes[-1]
        yield LayerPlan(
            name=f"{result.type.shape[1]} embedding" if named else name or _segment_name(graph, nodes, result),
            shape=str(result.type).removeprefix("f"),
            parameters=sum(graph.parameters[parameter].count for parameter in new),
            flops=str(flops),
            flops_per_token=flops(**sizes) / sizes["target"],
        )


def _segment_name(graph: Graph, nodes: Sequence[Node], result: Node) -> str:
    """Return the name of a segment: "source features" if it reads source features, otherwise its result's name."""
    features = [name for name, type_ in graph.inputs.items() if type_.kind is ValueKind.FLOAT]
    return "source features" if any(i in features for node in nodes for i in node.inputs) else result.name


def _positions(graph: Graph, stack: str, length: int) -> StackPositions:
    nodes = [node for node in graph.nodes if node.layer.startswith(f"{stack}.")]
    names = {node.name for node in nodes}
    start = next(i for i in nodes[0].inputs if i not in names and graph.types[i].kind is ValueKind.FLOAT)
    found = costs.connections(graph, start, nodes[-1].name, length)
    steps = costs.sequential_operations(graph, length, nodes[0].layer)
    return StackPositions(stack, steps, found.path_length if found.distance == length - 1 else None, found.distance)


def _cache_bytes(final: Graphs, length: int) -> int:
    encode, step = (final.get(purpose, _EMPTY) for purpose in (Purpose.ENCODE, Purpose.DECODE_STEP))
    sizes = _last_step_sizes(step, 1, length)
    memory = sum(step.inputs[name].bytes()(**sizes) for name in step.inputs if name in encode.outputs)
    # Includes the keys and values of the last step itself.
    return cost(step).cache_bytes(**{**sizes, "past": length}) + memory
