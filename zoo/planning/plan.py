"""What a spec means before anything runs: its layers, parameters, FLOPs, memory and disk (no torch is loaded)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from compiler import TRANSLATE, Graph, Graphs, Purpose, cost, emit, graphs, lower, paths
from compiler.drawing import draw
from compiler.graph import Node
from compiler.operations.embedding import Embed
from compiler.operations.operation import Kind
from compiler.operations.projection import Logits
from compiler.size import Size, product
from specs import Spec
from zoo.files.output import open_output, require_svg
from zoo.planning.footprint import footprint
from zoo.planning.rewriting import Rewriting, at, rewritings

LENGTH = 27
"""Tokens of a sentence where nobody says: an English sentence of newstest2014 and its EOS, in word tokens."""


@dataclass(frozen=True)
class Layer:
    """A layer of the lowered graph: the shape of what it gives, the parameters that no layer before it has."""

    name: str
    shape: str
    parameters: int
    flops: str
    """Of its matrix products in a forward pass: a polynomial of batch, source and target."""
    flops_a_token: float


@dataclass(frozen=True)
class Positions:
    """How the positions of a stack come to know of one another (Table 1), on sentences of the plan's length."""

    stack: str
    steps: int
    """Of a layer: its longest chain of operations over positions, each of which waits for the one before."""
    path: int | None
    """Operations over positions on the shortest path between the furthest ones; None where there is none."""
    reach: int
    """How far apart positions can be that the whole stack connects."""


@dataclass(frozen=True)
class Plan:
    """Sizes in bytes of float32 unless said; FLOPs count a multiply-add of matrix products as two.

    `length` is the number of tokens that each sentence is taken to have, source and target alike.
    """

    name: str
    length: int
    beam: int
    layers: tuple[Layer, ...]
    passes: tuple[Rewriting, ...]
    positions: tuple[Positions, ...]
    parameters: int
    program_parameters: int
    """After all passes."""
    flops: str
    flops_a_token: float
    """Of a forward pass over a pair, for each of its target tokens."""
    step_flops: int
    """Of a training step on a full batch, forward and backward."""
    weight_bytes: int
    state_bytes: int
    """In training: weights, gradients and Adam's moments."""
    activation_bytes: int
    """In training, of one part of a full batch: what is kept for the backward pass."""
    cache_bytes: int
    """In decoding, of one hypothesis of `length` tokens: its keys and values, and those of the memory."""
    disk_bytes: int
    """Of a run at its most: checkpoints and weights."""


def plan(spec: Spec, length: int = LENGTH) -> Plan:
    """The plan of a spec for sentences of `length` tokens. Raises ZooError for a pass that is not known."""
    train, whole = lower(spec, Purpose.TRAIN), cost(lower(spec, Purpose.TRAIN))
    final, needs = _final(spec), footprint(spec, length)
    sizes = {"batch": 1, "source": length, "target": length}
    return Plan(
        name=spec.name,
        length=length,
        beam=spec.decoding.beam,
        layers=tuple(_layers(train, sizes)),
        passes=rewritings(spec, length),
        positions=tuple(_positions(train, stack, length) for stack in ("encoder", "decoder")),
        parameters=whole.parameters,
        program_parameters=cost(final[Purpose.TRAIN]).parameters,
        flops=str(whole.flops),
        flops_a_token=whole.flops(**sizes) / length,
        step_flops=needs.step_flops,
        weight_bytes=whole.weight_bytes,
        state_bytes=needs.state_bytes,
        activation_bytes=needs.activation_bytes,
        cache_bytes=_cache_bytes(final, length),
        disk_bytes=needs.disk_bytes,
    )


def code(spec: Spec) -> str:
    """The PyTorch that the spec becomes after all passes, for training, scoring and translating."""
    return str(emit(_final(spec).values()))


def draw_to(spec: Spec, file: Path, length: int = LENGTH) -> Path:
    """Draws Figure 1 of the paper for this spec, after all passes: as it is trained, and as it translates.

    Raises ZooError unless the file's name ends in .svg and it can be written.
    """
    require_svg(file)
    final, whole = _final(spec), cost(lower(spec, Purpose.TRAIN))
    flops = whole.flops(batch=1, source=length, target=length) / length
    panels = {
        "As it is trained": [final[Purpose.TRAIN]],
        f"As it translates, in {spec.compilation.precision}": [final[Purpose.ENCODE], final[Purpose.DECODE_STEP]],
    }
    title = f"{spec.name}: {whole.parameters:,} parameters, {flops:,.0f} FLOPs a target token"
    with open_output(file) as stream:
        stream.write(draw(panels, title))
    return file


def _final(spec: Spec) -> Graphs:
    """The graphs of all purposes after all passes. What is trained and what translates is rewritten apart."""
    return {**graphs(spec, [Purpose.TRAIN]), **graphs(spec, TRANSLATE)}


def _layers(graph: Graph, sizes: dict[str, int]) -> Iterator[Layer]:
    """The layers in order; what lies between them is called by what it does."""
    seen: set[str] = set()
    for name, group in groupby(graph.nodes, key=lambda node: node.layer):
        nodes = list(group)
        flops = sum((_products(graph, node) for node in nodes), Size())
        new = {parameter for node in nodes for parameter in node.parameters} - seen
        seen |= new
        result = _result(nodes)
        yield Layer(
            name=name or result.name if not isinstance(result.operation, Embed) else _side(result),
            shape=str(result.type).removeprefix("f"),
            parameters=sum(graph.parameters[parameter].count for parameter in new),
            flops=str(flops),
            flops_a_token=flops(**sizes) / sizes["target"],
        )


def _positions(graph: Graph, stack: str, length: int) -> Positions:
    nodes = [node for node in graph.nodes if node.layer.startswith(f"{stack}.")]
    made = {node.name for node in nodes}
    start = next(i for i in nodes[0].inputs if i not in made and graph.types[i].kind is Kind.FLOAT)
    given = graph, start, nodes[-1].name, length
    return Positions(stack, paths.steps(graph, length, nodes[0].layer), paths.path(*given), paths.furthest(*given))


def _result(nodes: Sequence[Node]) -> Node:
    """The node that a segment is there for: an embedding, the logits, or a layer's last."""
    named = [node for node in nodes if isinstance(node.operation, Embed | Logits)]
    return named[0] if named else nodes[-1]


def _side(node: Node) -> str:
    return "source embedding" if str(node.type.shape[1]) == "source" else "target embedding"


def _products(graph: Graph, node: Node) -> Size:
    types = graph.types
    return node.operation.products(tuple(types[name] for name in node.inputs), graph.shapes(node))


def _cache_bytes(final: Graphs, length: int) -> int:
    encode, step = final[Purpose.ENCODE], final[Purpose.DECODE_STEP]
    sizes = at(step, 1, length)
    memory = sum(4 * product(step.inputs[name].shape)(**sizes) for name in step.inputs if name in encode.outputs)
    # The last step's own keys and values are in it.
    return cost(step).cache_bytes(**{**sizes, "read": length}) + memory
