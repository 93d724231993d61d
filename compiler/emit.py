"""Writes a graph as readable PyTorch: one function for each kind of layer, and one that calls them in order.

Layers whose code comes out the same share one function, so that compiling it once serves them all. Every function
takes `w`, the parameters as a tree of modules (`w.encoder[0].self_attention.query`).
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from compiler.graph import Graph, Node, Purpose
from compiler.operations.operation import GraphError, Kind, Line
from compiler.operations.views import Slice
from compiler.size import Size

WIDTH = 110


@dataclass
class Code:
    """Emitted code: source text, with the names of its layer functions and of the function of each purpose."""

    layers: dict[str, str] = field(default_factory=dict)
    """Function name -> its text."""
    main: dict[str, str] = field(default_factory=dict)
    """Purpose -> the text of the function of that name."""
    calls: set[str] = field(default_factory=set)
    """What the operations say that their code calls, each as `module.function`."""

    def __str__(self) -> str:
        functions = [*self.layers.values(), *self.main.values()]
        return "\n\n".join([self._header("\n\n".join(functions)), *functions])

    def _header(self, text: str) -> str:
        """The imports of what is called in the text."""
        used = sorted(call.rpartition(".") for call in self.calls if f"{call.rpartition('.')[2]}(" in text)
        lines = [f"import {module}" for module in ("math", "torch") if f"{module}." in text]
        for module, found in groupby(used, lambda call: call[0]):
            names = [name for *_, name in found]
            line = f"from {module} import {', '.join(names)}"
            wrapped = f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"
            lines.append(line if len(line) <= WIDTH else wrapped)
        return "\n".join(lines) + "\n"

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
        code.calls.update(call for node in graph.nodes for call in node.operation.calls)
        code.main[graph.purpose] = _Main(graph, code).text()
    return code


_SUFFIXES = {(Purpose.DECODE_STEP, "decoder"): "_step", (Purpose.ENCODE, "decoder"): "_memory"}
"""Layers that are not the whole layer of the paper say what they are."""


class _Names:
    """What values are called in a function: each by a name of its own that means nothing else there."""

    def __init__(self, code: Code) -> None:
        self.of: dict[str, str] = {}
        self._taken = {"w", "inputs", "math", "torch", *(call.rpartition(".")[2] for call in code.calls)}

    def new(self, wish: str) -> str:
        """The name that is nearest to the wish."""
        wish = re.sub(r"\W", "_", wish, flags=re.ASCII)
        if not _is_plain(wish) or re.search(r"_layer(_|$)", wish):
            wish = f"v_{wish}"
        name, number = wish, 1
        while name in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._taken.add(name)
        return name

    def beside(self, name: str, part: str) -> str:
        """A new name of the same kind: memory_context -> memory_weights"""
        return self.new("_".join(filter(None, (name.rpartition("_")[0], part))))

    def give(self, value: str, wish: str) -> str:
        """A new name for a value."""
        self.of[value] = self.new(wish)
        return self.of[value]


class _Main:
    """Writes the function of one graph: what lies outside of the layers line by line, each layer as a call."""

    def __init__(self, graph: Graph, code: Code) -> None:
        self.graph, self.code, self.names = graph, code, _Names(code)

    def text(self) -> str:
        plain = [name for name in self.graph.inputs if _is_plain(name) and self.names.new(name) == name]
        of = self.names.of
        of.update({name: name if name in plain else f"inputs[{json.dumps(name)}]" for name in self.graph.inputs})
        lines = [f"def {self.graph.purpose}(w, inputs):"]
        if plain:
            lines.append(f"{', '.join(plain)} = " + ", ".join(f'inputs["{name}"]' for name in plain))
        for layer, nodes in groupby(self.graph.nodes, lambda node: node.layer):
            if layer:
                lines += self._call(layer, list(nodes))
            else:
                lines += _body(self.graph, list(nodes), self.names, lambda name: name, _path)
        results = [f"    {json.dumps(name)}: {of[value]}," for name, value in self.graph.results.items()]
        return "\n    ".join([*lines, "return {", *results, "}"]) + "\n"

    def _call(self, layer: str, nodes: list[Node]) -> Iterator[str]:
        """Writes the layer's function, if it is a new one, and gives the line that calls it."""
        made = {node.name for node in nodes}
        used = {i for node in self.graph.nodes if node.name not in made for i in node.inputs}
        results = [node.name for node in nodes if node.name in used.union(self.graph.results.values())]
        if not results:
            return
        function = _Layer(self.graph, self.code, layer, nodes, results)
        stack, number = layer.split(".")
        name = self.code.layer(stack + "_layer" + _SUFFIXES.get((self.graph.purpose, stack), ""), function.text)
        given = [self.names.of[v] for v in function.values] + [_path(p) for p in function.parameters]
        wishes = [layer] if len(results) == 1 else results
        new = [self.names.give(result, wish) for result, wish in zip(results, wishes, strict=True)]
        yield _wrapped(f"{', '.join(new)} = {name}(", [f"w.{stack}[{number}]", *given])


class _Layer:
    """The function of a layer: its text after its name, free of the layer's own number, and what it must be given."""

    def __init__(self, graph: Graph, code: Code, layer: str, nodes: list[Node], results: list[str]) -> None:
        self.own, self.names, types = f"{layer}.", _Names(code), graph.types
        made = {node.name for node in nodes}
        outside = list(dict.fromkeys(i for node in nodes for i in node.inputs if i not in made))
        order = {value: place for place, value in enumerate(outside)}
        self.values = sorted(outside, key=lambda v: (types[v].kind is Kind.MASK, v.startswith(self.own), order[v]))
        """Of the graph, in the order in which it takes them."""
        self.parameters = list(
            dict.fromkeys(p for node in nodes for p in node.parameters if not p.startswith(self.own))
        )
        """Those that are not the layer's own."""
        unnamed = iter(["x", "memory"])
        for value in self.values:
            if value.startswith(self.own) or types[value].kind is not Kind.FLOAT:
                self.names.give(value, self._relative(value))
            else:  # a layer runs on what the layer below gives; a decoder's also on the memory
                self.names.give(value, next(unnamed, "x"))
        shared = {p: self.names.new(p) for p in self.parameters}
        given = [*(self.names.of[value] for value in self.values), *shared.values()]

        def path(parameter: str) -> str:
            return shared.get(parameter) or _path(self._relative(parameter))

        lines = [
            _wrapped("(", ["w", *given], WIDTH - len(layer) - 20) + ":",
            *_body(graph, nodes, self.names, self._relative, path),
        ]
        self.text = "\n    ".join([*lines, f"return {', '.join(self.names.of[r] for r in results)}"]) + "\n"

    def _relative(self, name: str) -> str:
        return name.removeprefix(self.own)


def _is_plain(name: str) -> bool:
    """Whether Python takes it for a name, and for no other one (of `ﬁ` it makes `fi`)."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _path(parameter: str) -> str:
    """a.0.b -> w.a[0].b"""
    path = "w"
    for part in parameter.split("."):
        named = f"{path}.{part}" if _is_plain(part) else f"getattr({path}, {part!r})"
        path = f"{path}[{part}]" if part.isdecimal() else named
    return path


def _wrapped(start: str, given: Sequence[str], width: int = WIDTH) -> str:
    """A call on one line, or with a line to each argument where that would be too long."""
    line = f"{start}{', '.join(given)})"
    return line if len(line) <= width else start + "".join(f"\n        {g}," for g in given) + "\n    )"


def _body(
    graph: Graph, nodes: list[Node], names: _Names, wish: Callable[[str], str], path: Callable[[str], str]
) -> Iterator[str]:
    """The lines of nodes; slices that together are a whole value are one, as the gradient of a slice is not cheap."""
    for _, group in groupby(nodes, _cut):
        run = list(group)
        if len(run) > 1 and _is_whole(run, graph):
            whole = names.of[run[0].inputs[0]]
            yield _split(run, [names.give(node.name, wish(node.name)) for node in run], whole)
            continue
        for node in run:
            inputs, parameters = [names.of[i] for i in node.inputs], [path(p) for p in node.parameters]
            name = names.give(node.name, wish(node.name))
            line = Line(node.type, partial(names.beside, name))
            last = node.operation.emit(line, inputs, parameters)
            yield from line.before
            yield f"{name} = {last}"


def _cut(node: Node) -> tuple[str, int] | str:
    """What a slice is cut from, and along which dimension; of all else its own name."""
    return (node.inputs[0], node.operation.dimension) if isinstance(node.operation, Slice) else node.name


def _is_whole(run: list[Node], graph: Graph) -> bool:
    slices = [node.operation for node in run if isinstance(node.operation, Slice)]
    ends = [0, *(each.stop or 0 for each in slices)]
    whole = graph.types[run[0].inputs[0]].shape[slices[0].dimension]
    return [each.start for each in slices] == ends[:-1] and whole == Size.of(ends[-1]) and min(ends) >= 0


def _split(run: list[Node], parts: list[str], whole: str) -> str:
    """One call for all: the gradient of a slice alone is a tensor of the whole's size, nearly all of it zeros."""
    slices = [node.operation for node in run if isinstance(node.operation, Slice)]
    dimension = slices[0].dimension
    widths = [(each.stop or 0) - each.start for each in slices]
    how = f"chunk({len(widths)}, {dimension})" if len(set(widths)) == 1 else f"split({widths}, {dimension})"
    line = f"{', '.join(parts)} = {whole}.{how}"
    return (
        line if len(line) <= WIDTH else "".join(["(", *(f"\n        {p}," for p in parts), f"\n    ) = {whole}.{how}"])
    )
