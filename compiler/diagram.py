"""Content of a model diagram: boxes for operations, in one column for the encoder and one for the decoder.

Identical consecutive layers are drawn once, with the number of repetitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from compiler.graph import Graph, Purpose
from compiler.operations.operation import Node, ValueKind, ValueType


@dataclass(eq=False)
class Box:
    """Box for an operation in a model diagram.

    Dropout, activations, and a norm after an addition have no separate box. Their names are added to the title of
    the box whose result they read.
    """

    kind: str
    title: str
    detail: str
    shape: str
    column: int = 0
    sources: list[Box] = field(default_factory=list)
    """Boxes whose results this operation reads. Views, such as slices, have no box."""
    inputs: list[str] = field(default_factory=list)


@dataclass
class Block:
    """Boxes of a layer that the model repeats `times` times. If the label is empty, the boxes belong to no layer."""

    label: str
    times: int = 1
    boxes: list[Box] = field(default_factory=list)

    def rows(self) -> list[list[Box]]:
        """Return the boxes in rows, from bottom to top. Each box is above the boxes whose results it reads."""
        row: dict[Box, int] = {}
        for box in self.boxes:
            row[box] = 1 + max((row[s] for s in box.sources if s in row), default=-1)
        for box in reversed(self.boxes):  # a box that reads only the other column goes just below its reader
            if box.sources and all(source.column != box.column for source in box.sources):
                row[box] = max(row[box], min((row[b] for b in self.boxes if box in b.sources), default=0) - 1)
        return [[box for box in self.boxes if row[box] == index] for index in range(1 + max(row.values()))]


@dataclass
class Column:
    """Column of a model diagram, for the encoder or the decoder."""

    blocks: list[Block] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    """Shape of each output, keyed by name. Outputs are drawn at the top of the column."""


def columns(graphs: Sequence[Graph]) -> tuple[Column, Column]:
    """Return the columns of a model diagram: one for the encoder, and one for the decoder.

    Args:
        graphs: One graph with both the encoder and the decoder (for training or scoring), or one graph for each.
    """
    result = (Column(), Column())
    boxes: dict[str, Box | str] = {}
    for graph in graphs:
        boxes = _add_boxes(graph, {name: boxes.get(name, name) for name in graph.inputs}, result)
        for name, value in graph.outputs.items():
            box = boxes[value]
            boxes[name] = box
            if name not in graph.inputs and isinstance(box, Box) and graph.purpose is not Purpose.ENCODE:
                result[box.column].outputs[name] = _shape(graph.types[value])
    return result


def _add_boxes(graph: Graph, boxes: dict[str, Box | str], result: tuple[Column, Column]) -> dict[str, Box | str]:
    """Add the boxes of a graph to the columns in `result`.

    Args:
        graph: The graph to draw.
        boxes: For each input of the graph, its box in an earlier graph, or its name if it has no box.
        result: The columns for the encoder and the decoder.

    Returns:
        For each value, its box. An input without a box is mapped to its name.
    """
    first, uses = _first_of_repeats(graph), Counter(i for node in graph.nodes for i in node.inputs)
    target_values = _depend_on_target(graph)
    for layer, group in groupby(graph.nodes, lambda node: node.layer):
        nodes = list(group)
        if layer and first[layer] != layer:
            result[_column(graph, nodes[0], target_values)].blocks[-1].times += 1
            boxes |= {n.name: boxes[first[layer] + n.name.removeprefix(layer)] for n in nodes}
            continue
        blocks: dict[int, Block] = {}
        for node in nodes:
            before = boxes[node.inputs[0]] if node.inputs else ""
            if node.operation.caption is None:
                boxes[node.name] = before
            elif isinstance(before, Box) and uses[node.inputs[0]] == 1 and _joins(node, before, blocks.values()):
                before.title += f"{' &' if before.title == 'Add' else ','} {_labels(graph, node)[1]}"
                boxes[node.name] = before
            else:
                column = _column(graph, node, target_values)
                if column not in blocks:
                    blocks[column] = Block(layer)
                    result[column].blocks.append(blocks[column])
                boxes[node.name] = box = _box(graph, node, column, [boxes[i] for i in node.inputs])
                blocks[column].boxes.append(box)
    return boxes


def _box(graph: Graph, node: Node, column: int, inputs: list[Box | str]) -> Box:
    kind, title, detail = _labels(graph, node)
    sources = list(dict.fromkeys(i for i in inputs if isinstance(i, Box)))
    detail = ", ".join(filter(None, (_label(node), detail)))
    return Box(kind, title, detail, _shape(node.type), column, sources, [i for i in inputs if isinstance(i, str)])


def _label(node: Node) -> str:
    """Return the label of a node: the name of its first parameter or, without parameters, the name of its result."""
    name = next(iter(node.parameters), node.name.rstrip("_0123456789")).removeprefix(f"{node.layer}.")
    name = name.removesuffix("_rows").removesuffix("_int8").removesuffix(".norm_gain")
    return "" if name in _UNINFORMATIVE else ": ".join(name.replace("_", " ").split(".")[-2:])


def _joins(node: Node, box: Box, blocks: Iterable[Block]) -> bool:
    """Return whether a node is drawn in `box`, the box of its input. Return False if no block contains this box."""
    kinds = node.operation.joins_boxes
    return any(box in block.boxes for block in blocks) and (kinds is None or box.kind in kinds)


def _first_of_repeats(graph: Graph) -> dict[str, str]:
    """Map each layer to the first layer in its sequence of identical consecutive layers."""
    first: dict[str, str] = {}
    previous: tuple[str, object] = ("", None)
    for layer, group in groupby((node for node in graph.nodes if node.layer), lambda node: node.layer):
        content = (
            layer.partition(".")[0],
            [(n.name.removeprefix(layer), repr(n.operation), n.type, len(n.parameters)) for n in group],
        )
        first[layer] = first[previous[0]] if content == previous[1] else layer
        previous = (layer, content)
    return first


def _depend_on_target(graph: Graph) -> set[str]:
    """Return the names of all values that depend on the target sentence."""
    values = {"target", "token"}
    for node in graph.nodes:
        if values.intersection(node.inputs):
            values.add(node.name)
    return values


def _column(graph: Graph, node: Node, target_values: set[str]) -> int:
    """Return the column of a node: 0 for the encoder, or 1 for the decoder."""
    if graph.purpose in (Purpose.ENCODE, Purpose.DECODE_STEP):
        return int(graph.purpose is Purpose.DECODE_STEP)
    return int(node.layer.startswith("decoder") if node.layer else node.name in target_values)


def _shape(type_: ValueType) -> str:
    return f"[{', '.join(map(str, type_.shape))}]"


def _labels(graph: Graph, node: Node) -> tuple[str, str, str]:
    """Return three strings for a node's box: its kind (which selects the colour), its title and its details."""
    kind, title = node.operation.caption or ("", "")
    sizes = [size for shape in graph.shapes(node)[:1] for size in shape]
    change = ""
    if len(sizes) == 2 and node.operation.matmul_flops([graph.types[i] for i in node.inputs], graph.shapes(node)).terms:
        # A vocabulary table has the shape [outputs, inputs]. Any other matrix has the shape [inputs, outputs].
        change = f" {sizes[0]} → {sizes[1]}" if kind in ("linear", "int8") else f" {sizes[1]} → {sizes[0]}"
    return kind, title + change, node.operation.describe([_describe_input(graph, i) for i in node.inputs])


def _describe_input(graph: Graph, value: str) -> str:
    """Return the name of a graph input, or the description of a mask. For any other value, return an empty string."""
    node = graph.by_name.get(value)
    if node is None:
        return value
    return node.operation.describe(node.inputs) if node.type.kind is ValueKind.MASK else ""


_UNINFORMATIVE = {
    *("positioned", "residual", "cross_residual", "context", "cross_context", "log_softmax", "picked", "loss")
}
"""Names of results that are not drawn, because they add no information to the title of the box."""
