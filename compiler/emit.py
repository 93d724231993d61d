"""Writes a graph as readable PyTorch: one function for each kind of layer, and one that calls them in order.

Layers whose code comes out the same share one function, so that compiling it once serves them all. Every function
takes `w`, the parameters as a tree of modules (`w.encoder[0].self_attention.query`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from compiler import operation as op
from compiler.graph import Graph, GraphError, Node, Purpose
from compiler.size import Size

WIDTH = 110
HEADER = """\
import math

import torch
from torch.nn.functional import embedding, layer_norm, linear, relu

from compiler.runtime import (
    causal_mask,
    chunked_loss,
    dropout,
    fused_attention,
    padding_mask,
    pick,
    quantised_linear,
    sinusoids,
    smoothed_loss,
    unwritten_mask,
    written,
)
"""


@dataclass
class Code:
    """Emitted code: source text, with the names of its layer functions and of the function of each purpose."""

    layers: dict[str, str] = field(default_factory=dict)
    """Function name -> its text."""
    main: dict[str, str] = field(default_factory=dict)
    """Purpose -> the text of the function of that name."""

    def __str__(self) -> str:
        return "\n\n".join([HEADER, *self.layers.values(), *self.main.values()])

    def layer(self, kind: str, body: str) -> str:
        """The name of the function with this body, one that is there already if there is one."""
        for number in range(1, len(self.layers) + 2):
            name = kind if number == 1 else f"{kind}_{number}"
            text = f"def {name}{body}"
            if self.layers.setdefault(name, text) == text:
                return name
        raise GraphError(f"no name is left for {kind}")


def emit(graphs: Iterable[Graph]) -> Code:
    """The code of these graphs, which share their layer functions where they can."""
    code = Code()
    for graph in graphs:
        code.main[graph.purpose] = _Main(graph, code).text()
    return code


_SUFFIXES = {(Purpose.DECODE_STEP, "decoder"): "_step", (Purpose.ENCODE, "decoder"): "_memory"}
"""Layers that are not the whole layer of the paper say what they are."""


class _Main:
    """Writes the function of one graph: what lies outside of the layers line by line, each layer as a call."""

    def __init__(self, graph: Graph, code: Code) -> None:
        self.graph, self.code = graph, code
        self.names = {name: f'inputs["{name}"]' if "." in name else name for name in graph.inputs}

    def text(self) -> str:
        plain = [name for name in self.graph.inputs if "." not in name]
        lines = [f"def {self.graph.purpose}(w, inputs):"]
        lines += [f'{", ".join(plain)} = {", ".join(f"""inputs["{name}"]""" for name in plain)}']
        masks = self._masks()
        for layer, nodes in groupby(self.graph.nodes, lambda node: node.layer):
            if layer:
                lines += masks
                masks = []
                lines.append(self._call(layer, list(nodes)))
            else:
                for run in self._runs(nodes):
                    for node in run:
                        self._name(node.name)
                    lines += _lines(run, self.names, _parameter_path)
        outputs = [f'    "{output}": {self.names[value]},' for output, value in self.graph.outputs.items()]
        return "\n    ".join([*lines, "return {", *outputs, "}"]) + "\n"

    def _masks(self) -> list[str]:
        values: dict[str, str] = {}
        for node in self.graph.nodes:
            for mask in _masks_of(node):
                values.setdefault(mask, self._mask(mask, node))
        return [f"{mask} = {values[mask]}" for mask in sorted(values)]

    def _mask(self, mask: str, node: Node) -> str:
        if mask == "causal":
            return "causal_mask(given)"
        if mask != "unwritten":
            return f"padding_mask({mask.removesuffix('_padding')})"
        cache = next(self.names[name] for name in self.graph.carried)
        assert isinstance(node.operation, op.Attention)
        grown = node.operation.cached is op.Cached.GROWN
        return f"unwritten_mask(position, {cache}.shape[2]{' + 1' if grown else ''}, grown={grown})"

    def _runs(self, nodes: Iterable[Node]) -> Iterator[list[Node]]:
        """The nodes in order; slices that together are a whole value stand together, as they are one line."""
        for _, group in groupby(nodes, lambda node: _cut(node) or node.name):
            run = list(group)
            if len(run) > 1 and self._is_whole(run):
                yield run
            else:
                yield from ([node] for node in run)

    def _is_whole(self, slices: list[Node]) -> bool:
        dimension = slices[0].operation.dimension  # type: ignore[attr-defined]
        bounds = [(s.operation.start, s.operation.stop) for s in slices]  # type: ignore[attr-defined]
        whole = self.graph.types[slices[0].inputs[0]].shape[dimension]
        ends = [0, *(stop for _, stop in bounds)]
        return [start for start, _ in bounds] == ends[:-1] and whole == Size.of(ends[-1])

    def _name(self, value: str, name: str | None = None) -> str:
        self.names[value] = name or value.replace(".", "_")
        return self.names[value]

    def _call(self, layer: str, nodes: list[Node]) -> str:
        """Writes the layer's function, if it is a new one, and returns the line that calls it."""
        made = {node.name for node in nodes}
        outside = list(dict.fromkeys(i for node in nodes for i in node.inputs if i not in made))
        masks = sorted({mask for node in nodes for mask in _masks_of(node)})
        used = {i for node in self.graph.nodes if node.name not in made for i in node.inputs}
        used |= set(self.graph.outputs.values())
        results = [node.name for node in nodes if node.name in used]
        whole = [i for i in outside if i in self.graph.inputs and self.graph.inputs[i].kind is op.Kind.INTEGER]
        body, arguments = _layer_function(layer, list(self._runs(nodes)), outside, masks, results, whole)
        stack, number = layer.split(".")
        name = self.code.layer(stack + "_layer" + _SUFFIXES.get((self.graph.purpose, stack), ""), body)
        given = [self.names[value] for value in arguments] + masks
        tree = f"w.{stack}[{number}]"
        new = [self._name(r, layer.replace(".", "_") if len(results) == 1 else None) for r in results]
        return _wrapped(f"{', '.join(new)} = {name}(", [tree, *given])


def _wrapped(start: str, given: list[str]) -> str:
    """A call on one line, or with a line to each argument where that would be too long."""
    line = f"{start}{', '.join(given)})"
    return line if len(line) <= WIDTH else start + "".join(f"\n        {g}," for g in given) + "\n    )"


def _layer_function(
    layer: str, runs: list[list[Node]], outside: list[str], masks: list[str], results: list[str], whole: list[str]
) -> tuple[str, list[str]]:
    """The text after the function's name, free of the layer's own number, and the values it must be called with.

    `whole` are inputs of the graph that keep their names, such as `position`.
    """
    names = {node.name: node.name.removeprefix(f"{layer}.") for run in runs for node in run}
    for value in outside:
        if value.startswith(f"{layer}."):
            names[value] = value.removeprefix(f"{layer}.")
        elif value in whole:
            names[value] = value
        else:
            # A layer runs on what the layer below gives; a decoder's also on the memory.
            names[value] = "memory" if "x" in names.values() else "x"
    arguments = sorted(outside, key=lambda value: (value.startswith(f"{layer}."), outside.index(value)))

    def path(parameter: str) -> str:
        return "w." + parameter.removeprefix(f"{layer}.")

    lines = [f"({', '.join(['w', *(names[a] for a in arguments), *masks])}):"]
    for run in runs:
        lines += _lines(run, names, path)
    lines.append(f"return {', '.join(names[result] for result in results)}")
    return "\n    ".join(lines) + "\n", arguments


def _parameter_path(name: str) -> str:
    return "w." + name


def _masks_of(node: Node) -> list[str]:
    if not isinstance(node.operation, op.Attention):
        return []
    padding = [f"{node.operation.padding}_padding"] if node.operation.padding else []
    causal = ["causal"] if node.operation.causal else []
    return [*padding, *causal, *(["unwritten"] if node.operation.cached else [])]


def _lines(run: list[Node], names: Mapping[str, str], path: Callable[[str], str]) -> list[str]:
    """The lines of a node, or of slices that are one; the last gives the value its name."""
    node, name = run[0], names[run[0].name]
    if len(run) > 1:
        return [_split(run, names)]
    given = [names[i] for i in node.inputs] + [path(p) for p in node.parameters]
    if isinstance(node.operation, op.Attention):
        *before, last = _attention(node.operation, name, _masks_of(node), *given)
    else:
        before, last = [], _RULES[type(node.operation)](node, *given)
    return [*before, f"{name} = {last}"]


def _cut(node: Node) -> tuple[str, int] | None:
    """What a slice is cut from, and along which dimension."""
    return (node.inputs[0], node.operation.dimension) if isinstance(node.operation, op.Slice) else None


def _split(slices: list[Node], names: Mapping[str, str]) -> str:
    """One call for all: the gradient of a slice alone is a tensor of the whole's size, nearly all of it zeros."""
    whole, dimension = _cut(slices[0]) or ("", -1)
    widths = [s.operation.stop - s.operation.start for s in slices]  # type: ignore[attr-defined]
    parts = [names[s.name] for s in slices]
    how = f"chunk({len(widths)}, {dimension})" if len(set(widths)) == 1 else f"split({widths}, {dimension})"
    line = f"{', '.join(parts)} = {names[whole]}.{how}"
    return (
        line
        if len(line) <= WIDTH
        else "".join(["(", *(f"\n        {p}," for p in parts), f"\n    ) = {names[whole]}.{how}"])
    )


def _attention(o: op.Attention, name: str, masks: list[str], query: str, key: str, value: str) -> list[str]:
    if o.kernel is op.Kernel.FUSED:
        mask = " | ".join(masks) or "None"
        return [f"fused_attention({query}, {key}, {value}, {mask}, {o.scale!r})"]
    weights = name.replace("context", "weights")
    lines = [f"{weights} = {_scaled(query, o.scale)} @ {key}.mT"]
    if masks:
        lines.append(f"{weights} = {weights}.masked_fill({' | '.join(masks)}, -math.inf)")
    lines.append(f"{weights} = torch.softmax({weights}, dim=-1)")
    if o.dropout:
        lines.append(f"{weights} = dropout({weights}, {o.dropout!r}, w.training)")
    return [*lines, f"{weights} @ {value}"]


def _scaled(x: str, scale: float) -> str:
    return x if scale == 1.0 else f"({x} * {scale!r})"


def _linear(node: Node, x: str, matrix: str, bias: str | None = None) -> str:
    return f"linear({x}, {matrix}.T, {bias})" if bias else f"{x} @ {matrix}"


def _position(node: Node, x: str, *rest: str) -> str:
    start = next((r for r in rest if not r.startswith("w.")), None)
    table = next((r for r in rest if r.startswith("w.")), None)
    if table is None:
        return f"{x} + sinusoids({x}{f', {start}' if start else ''})"
    return f"{x} + {table}[{start}]" if start else f"{x} + {table}[: {x}.shape[1]]"


def _slice(node: Node, x: str) -> str:
    o = node.operation
    assert isinstance(o, op.Slice)
    part = f"{o.start or ''}:{'' if o.stop is None else o.stop}"
    dots = "..., " if o.dimension == -1 else ":, " * o.dimension
    return f"{x}[{dots}{part}]"


_RULES: Mapping[type[op.Operation], Callable[..., str]] = {
    op.Embed: lambda n, tokens, table: _scaled(f"embedding({tokens}, {table})", n.operation.scale),
    op.Position: _position,
    op.Slice: _slice,
    op.Linear: _linear,
    op.Logits: lambda n, x, table: f"{x} @ {table}.T",
    op.SplitHeads: lambda n, x: f"{x}.unflatten(-1, ({n.operation.heads}, -1)).transpose(1, 2)",
    op.MergeHeads: lambda n, x: f"{x}.transpose(1, 2).flatten(2)",
    op.QuantisedLinear: lambda n, x, matrix, scales, bias=None: (
        f"quantised_linear({', '.join(filter(None, (x, matrix, scales, bias)))})"
    ),
    op.QuantisedLogits: lambda n, x, table, scales: f"quantised_linear({x}, {table}.T, {scales})",
    op.FoldBeams: lambda n, x: f"{x}.flatten(0, 1).unsqueeze(1)",
    op.UnfoldBeams: lambda n, x, like: f"{x}.view(*{like}.shape, -1)",
    op.Write: lambda n, cache, new, position: f"written({cache}, {new}, {position})",
    op.Append: lambda n, cache, new: f"torch.cat([{cache}, {new}], dim=2)",
    op.Add: lambda n, x, y: f"{x} + {y}",
    op.Norm: lambda n, x, gain, bias: (
        f"layer_norm({x}, ({n.type.shape[-1].constant},), {gain}, {bias}, {n.operation.epsilon!r})"
    ),
    op.Activation: lambda n, x: f"relu({x})",
    op.Dropout: lambda n, x: f"dropout({x}, {n.operation.probability!r}, w.training)",
    op.LogSoftmax: lambda n, x: f"{x}.float().log_softmax(dim=-1)",
    op.Pick: lambda n, x, labels: f"pick({x}, {labels})",
    op.Loss: lambda n, x, labels: (
        f"smoothed_loss({x}, {labels}, {n.operation.smoothing!r}, {n.operation.wrong_classes})"
    ),
    op.ChunkedLoss: lambda n, x, labels, table: (
        f"chunked_loss({x}, {table}, {labels}, "
        f"{n.operation.smoothing!r}, {n.operation.wrong_classes}, {n.operation.classes})"
    ),
}
