"""What a drawing of graphs shows: a box an operation, layers that repeat once, an encoder's column and a decoder's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from compiler.graph import Graph, Node, Purpose
from compiler.operations.operation import Kind, Type


@dataclass(eq=False)
class Box:
    """An operation, with those that only dress its result (dropout, an activation, the norm after an addition)."""

    kind: str
    title: str
    detail: str
    shape: str
    column: int = 0
    sources: list[Box] = field(default_factory=list)
    """The boxes whose results it reads; views between them are not drawn."""
    inputs: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A layer with the number of times that it comes, or with an empty label what lies outside of layers."""

    label: str
    times: int = 1
    boxes: list[Box] = field(default_factory=list)

    def rows(self) -> list[list[Box]]:
        """Its boxes from the bottom up: each above all that it reads, beside those that read the same."""
        row: dict[Box, int] = {}
        for box in self.boxes:
            row[box] = 1 + max((row[s] for s in box.sources if s in row), default=-1)
        for box in reversed(self.boxes):  # what reads another column alone stands just below what reads it
            if box.sources and all(source.column != box.column for source in box.sources):
                row[box] = max(row[box], min((row[b] for b in self.boxes if box in b.sources), default=0) - 1)
        return [[box for box in self.boxes if row[box] == place] for place in range(1 + max(row.values()))]


@dataclass
class Column:
    blocks: list[Block] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    """Name and shape of what leaves the figure at its top."""


def columns(graphs: Sequence[Graph]) -> tuple[Column, Column]:
    """The encoder's and the decoder's column of one graph that has both, or of a graph for each."""
    found = (Column(), Column())
    made: dict[str, Box | str] = {}
    for graph in graphs:
        inputs = {name: made.get(name, name) for name in graph.inputs}
        made = _drawn(graph, dict(inputs), found)
        for name, value in graph.outputs.items():
            box = made[value]
            made[name] = box
            if name not in graph.inputs and isinstance(box, Box) and graph.purpose is not Purpose.ENCODE:
                found[box.column].outputs[name] = _shape(graph.types[value])
    return found


def _drawn(graph: Graph, made: dict[str, Box | str], found: tuple[Column, Column]) -> dict[str, Box | str]:
    """Adds the boxes of a graph, and says in which box each value is made."""
    first, uses = _repeats(graph), Counter(i for node in graph.nodes for i in node.inputs)
    late = _after_target(graph)
    for layer, group in groupby(graph.nodes, lambda node: node.layer):
        nodes = list(group)
        if layer and first[layer] != layer:
            found[_column(graph, nodes[0], late)].blocks[-1].times += 1
            made |= {n.name: made[first[layer] + n.name.removeprefix(layer)] for n in nodes}
            continue
        blocks: dict[int, Block] = {}
        for node in nodes:
            before = made[node.inputs[0]] if node.inputs else ""
            if node.operation.caption is None:
                made[node.name] = before
            elif isinstance(before, Box) and uses[node.inputs[0]] == 1 and _dresses(node, before, blocks.values()):
                before.title += f"{' &' if before.title == 'Add' else ','} {_words(graph, node)[1]}"
                made[node.name] = before
            else:
                column = _column(graph, node, late)
                if column not in blocks:
                    blocks[column] = Block(layer)
                    found[column].blocks.append(blocks[column])
                made[node.name] = box = _box(graph, node, column, [made[i] for i in node.inputs])
                blocks[column].boxes.append(box)
    return made


def _box(graph: Graph, node: Node, column: int, given: list[Box | str]) -> Box:
    kind, title, detail = _words(graph, node)
    sources = list(dict.fromkeys(g for g in given if isinstance(g, Box)))
    inputs = [g for g in given if isinstance(g, str)]
    detail = ", ".join(filter(None, (_name(node), detail)))
    return Box(kind, title, detail, _shape(node.type), column, sources, inputs)


def _name(node: Node) -> str:
    """What a weights file calls its matrix, else what the graph calls its result."""
    name = next(iter(node.parameters), node.name.rstrip("_0123456789")).removeprefix(f"{node.layer}.")
    name = name.removesuffix("_rows").removesuffix("_int8").removesuffix(".norm_gain")
    return "" if name in _PLAIN else ": ".join(name.replace("_", " ").split(".")[-2:])


def _dresses(node: Node, box: Box, blocks: Iterable[Block]) -> bool:
    """Whether it is drawn as a part of the box that it reads, which must stand in one of these blocks."""
    if not any(box in block.boxes for block in blocks):
        return False
    kinds = node.operation.dresses
    return kinds is None or box.kind in kinds


def _repeats(graph: Graph) -> dict[str, str]:
    """Of each layer the first of those that are alike and follow one another."""
    first: dict[str, str] = {}
    before: tuple[str, object] = ("", None)
    for layer, group in groupby((node for node in graph.nodes if node.layer), lambda node: node.layer):
        alike = (
            layer.partition(".")[0],
            [(n.name.removeprefix(layer), repr(n.operation), n.type, len(n.parameters)) for n in group],
        )
        first[layer] = first[before[0]] if alike == before[1] else layer
        before = (layer, alike)
    return first


def _after_target(graph: Graph) -> set[str]:
    """The values that what has been translated so far has a part in."""
    late = {"target", "token"}
    for node in graph.nodes:
        if late.intersection(node.inputs):
            late.add(node.name)
    return late


def _column(graph: Graph, node: Node, late: set[str]) -> int:
    if graph.purpose in (Purpose.ENCODE, Purpose.DECODE_STEP):
        return int(graph.purpose is Purpose.DECODE_STEP)
    return int(node.layer.startswith("decoder") if node.layer else node.name in late)


def _shape(type_: Type) -> str:
    return f"[{', '.join(map(str, type_.shape))}]"


def _words(graph: Graph, node: Node) -> tuple[str, str, str]:
    """Its kind, which is its colour, then what it is called and what else there is to say."""
    kind, title = node.operation.caption or ("", "")
    sizes = [size for shape in graph.shapes(node)[:1] for size in shape]
    into = ""
    if len(sizes) == 2 and node.operation.products([graph.types[i] for i in node.inputs], graph.shapes(node)).terms:
        # The wider one of a table of logits stands first, and is what comes out.
        into = f" {sizes[0]} → {sizes[1]}" if kind in ("linear", "int8") else f" {sizes[1]} → {sizes[0]}"
    return kind, title + into, node.operation.detail([_detail(graph, i) for i in node.inputs])


def _detail(graph: Graph, value: str) -> str:
    """What is to be said of an input: what made it says that of a mask; else its name."""
    made = next((node for node in graph.nodes if node.name == value), None)
    if made is None:
        return value
    return made.operation.detail(made.inputs) if made.type.kind is Kind.MASK else ""


_PLAIN = {"placed", "residual", "memory_residual", "context", "memory_context", "log_softmax", "picked", "loss"}
"""Names of results that say no more than what made them."""
